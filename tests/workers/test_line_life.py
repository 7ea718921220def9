"""The line meets life: tips that move, red checks, people who merge by hand, reports, contracts that change."""

from pathlib import Path
from typing import Any

import pytest

from ledger import evidence, orders, proofs, tasks
from pipeline.errors import Rejected
from pipeline.facts import Deliverable
from pipeline.refusals import Refusal
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import CONTRACT, Scene

SUMMARY = "The parser fails on dates before 1970, because the offset is read as unsigned; two callers rely on that."


def _plain(github: Sandbox, folder: Path, method: str = "merge") -> tuple[Scene, str]:
    """A project whose branch has no rules, and a task on it."""
    scene = Scene.set_up(github, folder, method=method)
    assert scene.register().method == method
    return scene, scene.task()


def _checked(github: Sandbox, folder: Path) -> tuple[Scene, str, str]:
    """A change that waits for its required check; the task and its head."""
    scene = Scene.set_up(github, folder)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    scene.register()
    task = scene.task()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    assert scene.advance()[-1] == "wait:checks_pending"
    return scene, task, head


def _twice(scene: Scene, **what: Any) -> list[str]:
    """Two looks, as far apart as two readings must be."""
    scene.wake(**what)
    first = scene.advance()
    scene.later(scene.place.bounds.confirm_ms + 1)
    return [*first, *scene.advance()]


def _has_proof(scene: Scene, task: str) -> bool:
    with scene.ledger.read() as tx:
        try:
            proofs.proof_of(tx, task)
        except Rejected:
            return False
        return True


@pytest.mark.parametrize("method", ["merge", "squash", "fast_forward"])
def test_without_rules_the_verifier_run_lands_it_as_the_contract_says(
    github: Sandbox, tmp_path: Path, method: str
) -> None:
    scene, task = _plain(github, tmp_path, method)
    tip = scene.repo.tip()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    assert scene.advance()[-1] == "land:gate_green"
    assert scene.state(task) is State.COMPLETED
    parents = scene.repo.git.run("log", "-1", "--format=%P", "main").split()
    assert parents == {"merge": [tip, head], "squash": [tip], "fast_forward": [tip]}[method]
    assert scene.repo.git.run("rev-parse", "main^{tree}") == scene.repo.git.run("rev-parse", f"{head}^{{tree}}")


def test_a_tip_that_moves_sends_the_same_task_back_and_it_lands_rebased(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    scene.repo.commit(files={"other.txt": "x\n"})
    moved = scene.repo.tip()
    assert "send_back:canonical_moved" in _twice(scene)
    assert scene.state(task) is State.OPEN
    assert scene.repo.tip() == moved, "nothing landed on a tip that it was not tested on"

    leased = scene.lease()
    assert leased.task.id == task
    assert leased.task.directive is not None
    assert leased.task.directive["code"] == "rebase_onto_tip"
    assert leased.task.attempts_left == 2, "a send-back is credited"
    scene.hands_in(leased, {"a.txt": "b\n"})
    assert scene.advance()[-1] == "land:gate_green"
    assert scene.state(task) is State.COMPLETED
    assert len(scene.repo.pull_requests) == 1, "one task, one pull request"


def test_a_third_send_back_blocks(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    for round_ in range(3):
        scene.hands_in(scene.lease(), {"a.txt": f"{round_}\n"})
        scene.repo.commit(files={"other.txt": f"{round_}\n"})
        _twice(scene)
    assert scene.state(task) is State.BLOCKED
    assert scene.why(task)["reason"] == "send_backs_spent"


def test_a_change_that_conflicts_is_sent_back(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    scene.repo.commit(files={"a.txt": "somebody else's\n"})
    assert "send_back:conflict" in _twice(scene)
    assert scene.repo.file("a.txt") == "somebody else's\n"
    assert scene.state(task) is State.OPEN


def test_a_red_check_blocks_with_one_reason_everywhere_and_ends_by_itself(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _checked(github, tmp_path)
    scene.ci.reports(scene.repo, head, "ci/test", "failure")
    assert _twice(scene, head=head)[-1] == "block:check_failed"
    assert scene.state(task) is State.BLOCKED
    assert scene.why(task)["reason"] == "check_failed"
    ours = [r for r in scene.repo.record.runs if r.name == "mac/landing"]
    assert [(r.conclusion, r.output.get("title")) for r in ours] == [("action_required", "block: check_failed")]

    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    assert "land:gate_green" in scene.advance()
    assert scene.state(task) is State.COMPLETED


def test_work_that_somebody_merged_by_hand_gets_no_proof(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _checked(github, tmp_path)
    scene.repo.move("refs/heads/main", head)
    assert _twice(scene, head=head)[-1] == "block:already_contained"
    assert scene.state(task) is State.BLOCKED
    assert not _has_proof(scene, task)
    scene.repo.move("refs/heads/main", scene.repo.git.run("rev-parse", f"{head}^").strip())
    assert "land:gate_green" not in _twice(scene), "a sticky block ends only by an operator's word"


def test_a_retargeted_pull_request_blocks_until_it_is_put_right(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _checked(github, tmp_path)
    (pull,) = scene.repo.pull_requests.values()
    scene.repo.commit(on="other", files={"z.txt": "z\n"})
    pull.base_ref = "other"
    assert _twice(scene, head=head)[-1] == "block:pull_request_retargeted"
    pull.base_ref = "main"
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    assert "land:gate_green" in scene.advance()
    assert scene.state(task) is State.COMPLETED


def test_a_head_that_somebody_pushed_is_not_of_the_evidence(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _checked(github, tmp_path)
    branch = f"mac/{task.removeprefix('task_')}"
    scene.repo.commit(on=branch, files={"a.txt": "smuggled\n"})
    smuggled = scene.repo.tip(branch)
    scene.ci.reports(scene.repo, smuggled, "ci/test", "success")
    assert _twice(scene)[-1] == "block:head_not_of_evidence"
    assert scene.repo.file("a.txt") == "a\n"
    assert scene.state(task) is State.BLOCKED
    assert head != smuggled


def test_a_report_is_completed_without_a_landing(github: Sandbox, tmp_path: Path) -> None:
    scene, _ = _plain(github, tmp_path)
    with scene.ledger.write() as tx:
        orders.cancel(tx, _only_task(scene), actor="test")
    report = scene.task("Look into dates", Deliverable.REPORT)
    tip = scene.repo.tip()
    leased = scene.lease()
    document = {"schema": "mac.evidence.v1", "kind": "operator_result", "summary": SUMMARY}
    evidence.submit(scene.ledger, leased.lease_id, leased.token, scene.worker, document)
    assert scene.advance() == ["run_gate:gate_not_run", "finish:report_approved"]
    assert scene.state(report) is State.COMPLETED
    assert (scene.repo.tip(), scene.repo.pull_requests, _has_proof(scene, report)) == (tip, {}, False)


def test_code_is_not_closed_by_prose(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    leased = scene.lease()
    document = {"schema": "mac.evidence.v1", "kind": "operator_result", "summary": SUMMARY}
    with pytest.raises(Rejected) as refused:
        evidence.submit(scene.ledger, leased.lease_id, leased.token, scene.worker, document)
    assert refused.value.refusal is Refusal.DELIVERABLE_MISMATCH
    assert scene.state(task) is State.CLAIMED


def test_a_change_that_edits_the_contract_waits_for_a_person(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    edited = CONTRACT.format(method="squash")
    tip = scene.repo.tip()
    scene.hands_in(scene.lease(), {".mac/project.yaml": edited})
    assert scene.advance()[-1] == "wait:contract_edited"
    assert scene.why(task)["owner"] == "person"
    assert scene.repo.tip() == tip


def test_a_change_that_takes_back_what_landed_lately_waits_for_a_person(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    scene.repo.commit(files={"a.txt": "landed lately\n"})
    scene.hands_in(scene.lease(), {"a.txt": "a\n"})
    assert scene.advance()[-1] == "wait:undoes_landed_lines"
    assert scene.repo.file("a.txt") == "landed lately\n"
    assert scene.state(task) is State.LANDING


def test_evidence_that_breaks_the_contract_is_returned_with_its_findings(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    scene.hands_in(scene.lease(), {"a.txt": "b\n"}, runs=[])
    assert scene.advance()[-1] == "return:verdict_rejected"
    leased = scene.lease()
    assert (leased.task.id, leased.attempt) == (task, 2)
    assert leased.task.directive is not None
    assert "run_missing" in str(leased.task.directive)


def test_a_contract_that_was_broken_at_the_base_blocks_with_its_line(github: Sandbox, tmp_path: Path) -> None:
    scene, task = _plain(github, tmp_path)
    scene.repo.commit(files={".mac/project.yaml": "schema: mac.repository_contract.v1\nproject: 7\n"})
    tip = scene.repo.tip()
    scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    decided = scene.advance()
    assert "block:contract_broken" in decided or scene.why(task)["facts"].get("why") == "contract_unreadable"
    assert scene.repo.tip() == tip
    assert not _has_proof(scene, task)


def test_a_stop_before_the_landing_ends_the_way(github: Sandbox, tmp_path: Path) -> None:
    scene, task, head = _checked(github, tmp_path)
    with scene.ledger.write() as tx:
        orders.stop(tx, task, actor="test")
    tip = scene.repo.tip()
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    scene.advance()
    assert scene.state(task) is State.STOPPED
    assert scene.repo.tip() == tip


def _only_task(scene: Scene) -> str:
    with scene.ledger.read() as tx:
        (only,) = tasks.list_page(tx).rows
        return only.id
