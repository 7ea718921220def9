"""A ledger for each test, on a database that was migrated once and copied."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.engine import connect
from ledger.migrate import apply
from ledger.session import Ledger
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


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, migrated: Path, tmp_path: Path) -> str:
    """The URL of a fresh, migrated database; further kinds of database are further parameters."""
    path = tmp_path / "ledger.sqlite"
    shutil.copyfile(migrated, path)
    return f"sqlite:///{path}"


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
