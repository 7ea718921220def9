"""Connections to the ledger's database, set up so that the guarantees of the ledger hold on each of them.

SQLite: write-ahead log, every commit synced, foreign keys on, and writers that take the write lock when they begin,
so that no transaction fails half way because it read before it wrote. PostgreSQL: the schema `mac`; writers see what was
committed before each of their statements, as their locks need it, readers one state from beginning to end. A child
process that was forked never uses a connection of its parent.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url

WAL_TRIES = 100
WAL_PAUSE_S = 0.05
BUSY_TIMEOUT_MS = 10_000
POOL_SIZE = 8

_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def connect(url: str) -> Engine:
    """An engine on the database; nothing is read or written yet."""
    parsed = make_url(url)
    engine = _sqlite(url) if parsed.get_backend_name() == "sqlite" else _postgresql(url)
    _engines.add(engine)
    return engine


@contextmanager
def closing_engine(url: str) -> Iterator[Engine]:
    """An engine for one short program: its connections are given back at the end of the block."""
    engine = connect(url)
    try:
        yield engine
    finally:
        engine.dispose()


def writing(connection: Connection) -> Connection:
    """The connection, so that its next transaction takes the write lock when it begins."""
    return connection.execution_options(mac_writes=True)


def reading(connection: Connection) -> Connection:
    """The connection, so that its next transaction sees one state, whatever others commit meanwhile. SQLite's always
    do."""
    return connection if is_sqlite(connection) else connection.execution_options(isolation_level="REPEATABLE READ")


def is_sqlite(connection: Connection) -> bool:
    """Whether this is SQLite, where one writer excludes all others."""
    return connection.dialect.name == "sqlite"


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, pool_size=POOL_SIZE, max_overflow=2 * POOL_SIZE)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _switch_to_wal(connection)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _switch_to_wal(connection: Any) -> None:
    """Write-ahead logging, once for each file. SQLite refuses the switch at once, whatever the busy time-out, while
    another program is just making it; a bounded number of tries waits for that one."""
    for tries_left in range(WAL_TRIES, -1, -1):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if not tries_left:
                raise
            time.sleep(WAL_PAUSE_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("mac_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: str) -> Engine:
    return create_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=2 * POOL_SIZE,
        pool_pre_ping=True,
        isolation_level="READ COMMITTED",
        connect_args={"options": "-c search_path=mac -c idle_in_transaction_session_timeout=60000"},
    )


def _forget_connections() -> None:
    for engine in _engines:
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)
