"""Task leases: one holder, a token that only grows, and exactly one end for each."""

from collections.abc import Callable

import pytest
from sqlalchemy import exc, insert

from ledger import leases, orders, projects, tasks
from ledger.bounds import Bounds
from ledger.tables import leases as leases_table
from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from tests.ledger.world import World, contents, rows

BOUNDS = Bounds()
GOOD_FOR_MS = BOUNDS.task_lease_ms + BOUNDS.lease_grace_ms


def _refused(refusal: Refusal, call: Callable[[], object]) -> None:
    with pytest.raises(Rejected) as caught:
        call()
    assert caught.value.refusal is refusal


def test_a_lease_charges_the_attempt_and_raises_the_token(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    assert (held.task.id, held.attempt, held.token) == (task.id, 1, 1)
    assert held.task.attempts_left == 2
    assert world.state(task.id) == "claimed"
    assert leases.lease(world.ledger, world.worker("worker-2")) is None


def test_the_highest_priority_is_leased_first_and_then_the_oldest(world: World) -> None:
    project = world.project()
    old = world.task(project)
    world.clock.advance(1)
    young, urgent = world.task(project), world.task(project, priority=5)
    assert [world.leased().task.id for _ in range(3)] == [urgent.id, old.id, young.id]


def test_only_tasks_of_the_named_projects_are_leased(world: World) -> None:
    one, other = world.project(), world.project()
    world.task(one)
    worker = world.worker()
    assert leases.lease(world.ledger, worker, [other.id]) is None
    found = leases.lease(world.ledger, worker, [one.id])
    assert found is not None


@pytest.mark.parametrize("what", ["held", "paused", "stopped", "backing_off", "spent"])
def test_what_must_wait_is_not_leased(world: World, what: str) -> None:
    project = world.project()
    task = world.task(project)
    with world.ledger.write() as tx:
        match what:
            case "held":
                orders.hold(tx, task.id, True, actor="op")
            case "paused":
                projects.pause(tx, project.id, actor="op")
            case "stopped":
                orders.stop(tx, task.id, actor="op")
            case "backing_off":
                tasks.change(tx, task.id, not_before=world.clock.at + 1)
            case _:
                tasks.change(tx, task.id, attempts=3)
    assert leases.lease(world.ledger, world.worker()) is None
    assert rows(world.ledger, "leases") == []


@pytest.mark.parametrize(("after_ms", "good"), [(GOOD_FOR_MS - 1, True), (GOOD_FOR_MS, False)])
def test_a_token_is_good_until_the_grace_has_passed(world: World, after_ms: int, good: bool) -> None:
    world.task(world.project())
    held = world.leased()
    world.clock.advance(after_ms)
    if good:
        beat = leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id)
        assert beat == leases.Beat("continue", BOUNDS.task_lease_ms)
        assert rows(world.ledger, "leases")[0]["expires_at"] == world.clock.at + BOUNDS.task_lease_ms
    else:
        _refused(
            Refusal.LEASE_STALE,
            lambda: leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id),
        )
        assert rows(world.ledger, "leases")[0]["expires_at"] == held.expires_at


@pytest.mark.parametrize("after_ms", [BOUNDS.task_lease_ms - 1, BOUNDS.task_lease_ms, GOOD_FOR_MS - 1])
def test_nothing_is_reclaimed_while_a_token_is_good(world: World, after_ms: int) -> None:
    task = world.task(world.project())
    world.leased()
    world.clock.advance(after_ms)
    assert leases.reclaim(world.ledger) == 0
    assert world.state(task.id) == "claimed"


def test_an_expired_lease_ends_once_and_the_task_is_open_again(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    world.clock.advance(GOOD_FOR_MS)
    assert [leases.reclaim(world.ledger), leases.reclaim(world.ledger)] == [1, 0]
    assert len(rows(world.ledger, "history", event="lease_expired")) == 1
    assert world.state(task.id) == "open"
    again = world.leased("worker-2")
    assert (again.token, again.attempt) == (held.token + 1, 2)


def test_asking_for_a_lease_reclaims_what_has_expired(world: World) -> None:
    task = world.task(world.project())
    world.leased()
    world.clock.advance(GOOD_FOR_MS)
    assert world.leased("worker-2").task.id == task.id


def test_reclaiming_on_request_happens_at_most_once_a_second(world: World) -> None:
    world.task(world.project())
    world.leased()
    worker = world.worker("worker-2")
    leases.lease(world.ledger, worker)
    world.clock.advance(GOOD_FOR_MS)
    leases.lease(world.ledger, worker)
    ended = rows(world.ledger, "ticks", name="reclaim")[0]["at"]
    world.clock.advance(BOUNDS.reclaim_every_ms - 1)
    leases.lease(world.ledger, worker)
    assert rows(world.ledger, "ticks", name="reclaim")[0]["at"] == ended
    world.clock.advance(1)
    leases.lease(world.ledger, worker)
    assert rows(world.ledger, "ticks", name="reclaim")[0]["at"] == world.clock.at


def test_the_last_expiry_fails_the_task_by_name(world: World) -> None:
    task = world.task(world.project(), max_attempts=1)
    world.leased()
    world.clock.advance(GOOD_FOR_MS)
    assert leases.reclaim(world.ledger) == 1
    assert world.state(task.id) == "failed"
    assert rows(world.ledger, "tasks")[0]["reason"] == "budget_spent"


def test_an_expired_lease_under_a_stop_ends_in_stopped_and_not_open(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    with world.ledger.write() as tx:
        orders.stop(tx, task.id, actor="op")
    assert leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id).order == "stop"
    world.clock.advance(GOOD_FOR_MS)
    leases.reclaim(world.ledger)
    assert world.state(task.id) == "stopped"


def test_an_old_token_changes_nothing_at_all(world: World) -> None:
    world.task(world.project())
    old = world.leased()
    world.clock.advance(GOOD_FOR_MS)
    leases.reclaim(world.ledger)
    world.leased()
    before = contents(world.ledger)
    _refused(Refusal.LEASE_STALE, lambda: leases.heartbeat(world.ledger, old.lease_id, old.token, old.worker_id))
    _refused(Refusal.LEASE_STALE, lambda: leases.release(world.ledger, old.lease_id, old.token, old.worker_id))
    _refused(Refusal.LEASE_STALE, lambda: world.submitted(old))
    assert contents(world.ledger) == before


def test_a_lease_answers_only_to_its_worker_and_its_token(world: World) -> None:
    world.task(world.project())
    held = world.leased()
    other = world.worker("worker-2")
    before = contents(world.ledger)
    ledger = world.ledger
    _refused(Refusal.LEASE_NOT_YOURS, lambda: leases.heartbeat(ledger, held.lease_id, held.token, other))
    _refused(Refusal.LEASE_STALE, lambda: leases.heartbeat(ledger, held.lease_id, held.token + 1, held.worker_id))
    _refused(Refusal.LEASE_UNKNOWN, lambda: leases.heartbeat(ledger, "lease_none", held.token, held.worker_id))
    assert contents(world.ledger) == before


def test_a_release_for_the_environment_is_credited_a_bounded_number_of_times(world: World) -> None:
    task = world.task(world.project())
    for _ in range(BOUNDS.environment_credits_max + task.max_attempts):
        held = world.leased()
        leases.release(
            world.ledger,
            held.lease_id,
            held.token,
            held.worker_id,
            failure_class="environment",
            sentence="no disk",
        )
        world.clock.advance(BOUNDS.backoff_max_ms)
    assert world.state(task.id) == "failed"
    assert len(rows(world.ledger, "credits")) == BOUNDS.environment_credits_max


def test_a_failed_attempt_waits_for_its_back_off(world: World) -> None:
    world.task(world.project())
    held = world.leased()
    leases.release(world.ledger, held.lease_id, held.token, held.worker_id, failure_class="work", sentence="exit 1")
    world.clock.advance(BOUNDS.backoff_min_ms - 1)
    assert leases.lease(world.ledger, held.worker_id) is None
    world.clock.advance(1)
    assert world.leased().attempt == 2


def test_the_database_itself_refuses_a_second_live_lease(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    row = rows(world.ledger, "leases", id=held.lease_id)[0]
    with pytest.raises(exc.IntegrityError), world.ledger.write() as tx:
        tx.connection.execute(insert(leases_table).values({**row, "id": "lease_x", "token": 99}))
    assert world.state(task.id) == "claimed"
    assert len(rows(world.ledger, "leases")) == 1


def test_a_lease_without_an_expiry_cannot_be_stored(world: World) -> None:
    world.task(world.project())
    world.leased()
    with pytest.raises(exc.IntegrityError), world.ledger.write() as tx:
        tx.connection.exec_driver_sql("UPDATE leases SET expires_at = NULL")


def test_the_executor_of_a_task_that_was_cancelled_learns_that_its_lease_is_over(world: World) -> None:
    task = world.task(world.project())
    held = world.leased()
    with world.ledger.write() as tx:
        orders.cancel(tx, task.id, actor="op")
    _refused(
        Refusal.LEASE_STALE, lambda: leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id)
    )
