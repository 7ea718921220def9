"""Expired leases: ended when anybody asks, at most once in a while, and never at the cost of who asked."""

from typing import Any

import structlog
from sqlalchemy import Row, select, update
from sqlalchemy.exc import SQLAlchemyError

from ledger import history, tasks
from ledger.session import Ledger, Transaction
from ledger.tables import attempts, leases, ticks
from ledger.tables import tasks as tasks_table
from pipeline.errors import HubError
from pipeline.reasons import Reason
from pipeline.states import Event, State

BATCH = 100

log = structlog.get_logger(__name__)


def end_expired(ledger: Ledger) -> int:
    """End the leases whose expiry and grace have passed, a bounded number; how many were ended by this call.

    The task goes back to the pool without its worker, is stopped if that was asked, or fails when no attempt is left.
    Each lease gets exactly one `lease_expired` row, however many callers there are: each locks the task first, as
    everybody does who touches its lease, and the statement that ends it repeats the condition.
    """
    with ledger.write() as tx:
        late = tx.now() - tx.bounds.lease_grace_ms
        query = select(leases).where(leases.c.released_at.is_(None), leases.c.expires_at <= late)
        found = tx.connection.execute(query.order_by(leases.c.expires_at, leases.c.id).limit(BATCH)).all()
        return sum(_end(tx, row) for row in found)


def reclaim_if_due(ledger: Ledger) -> None:
    """Reclaim, unless somebody did within the last `reclaim_every_ms`. Never raises: who asks for a lease is served."""
    try:
        if _due(ledger):
            end_expired(ledger)
    except (SQLAlchemyError, HubError):
        log.exception("reclaim_failed")


def _due(ledger: Ledger) -> bool:
    with ledger.read() as tx:
        at = tx.connection.execute(select(ticks.c.at).where(ticks.c.name == "reclaim")).scalar_one()
        if tx.now() - at < tx.bounds.reclaim_every_ms:
            return False
    with ledger.write() as tx:
        now = tx.now()
        due = update(ticks).where(ticks.c.name == "reclaim", ticks.c.at <= now - tx.bounds.reclaim_every_ms)
        return tx.connection.execute(due.values(at=now)).rowcount == 1


def _end(tx: Transaction, row: Row[Any]) -> int:
    mine = select(tasks_table.c.id).where(tasks_table.c.id == row.task_id)
    if tx.connection.execute(mine.with_for_update(skip_locked=True)).one_or_none() is None:
        return 0  # somebody acts on the task just now; the next reclaim comes by
    now = tx.now()
    late = now - tx.bounds.lease_grace_ms
    guarded = update(leases).where(leases.c.id == row.id, leases.c.released_at.is_(None), leases.c.expires_at <= late)
    if tx.connection.execute(guarded.values(released_at=now)).rowcount != 1:
        return 0
    tx.connection.execute(
        update(attempts).where(attempts.c.id == row.attempt_id).values(ended_at=now, ending="expired")
    )
    facts = {"lease": row.id, "attempt": row.attempt_id, "worker": row.worker_id, "expired_at": row.expires_at}
    history.write(
        tx, subject="lease", subject_id=row.id, task=row.task_id, event="lease_expired", facts=facts, actor="hub"
    )
    _return(tx, row.task_id)
    return 1


def _return(tx: Transaction, task_id: str) -> None:
    task = tasks.locked(tx, task_id)
    if task.state is not State.CLAIMED:
        return
    event, reason = Event.EXPIRE, None
    if task.stop_requested_at is not None:
        event, reason = Event.STOP, Reason.STOPPED
    elif task.attempts_left <= 0:
        event, reason = Event.EXHAUST, Reason.BUDGET_SPENT
    tasks.move(tx, task_id, event, reason=reason, actor="hub")
