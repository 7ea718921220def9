"""The straight line, end to end: evidence to branch, pull request, gate, required check, landing, proof."""

from pathlib import Path

from ledger import proofs
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import Scene


def test_a_change_with_a_required_check_lands_and_is_proven(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    assert scene.register().state == "ready"
    task = scene.task()
    tip = scene.repo.tip()

    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    assert scene.advance() == [
        "propose:head_not_pushed",
        "propose:pull_request_absent",
        "run_gate:gate_not_run",
        "wait:checks_pending",
    ]
    assert scene.repo.tip() == tip, "nothing lands before its check"
    assert scene.repo.tip(f"mac/{task.removeprefix('task_')}") == head
    assert [p.head_sha for p in scene.repo.pull_requests.values()] == [head]

    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    assert scene.advance() == ["land:gate_green"]
    assert scene.repo.tip() == head
    assert scene.state(task) is State.COMPLETED
    with scene.ledger.read() as tx:
        assert proofs.proof_of(tx, task).sequence == 1
