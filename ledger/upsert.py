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
    into: Any = sqlite.insert(table) if is_sqlite(tx.connection) else postgresql.insert(table)
    key = next(iter(table.primary_key.columns))
    statement = into.values(values).on_conflict_do_nothing().returning(key)  # a count of rows is not told everywhere
    return tx.connection.execute(statement).one_or_none() is not None
