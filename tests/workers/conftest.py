"""A remote that is a real bare repository with a mirror cache beside it, and a town on the sandbox."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.engine import connect
from ledger.migrate import apply
from ledger.session import Ledger
from ledger.slot import LandSlot
from tests.ledger.world import START, CountingIds, HeardBell, VirtualClock, World
from tests.sandbox.fixtures import github
from tests.sandbox.sandbox import Sandbox
from tests.workers.places import Place
from tests.workers.town import Town
from workers.clone import Mirrors
from workers.git import Git
from workers.mirror import Mirror

__all__ = ["github"]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git.prepared(tmp_path / "git-home", os.environ, file_protocol=True, timeout_ms=20_000)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.made(tmp_path / "remote.git")


@pytest.fixture
def mirrors(tmp_path: Path, git: Git) -> Mirrors:
    return Mirrors(tmp_path / "mirrors", git, max_bytes=1_000_000_000, lock_timeout_ms=5_000)


@pytest.fixture
def mirror(mirrors: Mirrors, place: Place) -> Iterator[Mirror]:
    with mirrors.open(place.remote()) as opened:
        opened.fetch({"refs/heads/main": "refs/hub/heads/main"})
        yield opened


@pytest.fixture(scope="session")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A ledger that gives land slots, which nobody else can; each test takes one on a branch of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('slots') / 'ledger.sqlite'}"
    engine = connect(url)
    apply(engine, applied_by="test", clock=lambda: START)
    engine.dispose()
    clock, bell = VirtualClock(), HeardBell()
    ledger = Ledger.open(url, clock=clock, ids=CountingIds(), bell=bell)
    yield World(ledger, clock, bell)
    ledger.close()


@pytest.fixture
def slot(slots: World) -> LandSlot:
    return slots.slot(slots.project().branch_id)


@pytest.fixture
def town(github: Sandbox, tmp_path: Path) -> Iterator[Town]:
    http = Git.prepared(tmp_path / "http-home", os.environ, timeout_ms=20_000)
    made = Town.made(github, http, tmp_path)
    yield made
    made.close()
