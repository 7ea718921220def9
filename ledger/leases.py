"""Task leases: a task is never owned, it is leased, under a fencing token that only grows.

A token is good while the lease is not released and `now < expires_at + grace`; renewing, submitting, releasing and
reclaiming all test that one expression, each in the statement that writes. An attempt is charged when it is leased.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, insert, select, update

from ledger import claims, tasks
from ledger.projects import Project
from ledger.projects import get as get_project
from ledger.reclaim import end_expired, reclaim_if_due
from ledger.session import Ledger, Transaction
from ledger.tables import attempts, branches, leases
from ledger.tables import tasks as tasks_table
from ledger.tasks import Task
from pipeline.claim import Claimant
from pipeline.errors import Rejected, ensure
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import Event, State

ENVIRONMENT = "environment"
WORK = "work"


@dataclass(frozen=True, slots=True)
class LeasedTask:
    """A task in the hands of one worker. `expires_in_ms` and `beat_in_ms` are durations, for a client with another
    clock; `tip` is the canonical tip as last read, or None."""

    lease_id: str
    token: int
    worker_id: str
    expires_at: int
    expires_in_ms: int
    beat_in_ms: int
    task: Task
    attempt_id: str
    attempt: int
    project: Project
    tip: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: `continue`, or `stop` when somebody asked for it. A task that is over has no lease that
    could be renewed."""

    order: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that is good now, locked in the caller's transaction. Made by `held` only."""

    lease_id: str
    token: int
    task_id: str
    attempt_id: str
    worker_id: str
    expires_at: int


def lease(ledger: Ledger, worker_id: str, projects: Sequence[str] | None = None) -> LeasedTask | None:
    """Lease the first claimable task (priority, then age) of these projects (ids; None: all), or None.

    One transaction: the guarded update, the attempt charged, the lease with a token larger than any before it.
    Expired leases are reclaimed first, in a transaction of their own.
    """
    reclaim_if_due(ledger)
    with ledger.write() as tx:
        return lease_in(tx, worker_id, projects)


def lease_in(tx: Transaction, worker_id: str, projects: Sequence[str] | None = None) -> LeasedTask | None:
    """The same inside a transaction of the caller's, who asks for `reclaim_if_due` before."""
    claimant = Claimant(worker_id, None if projects is None else frozenset(projects))
    task_id = next(claims.offered(tx, claimant), None)
    return None if task_id is None else _take(tx, tasks.locked(tx, task_id), worker_id)


def heartbeat(ledger: Ledger, lease_id: str, token: int, worker_id: str) -> Beat:
    """Renew the lease. Raises `Rejected(lease_unknown|lease_not_yours|lease_stale)`, and then changes nothing."""
    reclaim_if_due(ledger)
    with ledger.write() as tx:
        held_now = held(tx, lease_id, token, worker_id)
        now = tx.now()
        done = tx.connection.execute(
            update(leases)
            .where(leases.c.id == lease_id, good(now, tx.bounds.lease_grace_ms))
            .values(expires_at=now + tx.bounds.task_lease_ms, renewed_at=now)
        )
        if done.rowcount != 1:
            raise Rejected(Refusal.LEASE_STALE)
        task = tasks.locked(tx, held_now.task_id)
        ensure(task.state is State.CLAIMED, "a task with a live lease is claimed")
        stop = task.stop_requested_at is not None
        return Beat("stop" if stop else "continue", tx.bounds.task_lease_ms)


def release(
    ledger: Ledger,
    lease_id: str,
    token: int,
    worker_id: str,
    *,
    failure_class: str | None = None,
    failure_code: str | None = None,
    sentence: str = "",
    tokens: int = 0,
) -> None:
    """Give the task back. The class `environment` is credited (a bounded number of times); a failure waits for its
    back-off; a task without attempts left fails, one that was asked to stop is stopped.

    `failure_code` is the stable name of a failure that depends on the work alone: when another worker's attempt failed
    under the same class and code, the task fails at once and keeps its other attempts. Raises as `heartbeat` does.
    """
    with ledger.write() as tx:
        mine = held(tx, lease_id, token, worker_id)
        alike = failure_class == WORK and failure_code is not None and _failed_alike(tx, mine, failure_code)
        end(tx, mine, ending="released", failure_class=failure_class, failure_code=failure_code, sentence=sentence)
        spend(tx, mine, tokens)
        if failure_class == ENVIRONMENT:
            most = tx.bounds.environment_credits_max
            tasks.credit(tx, mine.task_id, mine.attempt_id, ENVIRONMENT, at_most=most)
        task = tasks.locked(tx, mine.task_id)
        facts: dict[str, Any] = {"attempt": mine.attempt_id, "class": failure_class, "sentence": sentence}
        facts |= {} if failure_code is None else {"code": failure_code}
        wait_ms = (
            0
            if failure_class is None
            else back_off_ms(task.attempts, tx.bounds.backoff_min_ms, tx.bounds.backoff_max_ms)
        )
        changes = {"not_before": tx.now() + wait_ms}
        event, reason = _after_release(task, alike=alike)
        tasks.move(tx, task.id, event, actor=f"worker {worker_id}", reason=reason, facts=facts, changes=changes)


def reclaim(ledger: Ledger) -> int:
    """End every lease whose grace has passed, with exactly one `lease_expired` row each; how many. See
    `ledger.reclaim`."""
    return end_expired(ledger)


def held(tx: Transaction, lease_id: str, token: int, worker_id: str) -> Held:
    """The lease, good and locked, and its task with it: the task first, as everybody does who touches a lease. Raises
    `Rejected(lease_unknown|lease_not_yours|lease_stale)`."""
    tasks.locked(tx, task_of(tx, lease_id))
    row = tx.connection.execute(select(leases).where(leases.c.id == lease_id).with_for_update()).one()
    if row.worker_id != worker_id:
        raise Rejected(Refusal.LEASE_NOT_YOURS)
    is_good = select(leases.c.id).where(leases.c.id == lease_id, good(tx.now(), tx.bounds.lease_grace_ms))
    if row.token != token or tx.connection.execute(is_good).one_or_none() is None:
        raise Rejected(Refusal.LEASE_STALE)
    return Held(row.id, row.token, row.task_id, row.attempt_id, row.worker_id, row.expires_at)


def task_of(tx: Transaction, lease_id: str) -> str:
    """The task that was leased. Raises `Rejected(lease_unknown)`."""
    found = tx.connection.execute(select(leases.c.task_id).where(leases.c.id == lease_id)).scalar_one_or_none()
    if found is None:
        raise Rejected(Refusal.LEASE_UNKNOWN, {"lease": lease_id})
    return str(found)


def good(now: int, grace_ms: int) -> ColumnElement[bool]:
    """The one expression for a lease whose token may still write."""
    return leases.c.released_at.is_(None) & (leases.c.expires_at + grace_ms > now)


def end(
    tx: Transaction,
    mine: Held,
    *,
    ending: str,
    failure_class: str | None = None,
    failure_code: str | None = None,
    sentence: str | None = None,
) -> None:
    """End a lease that is held, and its attempt. Raises `Rejected(lease_stale)` when somebody else ended it first."""
    now = tx.now()
    guarded = update(leases).where(leases.c.id == mine.lease_id, good(now, tx.bounds.lease_grace_ms))
    if tx.connection.execute(guarded.values(released_at=now)).rowcount != 1:
        raise Rejected(Refusal.LEASE_STALE)
    tx.connection.execute(
        update(attempts)
        .where(attempts.c.id == mine.attempt_id)
        .values(
            ended_at=now, ending=ending, failure_class=failure_class, failure_code=failure_code, sentence=sentence
        )
    )


def back_off_ms(attempts_made: int, least_ms: int, most_ms: int) -> int:
    """How long a task waits after a failed attempt: doubled with each attempt, within the bounds."""
    return min(most_ms, least_ms << max(0, min(attempts_made, 30) - 1))


def spend(tx: Transaction, mine: Held, tokens: int) -> None:
    """Add what the attempt used to the sum of its task, which never goes down."""
    ensure(tokens >= 0, "tokens are used, never given back")
    if tokens:
        spent = update(attempts).where(attempts.c.id == mine.attempt_id)
        tx.connection.execute(spent.values(tokens=attempts.c.tokens + tokens))
        tasks.change(tx, mine.task_id, tokens=tasks_table.c.tokens + tokens)


def _failed_alike(tx: Transaction, mine: Held, failure_code: str) -> bool:
    c = attempts.c
    others = select(c.id).where(
        c.task_id == mine.task_id, c.worker_id != mine.worker_id, c.failure_class == WORK, c.failure_code == failure_code
    )
    return tx.connection.execute(others.limit(1)).one_or_none() is not None


def _after_release(task: Task, *, alike: bool) -> tuple[Event, Reason | None]:
    if task.stop_requested_at is not None:
        return Event.STOP, Reason.STOPPED
    if alike:
        return Event.EXHAUST, Reason.FAILED_ALIKE
    if task.attempts_left <= 0:
        return Event.EXHAUST, Reason.BUDGET_SPENT
    return Event.RELEASE, None


def _take(tx: Transaction, task: Task, worker_id: str) -> LeasedTask:
    now, token, number = tx.now(), task.fence + 1, task.attempts + 1
    attempt_id, lease_id = tx.new_id("att"), tx.new_id("lease")
    expires_at = now + tx.bounds.task_lease_ms
    charged = {"attempts": number, "fence": token, "last_worker_id": worker_id}
    facts: Mapping[str, Any] = {"attempt": attempt_id, "number": number, "worker": worker_id}
    tasks.move(tx, task.id, Event.CLAIM, actor=f"worker {worker_id}", facts=facts, changes=charged)
    tx.connection.execute(
        insert(attempts).values(
            id=attempt_id, task_id=task.id, number=number, worker_id=worker_id, started_at=now, tokens=0
        )
    )
    tx.connection.execute(
        insert(leases).values(
            id=lease_id,
            task_id=task.id,
            attempt_id=attempt_id,
            worker_id=worker_id,
            token=token,
            created_at=now,
            renewed_at=now,
            expires_at=expires_at,
        )
    )
    return _leased(tx, tx.connection.execute(select(leases).where(leases.c.id == lease_id)).one(), number)


def _leased(tx: Transaction, row: Row[Any], number: int) -> LeasedTask:
    task = tasks.get(tx, row.task_id)
    project = get_project(tx, task.project_id)
    tip = tx.connection.execute(select(branches.c.tip).where(branches.c.id == project.branch_id)).scalar_one()
    ensure(row.token == task.fence, "the newest token is the task's fence")
    return LeasedTask(
        lease_id=row.id,
        token=row.token,
        worker_id=row.worker_id,
        expires_at=row.expires_at,
        expires_in_ms=tx.bounds.task_lease_ms,
        beat_in_ms=tx.bounds.heartbeat_ms,
        task=task,
        attempt_id=row.attempt_id,
        attempt=number,
        project=project,
        tip=tip,
    )
