"""What code a process runs, so that a rollout can be checked: read from git's files, without running git."""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def running_revision(root: Path = ROOT) -> str:
    """What code this is: `MAC_REVISION` of a built image, else the commit of a checkout at `root`, else the version
    of the distribution. The commit is read from git's files, as no program is run here; once, at start, so that a later
    checkout does not change the answer."""
    return os.environ.get("MAC_REVISION") or _commit(root) or _distribution()


def _commit(root: Path) -> str | None:
    try:
        folder = root / ".git"
        if folder.is_file():  # a linked worktree
            folder = Path(folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        common = folder / "commondir"
        shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
        return _resolved(shared, head.removeprefix("ref: "))
    except (OSError, UnicodeDecodeError):
        return None


def _resolved(folder: Path, ref: str) -> str | None:
    loose = folder / ref
    if loose.is_file():
        return loose.read_text(encoding="utf-8").strip()
    for line in (folder / "packed-refs").read_text(encoding="utf-8").splitlines():
        if line.endswith(f" {ref}"):
            return line.split(" ", 1)[0]
    return None


def _distribution() -> str:
    try:
        return version("mac-hub")
    except PackageNotFoundError:
        return "unknown"
