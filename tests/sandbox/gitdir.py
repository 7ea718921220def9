"""A bare git repository on disk, spoken to through the git program: facts out, objects and refs in.

Every call is one short process with neither system nor user configuration, and with `safe.directory` open, so
that repositories work whoever owns their folder.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ZERO = "0" * 40
CONFIGURATION = Path(__file__).with_name("gitconfig")


class GitFailed(Exception):
    """git ended with an error; the message is its standard error."""


@dataclass(frozen=True)
class Signature:
    """Author or committer: who, and when in whole seconds since the epoch."""

    name: str
    email: str
    at_s: int

    def environment(self, role: str) -> dict[str, str]:
        return {
            f"GIT_{role}_NAME": self.name,
            f"GIT_{role}_EMAIL": self.email,
            f"GIT_{role}_DATE": f"{self.at_s} +0000",
        }


@dataclass(frozen=True)
class CommitFacts:
    """A commit as git has it. `signed` is known only where one commit was asked for."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    signed: bool
    message: str


@dataclass(frozen=True)
class FileChange:
    """A changed file; `blob` is the new one, or the old one of a removed file."""

    path: str
    previous: str | None
    status: str
    blob: str
    additions: int
    deletions: int


def environment(extra: Mapping[str, str] | None = None, hooks: Path | None = None) -> dict[str, str]:
    """The whole environment for a git process: nothing of the user's, our configuration, then `extra`.

    The configuration is a file, since git hands that on to the processes it starts, and variables not.
    """
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(CONFIGURATION),
        "GIT_TERMINAL_PROMPT": "0",
    }
    if hooks is not None:
        env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": str(hooks)}
    return {**env, **(extra or {})}


class GitDir:
    """One bare repository. `extra` is added to every process's environment (a push's quarantine, say)."""

    def __init__(self, path: Path, extra: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.extra = dict(extra or {})

    def run(self, *argv: str, feed: bytes = b"", extra: Mapping[str, str] | None = None) -> str:
        """Standard output of one git command; raises `GitFailed` when it ends with an error."""
        done = subprocess.run(
            ["git", "--git-dir", str(self.path), *argv],
            input=feed,
            capture_output=True,
            env=environment({**self.extra, **(extra or {})}),
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise GitFailed(done.stderr.decode(errors="replace").strip() or f"git {argv[0]}: {done.returncode}")
        return done.stdout.decode(errors="surrogateescape")

    @classmethod
    def create(cls, path: Path, default_branch: str) -> "GitDir":
        """A new empty bare repository whose HEAD names `default_branch`."""
        argv = ["git", "init", "--quiet", "--bare", f"--initial-branch={default_branch}", "--template=", str(path)]
        subprocess.run(argv, check=True, capture_output=True, env=environment(), timeout=60)
        return cls(path)

    def refs(self) -> dict[str, str]:
        out = self.run("for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split(" ", 1) for line in out.splitlines())

    def tip(self, ref: str) -> str | None:
        """What a full ref name points at, as it stands now."""
        try:
            return self.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref).strip()
        except GitFailed:
            return None

    def commit_sha(self, revision: str) -> str | None:
        """The commit that a sha, a tag or a ref stands for."""
        return self.tip(f"{revision}^{{commit}}")

    def kind(self, sha: str) -> str | None:
        try:
            return self.run("cat-file", "-t", sha).strip()
        except GitFailed:
            return None

    def move(self, ref: str, new: str, old: str | None = None) -> None:
        """Sets a ref, from exactly `old` where it is given; `ZERO` as `new` deletes it."""
        self.run("update-ref", "--no-deref", ref, new, *([] if old is None else [old]))

    def is_ancestor(self, older: str, newer: str) -> bool:
        try:
            self.run("merge-base", "--is-ancestor", older, newer)
        except GitFailed:
            return False
        return True

    def merge_base(self, one: str, other: str) -> str | None:
        try:
            return self.run("merge-base", one, other).strip() or None
        except GitFailed:
            return None

    def log(self, *range_: str) -> list[CommitFacts]:
        """The commits of a range, newest first."""
        parts = ("%H", "%T", "%P", "%an", "%ae", "%at", "%cn", "%ce", "%ct", "%B")
        out = self.run("log", "-z", f"--format={'%x1f'.join(parts)}", *range_, "--")
        return [_commit(record) for record in out.split("\0") if record]

    def commit(self, sha: str) -> CommitFacts:
        facts = self.log("-1", sha)[0]
        header = self.run("cat-file", "commit", sha).split("\n\n", 1)[0]
        return CommitFacts(**{**facts.__dict__, "signed": "\ngpgsig" in header})

    def count(self, *range_: str) -> int:
        return int(self.run("rev-list", "--count", *range_, "--"))

    def changes(self, base: str, head: str) -> list[FileChange]:
        """The files that differ between two trees, renames found, each with its line counts."""
        raw = self.run("diff-tree", "-r", "-z", "-M", "--raw", "--no-abbrev", base, head, "--").split("\0")
        counts = self.run("diff-tree", "-r", "-z", "-M", "--numstat", base, head, "--").split("\0")
        return _changes(raw, _numbers(counts))

    def patches(self, base: str, head: str) -> list[str]:
        """One patch for each of `changes(base, head)`, in the same order."""
        whole = self.run("diff-tree", "-r", "-M", "-p", base, head, "--")
        return re.split(r"(?m)^(?=diff --git )", whole)[1:]

    def merge_tree(self, ours: str, theirs: str) -> str | None:
        """The tree of a clean merge; None on a conflict."""
        try:
            return self.run("merge-tree", "--write-tree", ours, theirs).splitlines()[0]
        except GitFailed:
            return None

    def commit_tree(
        self, tree: str, parents: Sequence[str], message: str, author: Signature, committer: Signature | None = None
    ) -> str:
        argv = [part for parent in parents for part in ("-p", parent)]
        who = {**author.environment("AUTHOR"), **(committer or author).environment("COMMITTER")}
        return self.run("commit-tree", tree, *argv, "-F", "-", feed=message.encode(), extra=who).strip()

    def write(
        self, ref: str, files: Mapping[str, str | bytes | None], message: str, author: Signature, parents: Sequence[str]
    ) -> str:
        """Commits these files (None removes one) on top of `parents` and sets `ref` to the commit."""
        stamp = f"{author.name} <{author.email}> {author.at_s} +0000"
        stream = [f"commit {ref}\nauthor {stamp}\ncommitter {stamp}\n".encode(), _data(message.encode())]
        stream += [f"{word} {sha}\n".encode() for word, sha in zip(["from", *["merge"] * 9], parents, strict=False)]
        for path, content in files.items():
            if content is None:
                stream.append(f"D {path}\n".encode())
            else:
                raw = content.encode() if isinstance(content, str) else content
                stream += [f"M 100644 inline {path}\n".encode(), _data(raw)]
        self.run("fast-import", "--quiet", "--force", "--date-format=raw", feed=b"".join(stream))
        return self.tip(ref) or ZERO


def _data(raw: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(raw), raw)


def _commit(record: str) -> CommitFacts:
    sha, tree, parents, an, ae, at, cn, ce, ct, message = record.split("\x1f", 9)
    author, committer = Signature(an, ae, int(at)), Signature(cn, ce, int(ct))
    return CommitFacts(sha, tree, tuple(parents.split()), author, committer, False, message.rstrip("\n"))


def _numbers(fields: list[str]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    rest = iter(fields)
    for field in rest:
        if not field:
            continue
        added, removed, path = field.split("\t", 2)
        if not path:
            next(rest)
            path = next(rest)
        found[path] = (int(added) if added != "-" else 0, int(removed) if removed != "-" else 0)
    return found


STATUS_WORDS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


def _changes(raw: list[str], numbers: dict[str, tuple[int, int]]) -> list[FileChange]:
    found: list[FileChange] = []
    rest = iter(raw)
    for field in rest:
        if not field:
            continue
        _old_mode, _new_mode, old_blob, new_blob, letter = field.lstrip(":").split(" ")
        path = next(rest)
        previous = None
        if letter[0] in "RC":
            previous, path = path, next(rest)
        added, removed = numbers.get(path, (0, 0))
        blob = old_blob if letter[0] == "D" else new_blob
        found.append(FileChange(path, previous, STATUS_WORDS[letter[0]], blob, added, removed))
    return found
