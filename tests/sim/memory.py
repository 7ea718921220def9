"""The ledger on a database in memory, with a seam before each transaction and after each commit.

One connection serves all actors: a transaction is never interrupted, because SQLite lets no other writer in anyway. A
process that is killed in the middle of one is a process that was killed before it, which the seam plays.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from ledger import engine as engines
from ledger import migrate
from ledger.bounds import Bounds
from ledger.session import Ledger, Transaction
from tests.ledger.world import CountingIds, VirtualClock
from tests.sim.baton import Baton, Fault


class Memory:
    """One engine for many schedules; each begins with the same empty, migrated database."""

    def __init__(self) -> None:
        self.raw = sqlite3.connect(":memory:", check_same_thread=False)
        self.engine: Engine = create_engine("sqlite://", creator=lambda: self.raw, poolclass=StaticPool)
        event.listen(self.engine, "begin", engines._begin_sqlite)
        self.raw.isolation_level = None
        migrate.apply(self.engine, applied_by="simulation", clock=lambda: 0)
        self.raw.execute("PRAGMA foreign_keys = ON")
        self._empty = self.raw.serialize()
        self.broken_after: int | None = None
        event.listen(self.engine, "before_cursor_execute", self._statement)

    def begin(self) -> None:
        """Forget everything."""
        self.raw.deserialize(self._empty)
        self.raw.execute("PRAGMA foreign_keys = ON")
        self.broken_after = None

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """What the database holds, read beside the product's own code."""
        cursor = self.raw.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(query, values).fetchall()

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self.broken_after is None:
            return
        if self.broken_after == 0:
            self.broken_after = None
            raise OperationalError(statement, {}, Exception("the connection was dropped"))
        self.broken_after -= 1


class SimLedger(Ledger):
    """The ledger itself; only the moments around its transactions are the simulation's."""

    def __init__(
        self, memory: Memory, clock: VirtualClock, bounds: Bounds, *, bell: Any, baton: Baton, committed: Callable[[], None]
    ) -> None:
        super().__init__(memory.engine, clock=clock, ids=CountingIds(), bounds=bounds, bell=bell)
        self._memory = memory
        self._baton = baton
        self._committed = committed

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """As the ledger's, with the faults of a database: it does not answer, it drops the connection half way, it
        commits and cannot say so."""
        fault = self._baton.seam("ledger write")
        if fault is Fault.LOST:
            raise OperationalError("BEGIN", {}, Exception("the database does not answer"))
        with self._baton.uninterrupted():
            self._memory.broken_after = 3 if fault is Fault.LATE else None
            try:
                with super().write() as transaction:
                    yield transaction
            finally:
                self._memory.broken_after = None
            self._committed()
        after = self._baton.seam("ledger committed")
        if Fault.ANSWER_LOST in (fault, after):
            raise OperationalError("COMMIT", {}, Exception("the connection was dropped after the commit"))

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """As the ledger's; what was read may be old by the time it is used."""
        if self._baton.seam("ledger read") is Fault.LOST:
            raise OperationalError("BEGIN", {}, Exception("the database does not answer"))
        with self._baton.uninterrupted(), super().read() as transaction:
            yield transaction


class Bell:
    """A broker that loses, doubles and keeps rings as it is told."""

    def __init__(self, baton: Baton) -> None:
        self.waiting: list[str] = []
        self._baton = baton

    def ring(self, branch_id: str) -> None:
        """One ring, unless one waits."""
        if branch_id not in self.waiting:
            self.waiting.append(branch_id)

    def answer(self, _branch_id: str) -> None:
        """A look begins."""
        self._baton.seam("bell answered")
