"""The line of a branch: priority, then first approval. Who is first, how long, and how often others went before it.

In the line stand the approved publications that wait for no person; and, for a bounded time, the place of one that was
sent back while it was first, so that the branch is kept for its new evidence.
"""

from typing import Any

from sqlalchemy import Row, Select, and_, func, or_, select, update

from ledger.session import Transaction
from ledger.tables import publications
from pipeline.facts import LineFacts

SHOWN_MAX = 50

_ORDER = (publications.c.line_priority.desc(), publications.c.line_at, publications.c.id)


def facts_of(tx: Transaction, row: Row[Any]) -> LineFacts:
    """The place of one publication. `passed` is the count of the first in the line: it is the first that was passed."""
    line = tx.connection.execute(_line(row.branch_id, tx.now())).all()
    others = [other for other in line if other.task_id != row.task_id]
    ahead = [other for other in others if _key(other) < _key(row)] if row.line_at is not None else others
    running = 0 if row.front_since is None else max(0, tx.now() - row.front_since)
    return LineFacts(
        before=tuple(other.id for other in ahead),
        passed=ahead[0].passed if ahead else row.passed,
        front_ms=row.front_ms + running,
        yielded=row.yielded,
    )


def turn(tx: Transaction, branch_id: str) -> str | None:
    """Let the time at the front run for the first in the line, and for nobody else; who that is."""
    now, c = tx.now(), publications.c
    first = tx.connection.execute(_line(branch_id, now).limit(1)).one_or_none()
    first_id = None if first is None else first.id
    over = update(publications).where(c.branch_id == branch_id, c.front_since.is_not(None))
    if first_id is not None:
        over = over.where(c.id != first_id)
    tx.connection.execute(over.values(front_ms=c.front_ms + (now - c.front_since), front_since=None))
    if first_id is not None:
        begun = update(publications).where(c.id == first_id, c.front_since.is_(None))
        tx.connection.execute(begun.values(front_since=now))
    return first_id


def passed_by(tx: Transaction, branch_id: str, landed_task_id: str) -> None:
    """Count a landing against the first in the line, when it was not the first that landed."""
    first = tx.connection.execute(_line(branch_id, tx.now()).limit(1)).one_or_none()
    if first is not None and first.task_id != landed_task_id:
        change = update(publications).where(publications.c.id == first.id)
        tx.connection.execute(change.values(passed=publications.c.passed + 1))


def behind_all(tx: Transaction, branch_id: str, priority: int) -> dict[str, Any]:
    """The place behind everybody who waits now, whatever their priority."""
    c = publications.c
    lowest = select(func.min(c.line_priority)).where(c.branch_id == branch_id, c.in_line == 1)
    found = tx.connection.execute(lowest).scalar_one()
    return {"line_priority": min(priority, priority if found is None else found), "line_at": tx.now()}


def forget_kept(tx: Transaction, task_id: str) -> None:
    """The branch is no longer kept for what this task had been sent back for."""
    kept = update(publications).where(publications.c.task_id == task_id, publications.c.kept_until.is_not(None))
    tx.connection.execute(kept.values(kept_until=None))


def _line(branch_id: str, now: int) -> Select[Any]:
    c = publications.c
    standing = and_(c.branch_id == branch_id, or_(c.in_line == 1, c.kept_until > now))
    columns = (c.id, c.task_id, c.line_priority, c.line_at, c.passed, c.front_since)
    return select(*columns).where(standing).order_by(*_ORDER).limit(SHOWN_MAX)


def _key(row: Row[Any]) -> tuple[int, int, str]:
    return -row.line_priority, row.line_at, row.id
