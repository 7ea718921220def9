"""What git prints, parsed: commits, batches of objects, differences, the pack in a bundle. Pure functions on bytes.

Paths are text for us: bytes that are no UTF-8 show as `\\xNN`, so that a path can always be digested and displayed.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from pipeline.errors import Rejected, ensure
from pipeline.facts import Sha
from pipeline.refusals import Refusal

SYMLINK_MODE: Final = "120000"
SUBMODULE_MODE: Final = "160000"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit object. `committer` and `author` are `Name <email>`; `committed_at` is in milliseconds."""

    tree: Sha
    parents: tuple[Sha, ...]
    author: str
    committer: str
    committed_at: int
    message: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One path that differs. `status` is git's letter (A, D, M, T); modes are octal text, `000000` for an absent side.

    `added` and `removed` count lines, and are None for a binary file.
    """

    path: str
    status: str
    old_mode: str
    new_mode: str
    old_blob: Sha
    new_blob: Sha
    added: int | None
    removed: int | None


def tag_id(content: bytes) -> Sha:
    """The id that git gives to a tag object with this content."""
    return hashlib.sha1(b"tag %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def parse_commit(content: bytes) -> Commit:
    """Read a commit object as git stores it."""
    head, _, message = content.partition(b"\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    committer, _, when = fields["committer"][0].rpartition("> ")
    author = fields["author"][0].rpartition("> ")[0]
    return Commit(
        tree=fields["tree"][0],
        parents=tuple(fields.get("parent", [])),
        author=f"{author}>",
        committer=f"{committer}>",
        committed_at=int(when.split(" ")[0]) * 1000,
        message=message.decode("utf-8", "replace"),
    )


def parse_batch(output: bytes, count: int) -> list[tuple[str, bytes] | None]:
    """Read the answer of `cat-file --batch`: type and content for each object asked for, None for a missing one."""
    found: list[tuple[str, bytes] | None] = []
    at = 0
    while len(found) < count:
        end = output.index(b"\n", at)
        words = output[at:end].rsplit(b" ", 2)
        at = end + 1
        if len(words) < 3 or not words[2].isdigit():
            found.append(None)
            continue
        size = int(words[2])
        found.append((words[1].decode(), output[at : at + size]))
        at += size + 1
    ensure(at == len(output), "cat-file said more than it was asked for")
    return found


def parse_changes(output: bytes) -> tuple[ChangedFile, ...]:
    """Read `diff-tree -z --raw --numstat`: all raw records come first, then one count for each of the same paths."""
    fields = output.split(b"\0")
    raw: list[tuple[bytes, list[str]]] = []
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    at = 0
    while at < len(fields) and fields[at]:
        if fields[at].startswith(b":"):
            raw.append((fields[at + 1], fields[at][1:].decode().split(" ")))
            at += 2
        else:
            added, removed, path = fields[at].split(b"\t", 2)
            counts[path] = (_count(added), _count(removed))
            at += 1
    return tuple(_changed(path, record, counts.get(path, (None, None))) for path, record in raw)


def pack_of(content: bytes) -> bytes:
    """The pack inside a bundle whose header was read already. Raises `Rejected(bundle_invalid)` when it is filtered,
    in another object format, or holds no pack."""
    head, _, pack = content.partition(b"\n\n")
    capabilities = [line for line in head.split(b"\n") if line.startswith(b"@")]
    if any(line != b"@object-format=sha1" for line in capabilities):
        raise _invalid("it asks for a capability that is not taken")
    if not pack.startswith(b"PACK"):
        raise _invalid("it holds no pack")
    return pack


def _changed(path: bytes, record: list[str], count: tuple[int | None, int | None]) -> ChangedFile:
    old_mode, new_mode, old_blob, new_blob, status = record
    text = path.decode("utf-8", "backslashreplace")
    return ChangedFile(text, status[0], old_mode, new_mode, old_blob, new_blob, *count)


def _count(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def _invalid(problem: str) -> Rejected:
    return Rejected(Refusal.BUNDLE_INVALID, {"problem": problem})
