"""Recording decisions: what each does inside the ledger, once, with its history, and never over a newer look."""

from collections.abc import Callable

import pytest

from ledger import dossier, intents, orders, publication, record, review
from ledger.bounds import Bounds
from ledger.publication import Look
from pipeline.decisions import (
    Block,
    ConfirmLanding,
    Decision,
    Finish,
    Nothing,
    Owner,
    Propose,
    Return,
    RunGate,
    SendBack,
    UpdateBranch,
    UpdatePlan,
    Wait,
)
from pipeline.errors import InvariantBroken
from pipeline.facts import VerdictResult
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.verdicts import Finding
from tests.ledger.refusing import refused
from tests.ledger.world import CONTRACT, World, rows, verdict

BOUNDS = Bounds()
PENDING = Wait(Reason.CHECKS_PENDING, Owner.CI, {"context": "ci"}, deadline_ms=3_600_000)
FAILED = Block(Reason.CHECK_FAILED, sticky=False, facts={"context": "ci"})
UNKNOWN = Wait(Reason.UNKNOWN, Owner.HUB, {"fact": "checks"})


def _row(world: World, look: Look) -> dict[str, object]:
    return dict(rows(world.ledger, "publications", id=look.publication_id)[0])


def _decide(world: World, look: Look, decision: Decision, *, later_ms: int = 30_000) -> Look:
    """Record the decision, then look again once that is due."""
    record.record(world.ledger, look, decision, next_look_at=world.clock.at + later_ms)
    world.clock.advance(later_ms)
    return world.look_at(look.publication_id)


@pytest.fixture
def look(world: World) -> Look:
    """A look at an approved change that is first in the line."""
    return world.look_at(world.approved(world.project()).publication_id)


def test_a_wait_has_an_owner_a_start_a_deadline_and_a_next_look(world: World, look: Look) -> None:
    at = record.record(world.ledger, look, PENDING, next_look_at=world.clock.at + 30_000)
    row = _row(world, look)
    assert at == row["next_look_at"] == world.clock.at + 30_000
    assert (row["owner"], row["since"], row["deadline"]) == ("ci", world.clock.at, world.clock.at + 3_600_000)
    assert row["look_holder"] is None


def test_a_repeated_decision_moves_neither_its_start_nor_its_history(world: World, look: Look) -> None:
    start = world.clock.at
    look = _decide(world, look, PENDING)
    told = len(rows(world.ledger, "history", event="decided_wait"))
    record.record(world.ledger, look, PENDING, next_look_at=world.clock.at + 1)
    assert (_row(world, look)["since"], _row(world, look)["deadline"]) == (start, start + 3_600_000)
    assert len(rows(world.ledger, "history", event="decided_wait")) == told == 1


def test_a_fact_that_came_during_the_look_brings_the_next_look_at_once(world: World, look: Look) -> None:
    with world.ledger.write() as tx:
        publication.wake(tx, look.branch_id)
    assert record.record(world.ledger, look, PENDING, next_look_at=world.clock.at + 30_000) == world.clock.at


def test_an_overtaken_look_writes_nothing(world: World, look: Look) -> None:
    world.look_at(look.publication_id)
    with refused(world.ledger, Refusal.LEASE_STALE):
        record.record(world.ledger, look, FAILED, next_look_at=world.clock.at)
    with refused(world.ledger, Refusal.LEASE_STALE):
        review.record_push(world.ledger, look, "f" * 40)


def test_a_block_parks_the_task_with_its_reason_and_leaves_the_line(world: World, look: Look) -> None:
    record.record(world.ledger, look, FAILED, next_look_at=world.clock.at + 30_000)
    [task] = rows(world.ledger, "tasks")
    assert (task["state"], task["reason"], task["reason_facts"]) == ("blocked", "check_failed", {"context": "ci"})
    assert (_row(world, look)["state"], _row(world, look)["in_line"]) == ("parked", False)


def test_a_block_ends_by_itself_when_its_fact_is_gone(world: World, look: Look) -> None:
    look = _decide(world, look, FAILED)
    record.record(world.ledger, look, PENDING, next_look_at=world.clock.at + 30_000)
    [task] = rows(world.ledger, "tasks")
    assert (task["state"], task["reason"]) == ("landing", None)
    assert (_row(world, look)["state"], _row(world, look)["in_line"]) == ("active", True)


def test_an_unread_fact_does_not_end_a_block(world: World, look: Look) -> None:
    look = _decide(world, look, FAILED)
    record.record(world.ledger, look, UNKNOWN, next_look_at=world.clock.at + 30_000)
    found = dossier.dossier(world.ledger, look.publication_id)
    assert (found.task.state.value, found.publication.blocked_for) == ("blocked", "check_failed")


def test_a_sticky_block_keeps_its_facts_and_is_not_woken(world: World, look: Look) -> None:
    look = _decide(world, look, Block(Reason.ALREADY_CONTAINED, sticky=True, facts={"how": "tree_equal"}))
    at = record.record(
        world.ledger, look, Block(Reason.ALREADY_CONTAINED, sticky=True), next_look_at=world.clock.at + 9
    )
    with world.ledger.write() as tx:
        assert publication.wake(tx, look.branch_id) == 0
    row = _row(world, look)
    assert (row["facts"], row["next_look_at"]) == ({"how": "tree_equal"}, at)
    assert dossier.dossier(world.ledger, look.publication_id).publication.blocked_sticky


def test_only_an_operator_ends_a_sticky_block_and_gives_one_attempt_more(world: World, look: Look) -> None:
    record.record(world.ledger, look, Block(Reason.ALREADY_CONTAINED, sticky=True), next_look_at=world.clock.at)
    left = world.attempts_left(look.task_id)
    with world.ledger.write() as tx:
        orders.retry(tx, look.task_id, why="the commit was reverted", actor="op")
    assert world.state(look.task_id) == "open"
    assert world.attempts_left(look.task_id) == left + 1
    assert _row(world, look)["closed_as"] == "retried"


def test_a_suspicion_is_kept_until_another_reading_contradicts_it(world: World, look: Look) -> None:
    suspects = Wait(Reason.UNCONFIRMED, Owner.HUB, suspected=Reason.CHECK_FAILED, fingerprint="f1")
    first_at = world.clock.at
    look = _decide(world, look, suspects)
    look = _decide(world, look, suspects)
    earlier = dossier.dossier(world.ledger, look.publication_id).earlier
    assert earlier is not None
    assert (earlier.reason, earlier.fingerprint, earlier.first_at) == ("check_failed", "f1", first_at)
    _decide(world, look, PENDING)
    assert dossier.dossier(world.ledger, look.publication_id).earlier is None


def test_checks_are_waited_for_since_the_present_head(world: World, look: Look) -> None:
    start = world.clock.at
    look = _decide(world, look, PENDING)
    look = _decide(world, look, UNKNOWN)
    assert dossier.dossier(world.ledger, look.publication_id).publication.checks_since == start
    _decide(world, look, Wait(Reason.NOT_FIRST, Owner.HUB))
    assert dossier.dossier(world.ledger, look.publication_id).publication.checks_since is None


def test_a_send_back_credits_directs_and_opens_the_same_task(world: World, look: Look) -> None:
    left = world.attempts_left(look.task_id)
    back = SendBack(Reason.CONFLICT, "rebase_onto_tip", {"tip": "e" * 40})
    assert record.record(world.ledger, look, back, next_look_at=world.clock.at) is None
    [task] = rows(world.ledger, "tasks")
    assert (task["state"], task["sent_back"]) == ("open", 1)
    assert task["directive"] == {"code": "rebase_onto_tip", "facts": {"tip": "e" * 40}}
    assert world.attempts_left(look.task_id) == left + 1
    assert (_row(world, look)["state"], _row(world, look)["closed_as"]) == ("closed", "sent_back")


def test_work_sent_back_is_kept_for_its_worker_for_a_minute(world: World, look: Look) -> None:
    back = SendBack(Reason.CONFLICT, "rebase_onto_tip")
    record.record(world.ledger, look, back, next_look_at=world.clock.at)
    world.clock.advance(BOUNDS.returned_first_ms - 1)
    assert world.offered("worker-2") is None
    assert world.offered("worker-1") is not None


def test_work_sent_back_is_everybodys_after_that_minute(world: World, look: Look) -> None:
    back = SendBack(Reason.CONFLICT, "rebase_onto_tip")
    record.record(world.ledger, look, back, next_look_at=world.clock.at)
    world.clock.advance(BOUNDS.returned_first_ms)
    assert world.offered("worker-2") is not None


def _reviewed(world: World, result: VerdictResult, *, worker: str = "worker-1", max_attempts: int = 3) -> Look:
    if not rows(world.ledger, "tasks"):
        world.task(world.project(), max_attempts=max_attempts)
    submitted = world.submitted(world.leased(worker))
    look = world.look_at(submitted.publication_id)
    weight = "reject" if result is VerdictResult.REJECTED else "environment"
    finding = Finding("diff_empty", "The change is empty.", weight)
    review.record_verdict(world.ledger, look, verdict(submitted, result, finding), CONTRACT)
    return world.look_at(submitted.publication_id)


def test_a_rejection_returns_the_findings_and_spends_the_attempt(world: World) -> None:
    look = _reviewed(world, VerdictResult.REJECTED)
    record.record(world.ledger, look, Return(Reason.VERDICT_REJECTED), next_look_at=world.clock.at)
    [task] = rows(world.ledger, "tasks")
    assert (task["state"], task["credits"]) == ("open", 0)
    assert isinstance(task["directive"], dict)
    assert task["directive"]["code"] == "findings"
    assert task["directive"]["facts"]["findings"][0]["code"] == "diff_empty"


def test_a_rejection_without_attempts_left_fails_by_name(world: World) -> None:
    look = _reviewed(world, VerdictResult.REJECTED, max_attempts=1)
    record.record(world.ledger, look, Return(Reason.VERDICT_REJECTED), next_look_at=world.clock.at)
    [task] = rows(world.ledger, "tasks")
    assert (task["state"], task["reason"]) == ("failed", "verdict_rejected")


def test_the_environments_fault_is_credited(world: World) -> None:
    look = _reviewed(world, VerdictResult.ENVIRONMENT, max_attempts=1)
    record.record(world.ledger, look, Return(Reason.VERDICT_ENVIRONMENT), next_look_at=world.clock.at)
    assert world.state(look.task_id) == "open"
    assert world.attempts_left(look.task_id) == 1


def test_the_same_rejection_of_two_workers_is_deterministic(world: World) -> None:
    look = _reviewed(world, VerdictResult.REJECTED)
    record.record(world.ledger, look, Return(Reason.VERDICT_REJECTED), next_look_at=world.clock.at)
    world.clock.advance(BOUNDS.returned_first_ms)
    look = _reviewed(world, VerdictResult.REJECTED, worker="worker-2")
    found = dossier.dossier(world.ledger, look.publication_id).verdict
    assert found is not None
    assert found.deterministic


def test_the_same_rejection_of_one_worker_is_not_deterministic(world: World) -> None:
    look = _reviewed(world, VerdictResult.REJECTED)
    record.record(world.ledger, look, Return(Reason.VERDICT_REJECTED), next_look_at=world.clock.at)
    look = _reviewed(world, VerdictResult.REJECTED)
    found = dossier.dossier(world.ledger, look.publication_id).verdict
    assert found is not None
    assert not found.deterministic


def test_nothing_to_do_closes_the_publication_and_stops_a_task_that_was_to_stop(world: World, look: Look) -> None:
    with world.ledger.write() as tx:
        orders.stop(tx, look.task_id, actor="op")
    look = world.look_at(look.publication_id)
    assert record.record(world.ledger, look, Nothing(Reason.STOPPED), next_look_at=world.clock.at) is None
    assert world.state(look.task_id) == "stopped"
    assert publication.due(world.ledger, look.branch_id, "anybody") is None


def _nothing() -> Decision:
    return Nothing(Reason.STOPPED)


def _send_back() -> Decision:
    return SendBack(Reason.CONFLICT, "rebase_onto_tip")


@pytest.mark.parametrize("closing", [_nothing, _send_back])
def test_a_publication_with_an_open_intent_is_not_closed(
    world: World, look: Look, closing: Callable[[], Decision]
) -> None:
    world.intent(look, world.slot(look.branch_id))
    with pytest.raises(InvariantBroken):
        record.record(world.ledger, look, closing(), next_look_at=world.clock.at)
    assert _row(world, look)["state"] == "active"
    with world.ledger.read() as tx:
        assert intents.open_intent(tx, look.branch_id) is not None


@pytest.mark.parametrize(
    "decision",
    [
        RunGate(),
        Propose(Reason.HEAD_NOT_PUSHED),
        Finish(Reason.PROOF_VERIFIED),
        ConfirmLanding("int_1"),
        UpdateBranch(UpdatePlan("a" * 40, "b" * 40, "c" * 40)),
    ],
)
def test_a_decision_that_acts_keeps_its_look_until_the_look_expires(
    world: World, look: Look, decision: Decision
) -> None:
    record.record(world.ledger, look, decision, next_look_at=world.clock.at)
    assert publication.due(world.ledger, look.branch_id, "somebody else") is None
    world.clock.advance(BOUNDS.land_slot_ms)
    assert publication.due(world.ledger, look.branch_id, "somebody else") is not None


def test_a_decision_and_its_effects_are_written_together_or_not_at_all(world: World, look: Look) -> None:
    before = rows(world.ledger, "history")
    with pytest.raises(Exception, match="no such word"):
        record.record(world.ledger, look, _Foreign(), next_look_at=world.clock.at)  # type: ignore[arg-type]  # what no caller may give
    assert rows(world.ledger, "history") == before
    assert world.state(look.task_id) == "landing"


class _Foreign:
    facts: dict[str, str] = {}  # noqa: RUF012 - stands for a decision of another version

    @property
    def reason(self) -> Reason:
        raise RuntimeError("no such word")
