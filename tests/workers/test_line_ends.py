"""The table of ends: whatever a landing is answered, and whoever comes in between, the remote alone settles it.

Somebody who comes in between does so while the request of a hub in a process of its own stands still at the remote.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger import history, intents
from pipeline.states import State
from tests.sandbox.sandbox import Sandbox
from tests.workers.dying import Step, begun, killed_at, restarted
from tests.workers.roads import ALL, MARKERS, PUSHED, Ready, checked, merged, plain

PUSH = "/acme/demo.git/git-receive-pack"
MERGE = "/repos/acme/demo/pulls/1/merge"
ENDED_S = 60


def _order_of(road: str) -> tuple[str, str, int]:
    """The request that lands: method, path, and how many like it go before (the plain road pushes its head first)."""
    return ("PUT", MERGE, 0) if road == "merged" else ("POST", PUSH, int(road == "plain"))


@contextmanager
def _standing(github: Sandbox, ready: Ready, road: str) -> Iterator[None]:
    """While the landing request stands at the remote, not applied yet; afterwards it goes on, and its hub ends."""
    method, path, skip = _order_of(road)
    order = github.orders.add(method, path, hold="before", skip=skip)
    hub = begun(ready.scene)
    try:
        assert order.wait_reached(ENDED_S)
        yield
    finally:
        order.release()
        _ended(hub)


def _ended(hub: "subprocess.Popen[bytes]") -> None:
    try:
        assert hub.wait(ENDED_S) == 0
    finally:
        hub.kill()
        hub.wait()


def _to_rest(ready: Ready) -> list[str]:
    """Looks until nothing more comes of it, readings that must agree included."""
    decided: list[str] = []
    for _ in range(4):
        ready.scene.wake()
        decided += ready.scene.advance()
        ready.scene.later(ready.scene.place.bounds.confirm_ms + 1)
    return decided


def _landed_once(ready: Ready, *, voided: int) -> None:
    assert ready.scene.state(ready.task) is State.COMPLETED
    assert len(ready.landed()) == 1
    assert (ready.count("landed"), ready.count("intent_void")) == (1, voided)


def _nothing_landed(ready: Ready) -> None:
    assert ready.scene.state(ready.task) is not State.COMPLETED
    assert ready.proof() is None
    assert ready.count("landed") == 0


# --- what the request is answered


@pytest.mark.parametrize("road", ALL)
def test_an_answer_lands_once(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    assert ready.scene.advance()[-1] == "land:gate_green"
    _landed_once(ready, voided=0)


@pytest.mark.parametrize("road", ALL)
def test_applied_and_answered_as_an_error_is_a_landing(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    method, path, skip = _order_of(road)
    github.orders.apply_then_answer(method, path, 500, skip=skip)
    ready.scene.advance()
    _landed_once(ready, voided=0)


@pytest.mark.parametrize("road", PUSHED)
def test_a_push_that_was_refused_with_an_error_is_void_and_another_lands(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    method, path, skip = _order_of(road)
    github.orders.add(method, path, apply=False, status=503, skip=skip)
    ready.scene.advance()
    _landed_once(ready, voided=1)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("road", PUSHED)
def test_a_push_whose_connection_broke(github: Sandbox, tmp_path: Path, road: str, applied: bool) -> None:
    """The library under git sends the request again. Either one lands; neither lands beside the other."""
    ready = ALL[road](github, tmp_path)
    method, path, skip = _order_of(road)
    github.orders.dropped(method, path, apply=applied).skip = skip
    ready.scene.advance()
    _landed_once(ready, voided=0)


def test_a_merge_that_landed_while_the_pull_request_still_reads_open_is_waited_for(github: Sandbox, tmp_path: Path) -> None:
    ready = merged(github, tmp_path)
    github.orders.apply_then_answer("PUT", MERGE, 502)
    github.orders.stale("GET", "/repos/acme/demo/pulls/1", times=1).skip = 1
    ready.scene.advance()
    ready.scene.later(ready.scene.place.bounds.confirm_ms)
    ready.scene.advance()
    _landed_once(ready, voided=0)
    assert github.calls()["PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"] == 1


# --- who comes in between


@pytest.mark.parametrize(
    ("road", "goes_on"),
    [
        ("checked", "update_branch:canonical_moved"),
        ("plain", "send_back:canonical_moved"),
        ("merged", "update_branch:canonical_moved"),
    ],
)
def test_a_tip_that_moves_while_the_landing_is_under_way_refuses_it(
    github: Sandbox, tmp_path: Path, road: str, goes_on: str
) -> None:
    ready = ALL[road](github, tmp_path)
    with _standing(github, ready, road):
        moved = ready.scene.repo.commit(files={"other.txt": "x\n"})
    assert ready.scene.repo.tip() == moved, "what somebody else landed stays"
    if road == "merged":
        ready.scene.later(ready.scene.place.bounds.land_slot_ms)
    _to_rest(ready)
    assert ready.scene.repo.tip() == moved
    assert ready.count("intent_void") == 1
    assert ready.count(f"decided_{goes_on.partition(':')[0]}") == 1
    _nothing_landed(ready)


def test_a_branch_that_was_rewound_while_the_landing_is_under_way_takes_nothing_back(
    github: Sandbox, tmp_path: Path
) -> None:
    ready = checked(github, tmp_path)
    repo = ready.scene.repo
    before = repo.commit(on="aside", files={"aside.txt": "x\n"})
    with _standing(github, ready, "checked"):
        repo.move("refs/heads/main", before)
    _to_rest(ready)
    assert repo.tip() == before
    _nothing_landed(ready)


def test_a_check_that_turns_red_while_the_landing_is_under_way_refuses_it(github: Sandbox, tmp_path: Path) -> None:
    ready = checked(github, tmp_path)
    with _standing(github, ready, "checked"):
        ready.scene.ci.reports(ready.scene.repo, ready.head, "ci/test", "failure")
    assert ready.landed() == []
    _to_rest(ready)
    assert ready.scene.state(ready.task) is State.BLOCKED
    assert ready.scene.why(ready.task)["reason"] == "check_failed"
    _nothing_landed(ready)


@pytest.mark.parametrize("road", ["checked", "merged"])
def test_a_head_that_moves_while_the_landing_is_under_way_lands_nothing_unreviewed(
    github: Sandbox, tmp_path: Path, road: str
) -> None:
    ready = ALL[road](github, tmp_path)
    branch = f"mac/{ready.task.removeprefix('task_')}"
    with _standing(github, ready, road):
        ready.scene.repo.commit(on=branch, files={"a.txt": "smuggled\n"})
    if road == "merged":
        _to_rest(ready)
        _nothing_landed(ready)
        assert ready.scene.why(ready.task)["reason"] == "head_not_of_evidence"
    assert ready.scene.repo.file("a.txt") != "smuggled\n"


def test_somebody_who_pushes_our_very_commit_first_gets_us_no_proof(github: Sandbox, tmp_path: Path) -> None:
    ready = checked(github, tmp_path)
    with _standing(github, ready, "checked"):
        ready.scene.repo.move("refs/heads/main", ready.head)
    _to_rest(ready)
    assert ready.scene.state(ready.task) is State.BLOCKED
    assert ready.scene.why(ready.task)["reason"] == "landed_unattributed"
    _nothing_landed(ready)


def test_somebody_who_merges_the_pull_request_first_gets_us_no_proof(github: Sandbox, tmp_path: Path) -> None:
    ready = merged(github, tmp_path)
    with _standing(github, ready, "merged"):
        ready.scene.repo.merge(1)
    _to_rest(ready)
    assert ready.scene.state(ready.task) is State.BLOCKED
    assert ready.scene.why(ready.task)["reason"] == "landed_unattributed"
    _nothing_landed(ready)


@pytest.mark.parametrize("road", PUSHED)
def test_a_marker_of_somebody_else_refuses_the_landing_and_is_waited_for_by_name(
    github: Sandbox, tmp_path: Path, road: str
) -> None:
    ready = ALL[road](github, tmp_path)
    with _standing(github, ready, road):
        with ready.scene.ledger.read() as tx:
            intent = intents.open_intent(tx, ready.scene.branch)
        assert intent is not None
        ready.scene.repo.move(f"{MARKERS}{intent.id}", ready.tip)
    _to_rest(ready)
    why = ready.scene.why(ready.task)
    assert (why["reason"], why["facts"]["why"]) == ("intent_unsettled", "marker_of_somebody_else")
    assert ready.landed() == []
    _nothing_landed(ready)

    ready.scene.repo.move(f"{MARKERS}{intent.id}", None)
    _to_rest(ready)
    _landed_once(ready, voided=1)


# --- what is on the branch is not what was meant


@pytest.mark.parametrize("road", PUSHED)
def test_a_landing_that_was_taken_off_before_it_was_proven_gets_no_proof(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    killed_at(ready.scene, Step("workers.land", "land"))
    ready.scene.repo.move("refs/heads/main", ready.tip)
    restarted(ready.scene)
    _to_rest(ready)
    assert ready.scene.state(ready.task) is State.BLOCKED
    assert ready.scene.why(ready.task)["reason"] == "landed_unproven"
    assert ready.landed() == [], "nor does it land again"
    _nothing_landed(ready)


@pytest.mark.parametrize("road", ALL)
def test_a_later_rewind_takes_no_proof_away_and_lands_nothing_again(github: Sandbox, tmp_path: Path, road: str) -> None:
    ready = ALL[road](github, tmp_path)
    ready.scene.advance()
    proof = ready.proof()
    ready.scene.repo.move("refs/heads/main", ready.tip)
    assert _to_rest(ready) == []
    assert ready.proof() == proof is not None
    assert ready.landed() == []


def _with_another_tree(ready: Ready) -> str:
    return ready.scene.repo.commit(files={"a.txt": "b\n", "check.sh": "exit 1\n"})


def _on_another_tip(ready: Ready) -> str:
    ready.scene.repo.commit(files={"other.txt": "x\n"})
    return ready.scene.repo.commit(files={"a.txt": "b\n"})


@pytest.mark.parametrize(
    ("makes", "why"), [(_with_another_tree, "merged_with_another_tree"), (_on_another_tip, "merged_on_another_tip")]
)
def test_a_merge_that_came_out_otherwise_than_tested_gets_no_proof(
    github: Sandbox, tmp_path: Path, makes: Callable[[Ready], str], why: str
) -> None:
    """GitHub says it merged, and names a commit that is on the branch indeed."""
    ready = merged(github, tmp_path)
    order = github.orders.answer("PUT", MERGE, 200, {}, hold="before")
    hub = begun(ready.scene)
    assert order.wait_reached(ENDED_S)
    order.body = {"sha": makes(ready), "merged": True, "message": "Pull Request successfully merged"}
    order.release()
    _ended(hub)
    _to_rest(ready)
    assert ready.scene.state(ready.task) is State.BLOCKED
    assert ready.scene.why(ready.task)["reason"] == "landed_unproven"
    with ready.scene.ledger.read() as tx:
        assert intents.open_intent(tx, ready.scene.branch) is None
    assert why in str(_landing_facts(ready))
    _nothing_landed(ready)


def _landing_facts(ready: Ready) -> list[dict[str, object]]:
    with ready.scene.ledger.read() as tx:
        return [dict(e.facts) for e in history.timeline(tx, ready.task) if e.event == "landing_unproven"]


def test_two_hubs_at_one_change_land_it_once(github: Sandbox, tmp_path: Path) -> None:
    ready = plain(github, tmp_path)
    hubs = [begun(ready.scene) for _ in range(2)]
    for hub in hubs:
        _ended(hub)
    ready.scene.advance()
    _landed_once(ready, voided=0)
