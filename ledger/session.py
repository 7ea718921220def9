"""The ledger as the other rooms hold it: transactions with a clock, new ids, and a bell that is rung after the
commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Connection, Engine, text

from ledger.bell import Bell, SilentBell
from ledger.bounds import Bounds
from ledger.clock import Clock, wall_clock
from ledger.engine import connect, is_sqlite, reading, writing
from ledger.ids import Ids, random_id
from ledger.migrate import verify

log = structlog.get_logger(__name__)

_DATABASE_TIME = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")


@dataclass(slots=True)
class Transaction:
    """One transaction: all of it is committed or none. Made by `Ledger.write` and `Ledger.read` only."""

    connection: Connection
    bounds: Bounds
    _clock: Clock | None
    _ids: Ids
    rings: list[str] = field(default_factory=list)

    def now(self) -> int:
        """The time, in milliseconds. Ask for it after taking the locks that it is compared under."""
        if self._clock is not None:
            return self._clock()
        if is_sqlite(self.connection):
            return wall_clock()  # one machine, and the write lock is held
        return int(self.connection.execute(_DATABASE_TIME).scalar_one())

    def new_id(self, prefix: str) -> str:
        """A new id such as `task_…`."""
        return self._ids(prefix)

    def ring(self, branch_id: str) -> None:
        """Ring the branch's bell once this transaction has committed; a rollback rings nothing."""
        if branch_id not in self.rings:
            self.rings.append(branch_id)


class Ledger:
    """The memory of the hub. `clock` and `ids` are for tests and simulations; without them, the database's time (on
    SQLite: this machine's) and random ids."""

    def __init__(self, engine: Engine, *, clock: Clock | None, ids: Ids, bounds: Bounds, bell: Bell) -> None:
        self.engine = engine
        self.bounds = bounds
        self.bell = bell
        self._clock = clock
        self._ids = ids

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        ids: Ids = random_id,
        bounds: Bounds | None = None,
        bell: Bell | None = None,
    ) -> "Ledger":
        """The ledger at `url`. Raises `SchemaRefused` by name unless its schema is exactly the one this version
        knows."""
        engine = connect(url)
        try:
            verify(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, clock=clock, ids=ids, bounds=bounds or Bounds(), bell=bell or SilentBell())

    def close(self) -> None:
        """Give the connections back. The ledger may be opened again."""
        self.engine.dispose()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction that may write. It commits when the block ends, rolls back when it raises, and rings
        afterwards."""
        with self.engine.connect() as plain:
            connection = writing(plain)
            with connection.begin():
                transaction = Transaction(connection, self.bounds, self._clock, self._ids)
                yield transaction
        for branch_id in transaction.rings:
            self._ring(branch_id)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A transaction that sees one state of the ledger and changes nothing."""
        with self.engine.connect() as plain, (connection := reading(plain)).begin():
            yield Transaction(connection, self.bounds, self._clock, self._ids)

    def now(self) -> int:
        """The ledger's time, in milliseconds: the one clock that every written time is compared with. Another host's own
        clock may differ from it by minutes."""
        if self._clock is not None:
            return self._clock()
        with self.read() as tx:
            return tx.now()

    def _ring(self, branch_id: str) -> None:
        try:
            self.bell.ring(branch_id)
        except Exception:
            log.exception("ring_failed", branch=branch_id)
