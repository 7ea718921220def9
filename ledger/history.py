"""History: append-only rows, each committed together with the change that it tells of."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Row, insert, select

from ledger.session import Transaction
from ledger.tables import history
from pipeline.canonical import Json

FEW = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of history; `at` in milliseconds. `from_state` and `to_state` are set when a state changed."""

    id: int
    at: int
    subject: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str | None
    reason: str | None
    facts: Mapping[str, Json]
    actor: str


def write(
    tx: Transaction,
    *,
    subject: str,
    subject_id: str,
    event: str,
    actor: str,
    task: str | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    reason: str | None = None,
    facts: Mapping[str, Json] | None = None,
) -> None:
    """Add one row in the caller's transaction. `task` puts it on that task's timeline as well."""
    tx.connection.execute(
        insert(history).values(
            at=tx.now(),
            subject=subject,
            subject_id=subject_id,
            task_id=task,
            event=event,
            from_state=from_state,
            to_state=to_state,
            reason=reason,
            facts=dict(facts or {}),
            actor=actor,
        )
    )


def timeline(tx: Transaction, task_id: str, *, after: int = 0, limit: int = FEW) -> list[Entry]:
    """The rows of one task, the oldest first, from the row after `after` on."""
    rows = tx.connection.execute(
        select(history)
        .where(history.c.task_id == task_id, history.c.id > after)
        .order_by(history.c.id)
        .limit(min(limit, FEW))
    )
    return [_entry(row) for row in rows]


def _entry(row: Row[tuple[object, ...]]) -> Entry:
    return Entry(
        id=row.id,
        at=row.at,
        subject=row.subject,
        subject_id=row.subject_id,
        event=row.event,
        from_state=row.from_state,
        to_state=row.to_state,
        reason=row.reason,
        facts=row.facts,
        actor=row.actor,
    )
