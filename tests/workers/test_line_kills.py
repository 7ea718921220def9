"""A process that dies at any step of a landing: the next one settles it from the remote. One landing, and one proof."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger import proofs
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.dying import Step, begun, killed_at, restarted
from tests.workers.roads import ALL, PUSHED, Ready, merged

PUSH = "/acme/demo.git/git-receive-pack"
MERGE = "/repos/acme/demo/pulls/1/merge"

BEFORE_THE_EFFECT = {
    "the intent was committed": Step("ledger.intents", "commit_intent"),
}
AFTER_A_PUSH = {
    "the push was answered": Step("workers.land", "land"),
    "the answer was noted": Step("ledger.intents", "observe"),
    "the proof was built": Step("ledger.proofs", "complete", "before"),
}
AFTER_A_MERGE = {
    "the merge was answered": Step("workers.merging", "merge"),
    "the answer was noted": Step("ledger.intents", "observe"),
    "the branch was read back": Step("workers.land", "read_back"),
    "the marker was put beside it": Step("workers.land", "mark_landed"),
    "the proof was built": Step("ledger.proofs", "complete", "before"),
}


def _landed_once(ready: Ready, *, voided: int) -> None:
    """The one end that every row of the table of ends has, whatever was in between."""
    assert ready.scene.state(ready.task) is State.COMPLETED
    (landed,) = ready.landed()
    proof = ready.proof()
    assert proof is not None
    assert (proof["landed_sha"], proof["expected_tip"], proof["chain"]["sequence"]) == (landed, ready.tip, 1)
    assert (ready.count("landed"), ready.count("intent_void")) == (1, voided)
    assert proof["intent"] in ready.markers(), "a clone alone can attribute it"
    assert ready.scene.advance() == [], "and nothing is left to do"


@pytest.mark.parametrize("road", PUSHED)
@pytest.mark.parametrize("step", BEFORE_THE_EFFECT)
def test_an_intent_whose_push_was_never_sent_is_void_and_another_lands(
    github: Sandbox, tmp_path: Path, road: str, step: str
) -> None:
    ready = ALL[road](github, tmp_path)
    killed_at(ready.scene, BEFORE_THE_EFFECT[step])
    assert (ready.landed(), ready.markers()) == ([], set())

    restarted(ready.scene)

    _landed_once(ready, voided=1)
    assert len(ready.markers()) == 2, "the void one is fenced for good"


@pytest.mark.parametrize("road", PUSHED)
@pytest.mark.parametrize("step", AFTER_A_PUSH)
def test_a_push_that_landed_is_found_and_proven(github: Sandbox, tmp_path: Path, road: str, step: str) -> None:
    ready = ALL[road](github, tmp_path)
    killed_at(ready.scene, AFTER_A_PUSH[step])
    assert len(ready.landed()) == 1
    assert ready.proof() is None, "landed, and nobody knows it yet"

    assert restarted(ready.scene)[0] == "confirm_landing:intent_unsettled"

    _landed_once(ready, voided=0)


@pytest.mark.parametrize("road", ALL)
def test_a_completion_that_stands_is_not_done_again(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    killed_at(ready.scene, Step("ledger.proofs", "complete"))
    assert ready.scene.state(ready.task) is State.COMPLETED, "proof and completion are one transaction"
    before = ready.proof()

    assert restarted(ready.scene) == []

    _landed_once(ready, voided=0)
    assert ready.proof() == before
    with ready.scene.ledger.read() as tx:
        assert proofs.proof_of(tx, ready.task).sequence == 1


@pytest.mark.parametrize("road", PUSHED)
@pytest.mark.parametrize("first", ["the push wakes", "the hub restarts"])
def test_a_push_that_is_asleep_when_its_process_dies(github: Sandbox, tmp_path: Path, road: str, first: str) -> None:
    """Whoever comes first wins: the push with its landing, or the hub with its void marker. Never both."""
    ready = ALL[road](github, tmp_path)
    asleep = github.orders.add("POST", PUSH, hold="before", skip=1 if road == "plain" else 0)
    process = begun(ready.scene)
    assert asleep.wait_reached(60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert ready.landed() == []

    if first == "the push wakes":
        asleep.release()
        _until_landed(github, ready)
        restarted(ready.scene)
        _landed_once(ready, voided=0)
        return
    restarted(ready.scene)
    _landed_once(ready, voided=1)
    stands = ready.scene.repo.git.run("for-each-ref")
    answered = _pushes(github)
    asleep.release()
    _until(github, lambda: _pushes(github) > answered)
    assert ready.scene.repo.git.run("for-each-ref") == stands, "the push that wakes now is refused whole"


@pytest.mark.parametrize("road", PUSHED)
def test_a_push_that_was_applied_and_never_answered(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    held = github.orders.add("POST", PUSH, hold="after", skip=1 if road == "plain" else 0)
    process = begun(ready.scene)
    assert held.wait_reached(60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert len(ready.landed()) == 1

    restarted(ready.scene)

    _landed_once(ready, voided=0)
    held.release()


# --- the merge API


@pytest.mark.parametrize("step", AFTER_A_MERGE)
def test_a_merge_that_landed_is_found_and_proven(github: Sandbox, tmp_path: Path, step: str) -> None:
    ready = merged(github, tmp_path)
    killed_at(ready.scene, AFTER_A_MERGE[step])
    assert len(ready.landed()) == 1
    assert ready.proof() is None

    restarted(ready.scene)

    _landed_once(ready, voided=0)
    assert github.calls()["PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"] == 1


def test_a_merge_that_was_never_asked_for_is_void_after_the_longest_request(github: Sandbox, tmp_path: Path) -> None:
    ready = merged(github, tmp_path)
    killed_at(ready.scene, Step("workers.merging", "ask", "before"))

    restarted(ready.scene)

    assert ready.scene.why(ready.task)["reason"] == "intent_unsettled"
    assert ready.landed() == [], "a request may be under way for all we know, so none is sent beside it"
    ready.scene.later(ready.scene.place.bounds.land_slot_ms)
    ready.scene.advance()
    _landed_once(ready, voided=1)


def test_a_merge_that_is_asleep_when_its_process_dies_is_waited_for(github: Sandbox, tmp_path: Path) -> None:
    ready = merged(github, tmp_path)
    asleep = github.orders.held("PUT", MERGE, "before")
    process = begun(ready.scene)
    assert asleep.wait_reached(60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)

    restarted(ready.scene)
    assert ready.scene.why(ready.task)["reason"] == "intent_unsettled"
    asleep.release()
    _until_landed(github, ready)
    ready.scene.later(ready.scene.place.bounds.confirm_ms)
    ready.scene.advance()

    _landed_once(ready, voided=0)


def _pushes(github: Sandbox) -> int:
    """Pushes that were answered, to whomever."""
    return sum(count for name, count in github.calls().items() if "receive-pack" in name)


def _until_landed(github: Sandbox, ready: Ready) -> None:
    _until(github, lambda: bool(ready.landed()))


def _until(github: Sandbox, done: Callable[[], bool]) -> None:
    """A request that was released runs in a thread of the sandbox's; there is nobody left who waits for its answer."""
    for _ in range(200):
        if done():
            return
        github.settle(timeout_s=0.1)
        time.sleep(0.02)
    raise AssertionError("the released request was never answered")
