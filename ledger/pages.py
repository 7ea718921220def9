"""Pages of lists: bounded, in a stable order, continued by a cursor that names the last row seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Row, Select, Table, and_, or_, select

from ledger.session import Transaction
from pipeline.errors import Rejected
from pipeline.refusals import Refusal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, the oldest first, and the cursor of the page after them (None: these were the last)."""

    rows: Sequence[T]
    next_cursor: str | None


def page(
    tx: Transaction,
    table: Table,
    query: Select[Any],
    make: Callable[[Row[Any]], T],
    *,
    cursor: str | None,
    limit: int | None,
) -> Page[T]:
    """The rows of `query` after `cursor`, at most `limit` and never more than the bound. Raises
    `Rejected(field_invalid)`."""
    most = max(1, min(limit or tx.bounds.page_rows_max, tx.bounds.page_rows_max))
    created, identity = table.c.created_at, table.c.id
    if cursor is not None:
        at, last = _position(cursor)
        query = query.where(or_(created > at, and_(created == at, identity > last)))
    rows = tx.connection.execute(query.order_by(created, identity).limit(most + 1)).all()
    shown = rows[:most]
    more = len(rows) > most
    return Page([make(row) for row in shown], f"{shown[-1].created_at}.{shown[-1].id}" if more else None)


def resolve(tx: Transaction, table: Table, prefix: str, given: str, unknown: Rejected) -> str:
    """The one id that begins with `given` (with or without the `prefix` of its kind). Raises `unknown`, or
    `Rejected(id_ambiguous)` when more than one does."""
    start = given if given.startswith(prefix) else prefix + given
    if not given or not start.replace("_", "").isalnum():
        raise unknown
    if tx.connection.execute(select(table.c.id).where(table.c.id == start)).one_or_none() is not None:
        return start
    like = select(table.c.id).where(table.c.id.startswith(start, autoescape=True)).limit(2)
    found = tx.connection.execute(like).scalars().all()
    if len(found) == 2:
        raise Rejected(Refusal.ID_AMBIGUOUS, {"prefix": given})
    if not found:
        raise unknown
    return str(found[0])


def _position(cursor: str) -> tuple[int, str]:
    at, dot, last = cursor.partition(".")
    if not (dot and at.isdigit() and last):
        raise Rejected(Refusal.FIELD_INVALID, {"field": "cursor", "problem": "it is not one of ours"})
    return int(at), last
