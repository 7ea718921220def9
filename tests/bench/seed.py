"""A repository of a size that people have, made fast and always alike: files in folders, and a long first-parent history."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDERS = 1_000
CONTRACT = b"""schema: mac.repository_contract.v1
project: bench
test:
  command: sh check.sh
land:
  method: fast_forward
"""


def make(path: Path, *, files: int, commits: int) -> None:
    """A bare repository with `files` files and `commits` commits on `main`; each commit changes one file."""
    path.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    stream = b"".join(_stream(files, commits))
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=stream, check=True)
    subprocess.run(["git", "-C", str(path), "repack", "-adq"], check=True)


def _stream(files: int, commits: int) -> Iterator[bytes]:
    yield _commit(0, "Begin")
    yield _file(".mac/project.yaml", CONTRACT)
    yield _file("check.sh", b"exit 0\n")
    for number in range(files - 2):
        yield _file(_path(number), f"file {number}\n".encode() * 8)
    for number in range(1, commits):
        yield _commit(number, f"Change {number}")
        yield _file(_path(number * 7 % (files - 2)), f"file, changed by {number}\n".encode() * 8)
    yield b"done\n"


def _path(number: int) -> str:
    return f"folder-{number % FOLDERS:03}/file-{number:05}.txt"


def _commit(number: int, message: str) -> bytes:
    text = message.encode()
    who = b"bench <bench@mac.invalid> %d +0000" % (1_700_000_000 + number)
    head = b"commit refs/heads/main\nmark :%d\nauthor %s\ncommitter %s\n" % (number + 1, who, who)
    return head + b"data %d\n%s\n" % (len(text), text)


def _file(path: str, content: bytes) -> bytes:
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
