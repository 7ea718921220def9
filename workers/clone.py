"""The mirror cache: one bare repository for each repository id, locked, bounded, and made anew when it is broken.

A mirror is a cache and nothing else: whatever it holds can be fetched again, so every doubt about it ends in removal.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pipeline.errors import InvariantBroken, Unavailable, ensure
from workers.git import Git, GitFailed
from workers.mirror import Mirror

_MADE: Final = "hub-mirror-v1"
_LOCK_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a mirror fetches from and pushes to. `token` is asked for at each use, so a fresh one is always sent."""

    repository_id: int
    url: str
    token: Callable[[], str] | None = None


class Mirrors:
    """All mirrors of this machine, under one folder of at most `max_bytes`, the longest unused evicted first."""

    def __init__(self, root: Path, git: Git, *, max_bytes: int, lock_timeout_ms: int = 60_000, packs_max: int = 50) -> None:
        self._packs_max = packs_max
        self._root = root
        self._git = git
        self._max_bytes = max_bytes
        self._lock_timeout_ms = lock_timeout_ms
        root.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def open(self, remote: Remote) -> Iterator[Mirror]:
        """The mirror, ours alone until the block ends. Raises `Unavailable(mirror_busy)` when another process keeps it.

        A git failure inside the block that points to a broken store removes the mirror, so that the next look starts
        from a whole one; the failure is raised all the same, because what was read from it cannot be trusted.
        """
        _check_url(remote.url)
        with self._locked(remote.repository_id, self._lock_timeout_ms):
            path = self._path(remote.repository_id)
            if not (path / _MADE).is_file():
                self._make(path)
            os.utime(path / _MADE)
            mirror = Mirror(path, self._git, remote.url, remote.token, remake=lambda: self._make(path))
            try:
                yield mirror
            except GitFailed as failure:
                if failure.code == "mirror_corrupt":
                    shutil.rmtree(path, ignore_errors=True)
                raise

    def evict(self) -> tuple[int, ...]:
        """Remove the longest unused mirrors until the folder fits its bound; those in use are passed over.

        Returns the repository ids that were removed.
        """
        sizes = {path: _size(path) for path in self._root.glob("*.git")}
        total = sum(sizes.values())
        removed: list[int] = []
        for path in sorted(sizes, key=_last_used):
            if total <= self._max_bytes:
                break
            repository_id = int(path.stem)
            with contextlib.suppress(Unavailable), self._locked(repository_id, 0):
                shutil.rmtree(path, ignore_errors=True)
                total -= sizes[path]
                removed.append(repository_id)
        return tuple(removed)

    def tidy(self) -> tuple[int, ...]:
        """Repack the mirrors that hold more packs than the bound, and return their repository ids.

        Each fetch leaves a pack, and git does not tidy by itself here, so that no work ever runs on behind our back.
        Mirrors in use are passed over.
        """
        tidied: list[int] = []
        for path in sorted(self._root.glob("*.git")):
            if sum(1 for _ in path.glob("objects/pack/*.pack")) <= self._packs_max:
                continue
            with contextlib.suppress(Unavailable), self._locked(int(path.stem), 0):
                self._git.run("gc", "--quiet", directory=path)
                tidied.append(int(path.stem))
        return tuple(tidied)

    def _path(self, repository_id: int) -> Path:
        return self._root / f"{repository_id}.git"

    def _make(self, path: Path) -> None:
        """Made beside its place and moved there whole, so that a crash leaves no half mirror behind."""
        fresh = Path(tempfile.mkdtemp(prefix="making-", dir=self._root))
        self._git.run("init", "--quiet", "--bare", "--template=", str(fresh), directory=self._root)
        (fresh / _MADE).touch()
        shutil.rmtree(path, ignore_errors=True)
        fresh.replace(path)

    @contextlib.contextmanager
    def _locked(self, repository_id: int, timeout_ms: int) -> Iterator[None]:
        """The lock file stays for ever: removing it would let two processes lock two files of one name."""
        deadline = time.monotonic() + timeout_ms / 1000
        with (self._root / f"{repository_id}.lock").open("a") as lock:
            while not _try_lock(lock.fileno()):
                if time.monotonic() >= deadline:
                    raise Unavailable("mirror_busy", f"the mirror of repository {repository_id} is in use")
                time.sleep(_LOCK_STEP_S)
            yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_url(url: str) -> None:
    ensure(not url.startswith("-"), "a remote's address begins with a dash")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvariantBroken("a remote's address cannot be read") from error
    ensure(parts.username is None and parts.password is None, "a remote's address carries credentials")


def _size(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / name).lstat().st_size
    return total


def _last_used(path: Path) -> float:
    try:
        return (path / _MADE).stat().st_mtime
    except FileNotFoundError:
        return 0.0
