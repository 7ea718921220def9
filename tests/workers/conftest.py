"""A remote that is a real bare repository with a mirror cache beside it, and a town on the sandbox."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture
def town(github: Sandbox, tmp_path: Path) -> Iterator[Town]:
    http = Git.prepared(tmp_path / "http-home", os.environ, timeout_ms=20_000)
    made = Town.made(github, http, tmp_path)
    yield made
    made.close()
