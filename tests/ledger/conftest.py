"""A ledger for each test, on a database that was migrated once and copied."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ledger.engine import connect
from ledger.migrate import apply
from ledger.session import Ledger
from tests.ledger.postgresql import Server, running
from tests.ledger.world import START, CountingIds, HeardBell, VirtualClock, World


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty database file; copied, never opened by a test."""
    path = tmp_path_factory.mktemp("template") / "ledger.sqlite"
    engine = connect(f"sqlite:///{path}")
    apply(engine, applied_by="test", clock=lambda: START)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The one PostgreSQL of this run. Where none can be had its tests are skipped, and fail where `CI` is set."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(shared))
        except LookupError as absent:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(absent))
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Which kind of database the test runs on: each test runs on both."""
    return str(request.param)


@pytest.fixture
def sqlite_url(migrated: Path, tmp_path: Path) -> str:
    """The URL of a fresh, migrated SQLite database."""
    path = tmp_path / "ledger.sqlite"
    shutil.copyfile(migrated, path)
    return f"sqlite:///{path}"


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str) -> Iterator[str]:
    """The URL of a fresh, migrated database of that kind."""
    if database_kind == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    server: Server = request.getfixturevalue("postgresql_server")
    with server.database() as url:
        yield url


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of that kind in which nothing is yet."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'new.sqlite'}"
        return
    server: Server = request.getfixturevalue("postgresql_server")
    with server.database(migrated=False) as url:
        yield url


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that the test moves."""
    return VirtualClock()


@pytest.fixture
def bell() -> HeardBell:
    """A bell that the test can ask."""
    return HeardBell()


@pytest.fixture
def ledger(database_url: str, clock: VirtualClock, bell: HeardBell) -> Iterator[Ledger]:
    """An open ledger on virtual time."""
    opened = Ledger.open(database_url, clock=clock, ids=CountingIds(), bell=bell)
    yield opened
    opened.close()


@pytest.fixture
def world(ledger: Ledger, clock: VirtualClock, bell: HeardBell) -> World:
    """The builder on that ledger."""
    return World(ledger, clock, bell)
