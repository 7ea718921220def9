"""How leases end: once each, with the task, by whoever ends it, and never at another's cost."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import exc

from ledger import evidence, idempotency, leases, orders, proofs, reclaim, record, review, tasks
from ledger.bounds import Bounds
from ledger.idempotency import Answer
from ledger.proofs import Approved
from ledger.session import Ledger, Transaction
from pipeline.decisions import Block, Return
from pipeline.facts import Deliverable, VerdictResult
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import Event
from tests.ledger.refusing import refused
from tests.ledger.world import World, bundle, change_document, rows, verdict

BOUNDS = Bounds()
GOOD_FOR_MS = BOUNDS.task_lease_ms + BOUNDS.lease_grace_ms


def _live(world: World) -> list[str]:
    return [str(row["id"]) for row in rows(world.ledger, "leases") if row["released_at"] is None]


def _release(world: World, worker: str, failure: str, code: str | None = None) -> None:
    held = world.leased(worker)
    leases.release(
        world.ledger, held.lease_id, held.token, held.worker_id, failure_class=failure, failure_code=code, sentence="no"
    )
    world.clock.advance(BOUNDS.backoff_max_ms)


# --- a task that is no longer claimed has no live lease


def test_completing_a_claimed_task_ends_its_lease(world: World) -> None:
    task = world.task(world.project(), deliverable=Deliverable.REPORT)
    submitted = world.submitted()
    look = world.look_at(submitted.publication_id)
    approved = verdict(submitted)
    review.record_verdict(world.ledger, look, approved, "c" * 64)
    with world.ledger.write() as tx:  # sent back and leased anew, while the approval was on its way
        tasks.move(tx, task.id, Event.RETURN, actor="test", changes={"not_before": 0})
    again = world.leased("worker-2")
    proofs.complete(world.ledger, world.look_at(submitted.publication_id), Approved(approved.digest))
    assert world.state(task.id) == "completed"
    assert _live(world) == []
    assert rows(world.ledger, "attempts", id=again.attempt_id)[0]["ending"] == "completed"
    with refused(world.ledger, Refusal.LEASE_STALE):
        leases.heartbeat(world.ledger, again.lease_id, again.token, again.worker_id)


def test_cancelling_a_claimed_task_ends_its_lease(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    with world.ledger.write() as tx:
        orders.cancel(tx, task.id, actor="op")
    assert _live(world) == []
    assert rows(world.ledger, "attempts", id=held.attempt_id)[0]["ending"] == "cancelled"
    world.clock.advance(GOOD_FOR_MS)
    assert leases.reclaim(world.ledger) == 0
    assert rows(world.ledger, "history", event="lease_expired") == []


def test_a_task_is_not_cancelled_while_an_intent_of_it_is_open_even_of_an_earlier_publication(world: World) -> None:
    project = world.project()
    submitted = world.approved(project)
    world.intent(world.look_at(submitted.publication_id), world.slot(project.branch_id))

    def cancel() -> None:
        with world.ledger.write() as tx:
            orders.cancel(tx, submitted.task_id, actor="op")

    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        cancel()
    with world.ledger.write() as tx:
        publications = "UPDATE publications SET state = 'closed', closed_as = 'x', next_look_at = NULL, in_line = 0"
        tx.connection.exec_driver_sql(publications)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        cancel()
    assert world.state(submitted.task_id) == "landing"


# --- budgets


def test_a_poison_task_ends_after_its_attempts_and_others_go_on(world: World) -> None:
    project = world.project()
    poison = world.task(project, priority=9)
    healthy = world.task(project)
    for number in range(poison.max_attempts):
        assert world.leased(f"worker-{number}").task.id == poison.id
        world.clock.advance(GOOD_FOR_MS)
    leases.reclaim(world.ledger)
    assert world.state(poison.id) == "failed"
    [row] = rows(world.ledger, "tasks", id=poison.id)
    assert (row["reason"], row["attempts"]) == ("budget_spent", poison.max_attempts)
    assert len(rows(world.ledger, "history", event="lease_expired")) == poison.max_attempts
    assert world.leased("worker-9").task.id == healthy.id


def test_environment_credits_are_bounded_whoever_gave_them(world: World) -> None:
    task = world.task(world.project())
    for number in range(BOUNDS.environment_credits_max + 1):
        if number % 2:
            _release(world, "worker-1", "environment")
            continue
        submitted = world.submitted(world.leased())
        look = world.look_at(submitted.publication_id)
        review.record_verdict(world.ledger, look, verdict(submitted, VerdictResult.ENVIRONMENT), "c" * 64)
        environment = Return(Reason.VERDICT_ENVIRONMENT)
        record.record(world.ledger, world.look_at(submitted.publication_id), environment, next_look_at=0)
        world.clock.advance(BOUNDS.backoff_max_ms)
    assert len(rows(world.ledger, "credits", reason="environment")) == BOUNDS.environment_credits_max == 3
    assert world.attempts_left(task.id) == task.max_attempts - 1


def test_an_operators_retry_gives_one_attempt_back_and_keeps_the_count_of_those_made(world: World) -> None:
    task = world.task(world.project(), max_attempts=1)
    submitted = world.submitted()
    block = Block(Reason.REJECTED_FOR_GOOD, sticky=True)
    record.record(world.ledger, world.look_at(submitted.publication_id), block, next_look_at=world.clock.at)
    assert (world.state(task.id), world.attempts_left(task.id)) == ("blocked", 0)
    with world.ledger.write() as tx:
        orders.retry(tx, task.id, why="the rule was wrong", actor="op")
    assert (world.state(task.id), world.attempts_left(task.id)) == ("open", 1)
    assert [row["reason"] for row in rows(world.ledger, "credits")] == ["operator_retry"]
    again = world.leased("worker-2")
    assert (again.attempt, again.task.attempts) == (2, 2)


# --- the same failure of two workers


def test_the_same_typed_failure_of_two_workers_ends_the_task_early(world: World) -> None:
    task = world.task(world.project(), max_attempts=9)
    _release(world, "worker-1", "work", "no_change")
    assert world.state(task.id) == "open"
    _release(world, "worker-2", "work", "no_change")
    assert world.state(task.id) == "failed"
    [row] = rows(world.ledger, "tasks")
    assert (row["reason"], row["attempts"]) == ("failed_alike", 2)


@pytest.mark.parametrize(
    ("second", "failure", "code"),
    [
        ("worker-1", "work", "no_change"),  # the same worker: it may be that machine
        ("worker-2", "work", "head_moved"),
        ("worker-2", "work", None),
        ("worker-2", "environment", "no_change"),
    ],
)
def test_anything_less_alike_goes_on(world: World, second: str, failure: str, code: str | None) -> None:
    task = world.task(world.project(), max_attempts=9)
    _release(world, "worker-1", "work", "no_change")
    _release(world, second, failure, code)
    assert world.state(task.id) == "open"


# --- one task, one pull request


def test_ten_expiries_later_there_is_one_pull_request_and_one_branch(world: World) -> None:
    project = world.project()
    task = world.task(project, max_attempts=20)
    first = world.leased()
    submitted = world.submitted(first)
    review.record_pull_request(world.ledger, world.look_at(submitted.publication_id), 7, "http://127.0.0.1/7")
    rejected = verdict(submitted, VerdictResult.REJECTED)
    review.record_verdict(world.ledger, world.look_at(submitted.publication_id), rejected, "c" * 64)
    record.record(world.ledger, world.look_at(submitted.publication_id), Return(Reason.VERDICT_REJECTED), next_look_at=0)
    seen = []
    for number in range(10):
        world.clock.advance(BOUNDS.returned_first_ms)
        seen.append(world.leased(f"worker-{number}").task)
        world.clock.advance(GOOD_FOR_MS)
    leases.reclaim(world.ledger)
    assert len(rows(world.ledger, "history", event="lease_expired")) == 10
    assert {(found.id, found.head_branch, found.pull_request) for found in seen} == {(task.id, task.head_branch, 7)}
    other = world.task(project)
    world.clock.advance(BOUNDS.returned_first_ms)
    with world.ledger.write() as tx:
        tasks.move(tx, task.id, Event.CANCEL, actor="test")
    theirs = world.look_at(world.submitted(world.leased()).publication_id)
    with refused(world.ledger, Refusal.FIELD_INVALID):
        review.record_pull_request(world.ledger, theirs, 7, "http://127.0.0.1/7")
    assert rows(world.ledger, "tasks", id=other.id)[0]["pull_request"] is None


# --- reclaiming on request


class _Broken:
    """A ledger that cannot be written to, and is asked all the same."""

    def __init__(self, ledger: Ledger) -> None:
        self.bounds = ledger.bounds

    def read(self) -> Any:
        raise exc.OperationalError("SELECT", {}, Exception("the disk is full"))


def test_a_reclaim_that_fails_is_logged_and_never_raises(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    broken: Any = _Broken(world.ledger)
    reclaim.reclaim_if_due(broken)
    assert "reclaim_failed" in "".join(capsys.readouterr())


def test_a_heartbeat_of_somebody_else_reclaims(world: World) -> None:
    project = world.project()
    lost, kept = world.task(project, priority=1), world.task(project)
    world.leased("worker-1")
    held = world.leased("worker-2")
    assert (held.task.id, world.state(lost.id)) == (kept.id, "claimed")
    world.clock.advance(GOOD_FOR_MS - 1)
    leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id)
    world.clock.advance(BOUNDS.reclaim_every_ms)
    leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id)
    assert (world.state(lost.id), world.state(kept.id)) == ("open", "claimed")


# --- inside a transaction of the caller's


class _LostAnswer(Exception):
    """The process ended before its transaction did."""


def _and_lose_the_answer(world: World, work: Callable[[Transaction], object]) -> None:
    with world.ledger.write() as tx:
        assert work(tx) is not None
        raise _LostAnswer


def test_a_lease_and_its_answer_stand_or_fall_together(world: World) -> None:
    task = world.task(world.project())
    worker = world.worker()
    with pytest.raises(_LostAnswer):
        _and_lose_the_answer(world, lambda tx: leases.lease_in(tx, worker))
    assert rows(world.ledger, "leases") == rows(world.ledger, "attempts") == []
    assert world.attempts_left(task.id) == task.max_attempts


def test_evidence_and_its_answer_stand_or_fall_together(world: World) -> None:
    world.task(world.project())
    held = world.leased()
    evidence.store_bundle(world.ledger, held.lease_id, held.token, held.worker_id, bundle())
    world.bell.rung.clear()
    with pytest.raises(_LostAnswer):
        _and_lose_the_answer(
            world, lambda tx: evidence.submit_in(tx, held.lease_id, held.token, held.worker_id, change_document())
        )
    assert rows(world.ledger, "evidence") == rows(world.ledger, "publications") == []
    assert world.bell.rung == []
    assert _live(world) == [held.lease_id]


def test_a_reserved_key_is_free_again_after_its_transaction(world: World) -> None:
    key = {"actor": "token_1", "key": "k"}
    kept = {**key, "route": "POST /v1/leases", "request_sha256": "0" * 64}
    with world.ledger.write() as tx:
        idempotency.reserve(tx, **key)
        idempotency.keep(tx, **kept, answer=Answer(201, "{}"))
    with world.ledger.write() as tx:
        idempotency.reserve(tx, **key)
        assert idempotency.replay(tx, **kept) == Answer(201, "{}")
