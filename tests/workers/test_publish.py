"""An advance: bounded, loses no event, says by name what it could not read, and needs no bell."""

from pathlib import Path
from typing import Any

import pytest
from rq.utils import import_attribute

from ledger import evidence
from ledger.bell import JOB
from ledger.bounds import Bounds
from pipeline.facts import Deliverable
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import Scene
from workers import publish, sweep, wiring


class CountingBell:
    """A bell that only counts: who rang, who answered."""

    def __init__(self) -> None:
        self.rung: list[str] = []
        self.answered: list[str] = []

    def ring(self, branch_id: str) -> None:
        self.rung.append(branch_id)

    def answer(self, branch_id: str) -> None:
        self.answered.append(branch_id)


def _scene(github: Sandbox, folder: Path, **bounds: Any) -> tuple[Scene, str, str]:
    """A task whose evidence is in, on a branch with a required check; its id and its head."""
    scene = Scene.set_up(github, folder, **bounds)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    assert scene.register().state == "ready"
    task = scene.task()
    return scene, task, scene.hands_in(scene.lease(), {"a.txt": "b\n"})


def test_the_job_that_a_ring_names_is_there() -> None:
    assert import_attribute(JOB) is publish.advance


def test_an_advance_answers_the_bell_and_rings_again_when_its_bound_ends_it(github: Sandbox, tmp_path: Path) -> None:
    scene, _, _ = _scene(github, tmp_path, advance_looks_max=2)
    bell = CountingBell()
    scene.ledger.bell = bell
    assert publish.advance_branch(scene.place, scene.branch) == 2
    assert bell.answered == [scene.branch]
    assert bell.rung[-1] == scene.branch
    bell.rung.clear()
    assert publish.advance_branch(scene.place, scene.branch) == 2, "gate, then a wait"
    publish.advance_branch(scene.place, scene.branch)
    assert bell.rung[2:] == [], "what waits rings no bell"


def test_without_any_bell_the_sweep_lands(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _scene(github, tmp_path)
    assert sweep.tick(scene.place) == 1
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    assert sweep.tick(scene.place) == 0, "it is not due yet, and nobody told"
    scene.later(Bounds().backoff_max_ms)
    assert sweep.tick(scene.place) == 1
    assert scene.state(task) is State.COMPLETED
    assert scene.repo.tip() == head


@pytest.mark.parametrize("path", ["/repos/acme/demo/rules/branches/main", "/repos/acme/demo/branches/main/protection"])
def test_rules_that_could_not_be_read_are_no_freedom(github: Sandbox, tmp_path: Path, path: str) -> None:
    scene, task, head = _scene(github, tmp_path)
    scene.advance()
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    github.orders.add("GET", path, status=502)
    tip = scene.repo.tip()
    scene.wake(head=head)
    assert scene.advance() == ["wait:unknown"]
    assert scene.why(task)["facts"]["fact"] == "rules"
    assert scene.repo.tip() == tip
    scene.wake(head=head)
    assert scene.advance() == ["land:gate_green"]


def test_a_token_that_cannot_be_had_is_a_wait_with_that_name(github: Sandbox, tmp_path: Path) -> None:
    scene, task, _ = _scene(github, tmp_path)
    github.orders.add("POST", "*/access_tokens", status=503)
    assert scene.advance() == ["wait:unknown"]
    assert scene.why(task)["facts"]["fact"] == "remote"
    assert scene.repo.pull_requests == {}


def test_a_waiting_publication_costs_no_call_within_its_back_off(github: Sandbox, tmp_path: Path) -> None:
    scene, _, _ = _scene(github, tmp_path)
    scene.advance()
    github.forget_calls()
    for _ in range(20):
        sweep.tick(scene.place)
    assert sum(github.calls().values()) == 0


def test_a_landing_costs_five_calls_from_the_green_check_to_the_proof(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _scene(github, tmp_path)
    scene.advance()
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    github.forget_calls()
    scene.wake(head=head)
    scene.advance()
    assert scene.state(task) is State.COMPLETED
    reports = {"POST /repos/{owner}/{repo}/check-runs", "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"}
    calls = {name: n for name, n in github.calls("installation:mac-hub").items() if not name.startswith("git ")}
    assert sum(calls.values()) == 5 + 2, f"five to land, and two afterwards to report it: {calls}"
    assert len(reports & calls.keys()) == 1


def test_a_report_is_judged_and_completes_its_task_without_touching_a_branch(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.register()
    task = scene.task("Which tests are slow?", Deliverable.REPORT)
    leased, refs = scene.lease(), scene.repo.git.run("for-each-ref")
    summary = "The five slowest tests all wait for one lock, in the order of their names."
    document = {"schema": "mac.evidence.v1", "kind": "operator_result", "summary": summary}
    evidence.submit(scene.ledger, leased.lease_id, leased.token, scene.worker, document)

    assert scene.advance() == ["run_gate:gate_not_run", "finish:report_approved"]

    assert scene.state(task) is State.COMPLETED
    assert scene.repo.git.run("for-each-ref") == refs


def test_a_change_whose_base_was_taken_off_the_branch_brings_it_not_back(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    scene.register()
    before, removed = scene.repo.tip(), scene.repo.commit(on="main", files={"wrong.txt": "wrong\n"})
    task = scene.task()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    scene.advance()
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.repo.git.run("update-ref", "refs/heads/main", before)

    scene.wake()
    assert scene.advance() == ["wait:unconfirmed"]
    scene.later(scene.place.bounds.confirm_ms)
    assert scene.advance() == ["send_back:canonical_moved"]

    assert scene.repo.tip() == before != removed, "green, and a fast-forward: and yet it does not land"
    assert scene.state(task) is State.OPEN


def test_a_look_reads_the_ledgers_time_and_no_other() -> None:
    assert "time" not in vars(wiring), "two clocks that differ make a gate younger than its intent"


def test_a_second_reading_is_taken_at_its_moment_and_not_at_the_next_tick(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _scene(github, tmp_path)
    scene.advance()
    scene.ci.reports(scene.repo, head, "ci/test", "failure")
    scene.wake(head=head)
    assert scene.advance() == ["wait:unconfirmed"]
    assert sweep.between_ticks(scene.place) == 0, "its moment has not come"
    scene.later(scene.place.bounds.confirm_ms + 1)
    assert sweep.between_ticks(scene.place) == 1
    assert scene.state(task) is State.BLOCKED
    scene.later(scene.place.bounds.backoff_max_ms)
    assert sweep.between_ticks(scene.place) == 0, "what waits by back-off is the tick's"
