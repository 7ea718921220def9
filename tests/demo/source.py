"""The repository that the demo works in: this project's own history, and one commit with a contract of under a second."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CONTRACT = """schema: mac.repository_contract.v1
project: demo
platforms: [linux]
toolchain:
  required_commands: [python3]
test:
  command: python3 .mac/check.py
land:
  method: fast_forward
  allowed_paths: ["**"]
  max_files: 50
"""
CHECK = '''"""The demo's test: every Python file parses, and the guest book is in order."""

import ast
import pathlib
import sys
import time

time.sleep(1)  # a real test suite takes its time, and people want to see the hub wait for it
for path in pathlib.Path().rglob("*.py"):
    ast.parse(path.read_text(encoding="utf-8"), str(path))
book = pathlib.Path("GUESTS.md")
lines = book.read_text(encoding="utf-8").splitlines() if book.exists() else []
if any(not line.startswith("- ") for line in lines):
    sys.exit("GUESTS.md: every line begins with a dash")
print(f"all is well, {len(lines)} guests")
'''
STAND_IN = 200


@dataclass(frozen=True)
class Source:
    """A repository with a branch `main`; `stand_in` says that the history is made up, and why."""

    path: Path
    commits: int
    stand_in: str | None


def make(root: Path, folder: Path) -> Source:
    """The project's own history where it is whole, otherwise a made-up one that is said to be one."""
    path = folder / "source"
    why = _not_whole(root)
    if why is None:
        _git(folder, "clone", "-q", "--no-hardlinks", "--no-tags", str(root), str(path))
        _git(path, "checkout", "-q", "-B", "main")
    else:
        path.mkdir()
        _git(path, "init", "-q", "-b", "main")
        _made_up(path)
    (path / ".mac").mkdir(exist_ok=True)
    (path / ".mac" / "project.yaml").write_text(CONTRACT)
    (path / ".mac" / "check.py").write_text(CHECK)
    (path / "GUESTS.md").write_text("- the demo itself\n")
    _git(path, "add", "-A")
    _git(path, "commit", "-q", "-m", "Take up the demo's contract")
    return Source(path, int(_git(path, "rev-list", "--count", "HEAD")), why)


def _not_whole(root: Path) -> str | None:
    try:
        shallow = _git(root, "rev-parse", "--is-shallow-repository")
        _git(root, "rev-parse", "--verify", "HEAD")
        top = _git(root, "rev-parse", "--show-toplevel")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return "this is no git clone"
    if Path(top).resolve() != root.resolve():
        return "this is no git clone of its own"
    return "this clone is shallow" if shallow == "true" else None


def _made_up(path: Path) -> None:
    for number in range(STAND_IN):
        (path / f"note-{number % 20:02}.md").write_text(f"note {number}\n")
        _git(path, "add", "-A")
        _git(path, "commit", "-q", "-m", f"Note {number}")


def _git(folder: Path, *argv: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        **{f"GIT_{who}_NAME": "mac hub demo" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "demo@mac.invalid" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(["git", *argv], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
