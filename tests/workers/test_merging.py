"""Where pull requests are required and checks are strict, GitHub merges, and the hub settles it from the branch alone."""

import base64
import json
from pathlib import Path
from typing import Any

from ledger import proofs
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import Scene

MERGE = "/repos/acme/demo/pulls/1/merge"


def _waiting(github: Sandbox, folder: Path) -> tuple[Scene, str, str]:
    """A change whose pull request waits for its check; the task and its head."""
    scene = Scene.set_up(github, folder)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True, pull_request=True)
    assert scene.register().method == "merge_api"
    task = scene.task()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    assert scene.advance()[-1] == "wait:checks_pending"
    return scene, task, head


def _green(scene: Scene, head: str) -> list[str]:
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    return scene.advance()


def _proof(scene: Scene, task: str) -> dict[str, Any]:
    with scene.ledger.read() as tx:
        envelope = json.loads(proofs.proof_of(tx, task).envelope)
    found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    return found


def _merges(github: Sandbox) -> int:
    """Merge requests that reached GitHub; those that an order answered in its place are counted by the order."""
    return github.calls()["PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"]


def test_a_green_change_lands_through_the_merge_api_under_strict_protection(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _waiting(github, tmp_path)
    tip = scene.repo.tip()
    assert _green(scene, head) == ["land:gate_green"]
    assert scene.state(task) is State.COMPLETED
    proof = _proof(scene, task)
    assert (proof["method"], proof["tip_guard"]) == ("merge_api", "strict_protection")
    assert proof["landed_sha"] == scene.repo.tip()
    assert scene.repo.git.run("rev-parse", "main^1", "main^2").split() == [tip, head]
    assert list(scene.repo.refs("refs/mac/landings/")) == [f"refs/mac/landings/{proof['intent']}"], "marked for clones"
    assert _merges(github) == 1


def test_a_second_change_is_brought_up_to_date_tested_again_and_lands(github: Sandbox, tmp_path: Path) -> None:
    scene, first, head = _waiting(github, tmp_path)
    second = scene.task("Change c")
    other = scene.hands_in(scene.lease(), {"c.txt": "c\n"})
    assert scene.advance()[-1] == "wait:not_first"
    assert _green(scene, head)[0] == "land:gate_green"
    assert scene.state(first) is State.COMPLETED

    scene.wake(all_in_line=True)
    scene.advance()
    updated = scene.repo.tip(f"mac/{second.removeprefix('task_')}")
    assert updated != other, "the hub made an update commit"
    assert scene.repo.git.run("rev-parse", f"{updated}^1", f"{updated}^2").split() == [other, scene.repo.tip()]
    assert scene.state(second) is State.LANDING, "the new head waits for its own check"

    assert _green(scene, updated) == ["land:gate_green"]
    proof = _proof(scene, second)
    assert (proof["tested_sha"], proof["reviewed_head_sha"], proof["tip_guard"]) == (updated, other, "strict_protection")
    assert [u["commit"] for u in proof["updates"]] == [updated]
    assert proof["chain"]["sequence"] == 2


def test_a_merge_whose_answer_was_an_error_is_not_repeated_and_is_proven(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _waiting(github, tmp_path)
    github.orders.apply_then_answer("PUT", MERGE, 502)
    assert _green(scene, head)[0] == "land:gate_green"
    scene.advance()
    assert scene.state(task) is State.COMPLETED
    assert _merges(github) == 1


def test_a_merge_that_was_never_answered_is_void_only_once_no_request_can_be_under_way(
    github: Sandbox, tmp_path: Path
) -> None:
    scene, task, head = _waiting(github, tmp_path)
    tip = scene.repo.tip()
    lost = github.orders.answer("PUT", MERGE, 502)
    _green(scene, head)
    assert scene.state(task) is State.LANDING
    assert scene.why(task)["reason"] == "intent_unsettled"
    scene.later(scene.place.bounds.confirm_ms + 1)
    assert scene.advance() == ["confirm_landing:intent_unsettled"], "still waiting, and nothing sent again"
    assert (lost.used, _merges(github), scene.repo.tip()) == (1, 0, tip)

    scene.later(scene.place.bounds.land_slot_ms)
    assert "land:gate_green" in scene.advance()
    assert scene.state(task) is State.COMPLETED
    assert _merges(github) == 1


def test_a_base_that_was_modified_is_looked_at_again(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _waiting(github, tmp_path)
    words = {"message": "Base branch was modified. Review and try the merge again.", "documentation_url": "https://docs"}
    github.orders.answer("PUT", MERGE, 405, words, times=2)
    assert _green(scene, head)[0] == "land:gate_green"
    scene.later(1)
    scene.advance()
    assert scene.state(task) is State.COMPLETED
    assert _merges(github) == 1


def test_a_merge_that_the_branch_never_saw_is_no_landing(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _waiting(github, tmp_path)
    tip = scene.repo.tip()
    said = {"sha": "a" * 40, "merged": True, "message": "Pull Request successfully merged"}
    github.orders.answer("PUT", MERGE, 200, said)
    _green(scene, head)
    assert scene.why(task)["reason"] == "intent_unsettled"
    scene.later(scene.place.bounds.land_slot_ms + 1)
    scene.advance()
    assert scene.state(task) is State.BLOCKED
    assert scene.why(task)["reason"] == "landed_unproven"
    assert scene.repo.tip() == tip
