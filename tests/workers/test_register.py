"""Registering a repository: what it takes, and what is said of one that cannot be worked on. Nothing is guessed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from ledger import projects, roster
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import Scene
from workers import register

Spoil = Callable[[Scene], None]


def _counts(scene: Scene) -> dict[str, int]:
    engine = create_engine(scene.ledger.engine.url)
    try:
        with engine.connect() as connection:
            names = inspect(connection).get_table_names()
            return {n: connection.execute(text(f"SELECT count(*) FROM {n}")).scalar_one() for n in names}
    finally:
        engine.dispose()


def test_a_repository_with_a_required_check_is_ready_and_lands_by_fast_forward(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)])
    project = scene.register()
    assert (project.state, project.method, project.markers_admitted) == ("ready", "fast_forward", True)
    assert project.repository_id == scene.repo.id
    assert project.contract == scene.repo.file(".mac/project.yaml")
    assert project.contract_blob == scene.repo.git.run("rev-parse", "main:.mac/project.yaml").strip()
    assert not scene.repo.refs("refs/mac/"), "the probe leaves nothing behind"


def test_the_method_is_the_contract_s_own_where_no_rule_decides(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path, method="squash")
    assert scene.register().method == "squash"


def _break_contract(scene: Scene) -> None:
    broken = "schema: mac.repository_contract.v1\nproject: demo\ntest:\n  command: 7\n"
    scene.repo.commit(files={".mac/project.yaml": broken})


def _drop_contract(scene: Scene) -> None:
    who = {f"GIT_{role}_{what}": "w" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    tree = scene.repo.git.run("mktree").strip()
    scene.repo.move("refs/heads/main", scene.repo.git.run("commit-tree", "-m", "Empty", tree, extra=who).strip())


def _force_pull_requests(scene: Scene) -> None:
    scene.repo.ruleset(pull_request=True)


def _refuse_markers(scene: Scene) -> None:
    scene.repo.record.ref_namespaces = ("refs/heads/", "refs/tags/")


def _no_branch(scene: Scene) -> None:
    scene.repo.move("refs/heads/main", None)


UNFIT: dict[str, tuple[Spoil, dict[str, object]]] = {
    "contract_broken": (_break_contract, {"line": 4, "path": ".mac/project.yaml"}),
    "contract_missing": (_drop_contract, {"path": ".mac/project.yaml"}),
    "no_guarded_method": (_force_pull_requests, {"branch": "main"}),
    "markers_refused": (_refuse_markers, {}),
    "branch_unknown": (_no_branch, {"branch": "main"}),
}


@pytest.mark.parametrize("code", UNFIT)
def test_a_repository_that_cannot_be_worked_on_is_refused_by_name(github: Sandbox, tmp_path: Path, code: str) -> None:
    spoil, facts = UNFIT[code]
    scene = Scene.set_up(github, tmp_path)
    spoil(scene)
    refs = scene.repo.refs("refs/heads/")
    project = scene.register()
    assert (project.state, project.refusal) == ("refused", code)
    assert {name: project.refusal_facts.get(name) for name in facts} == facts
    assert project.repository_id is None
    assert scene.repo.refs("refs/heads/") == refs, "reading a repository moves none of its branches"


def test_a_broken_contract_adds_no_row_but_its_history(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    _break_contract(scene)
    with scene.ledger.write() as tx:
        projects.register(tx, name="demo", owner="acme", repository="demo", actor="test")
        roster.worker(tx, "worker-1")
    before = _counts(scene)
    register.register_waiting(scene.place)
    after = _counts(scene)
    assert after == before | {"history": before["history"] + 1}


def test_an_app_that_is_not_installed_is_told_apart_from_a_forge_that_is_away(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.project = "elsewhere"
    with scene.ledger.write() as tx:
        projects.register(tx, name="elsewhere", owner="nobody", repository="nothing", actor="test")
    register.register_waiting(scene.place)
    with scene.ledger.read() as tx:
        found = projects.get(tx, "elsewhere")
    assert (found.state, found.refusal) == ("refused", "app_not_installed")


def test_a_forge_that_is_away_leaves_the_project_waiting(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    github.orders.add("GET", "/repos/acme/demo/installation", status=503)
    assert scene.register().state == "registering"
    register.register_waiting(scene.place)
    with scene.ledger.read() as tx:
        assert projects.get(tx, "demo").state == "ready"


def test_a_canonical_branch_among_the_hub_s_own_is_refused(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.commit(on="mac/main", files={"b.txt": "b\n"})
    with scene.ledger.write() as tx:
        projects.register(tx, name="own", owner="acme", repository="demo", canonical_branch="mac/main", actor="test")
    register.register_waiting(scene.place)
    with scene.ledger.read() as tx:
        assert projects.get(tx, "own").refusal == "field_invalid"


def test_an_app_that_could_go_around_the_rules_is_not_let_in(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    actor = {"actor_id": scene.hub.id, "actor_type": "Integration", "bypass_mode": "always"}
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], bypass_actors=[actor])
    project = scene.register()
    assert (project.state, project.refusal) == ("refused", "app_can_bypass")
