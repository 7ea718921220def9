"""Insert unless it is there: the one statement that the two databases spell in modules of their own."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from ledger.engine import is_sqlite
from ledger.session import Transaction


def insert_absent(tx: Transaction, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert the row unless a row with one of its unique keys is there; whether it was inserted. Never raises for two
    callers at once: one of them inserts, the other is told that it did not."""
    if is_sqlite(tx.connection):
        statement: Any = sqlite.insert(table).values(values).on_conflict_do_nothing()
    else:
        statement = postgresql.insert(table).values(values).on_conflict_do_nothing()
    return bool(tx.connection.execute(statement).rowcount == 1)
