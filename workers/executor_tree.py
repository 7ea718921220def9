"""The executor's place of work: a mirror of the repository, and in it one worktree on the task's branch.

The worktree starts on the tip as it is now, so that the tip is the verified base of whatever comes out. Work of an
earlier attempt that stands on the task's branch is taken along where it applies to that tip, and left out where it
conflicts.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.canonical import digest_bytes
from pipeline.contract import CONTRACT_PATH
from pipeline.errors import Unavailable
from pipeline.facts import Sha
from workers.git import Answer, Git, GitFailed
from workers.mirror import Mirror
from workers.refs import branch_ref, is_sha

IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "mac executor",
    "GIT_AUTHOR_EMAIL": "executor@mac-hub.invalid",
    "GIT_COMMITTER_NAME": "mac executor",
    "GIT_COMMITTER_EMAIL": "executor@mac-hub.invalid",
}
_TIP: Final = "refs/hub/tip"
_EARLIER: Final = "refs/hub/earlier"


@dataclass(frozen=True, slots=True)
class Change:
    """What a worktree came to: head, tree, and the paths that differ from the base, with git's letters."""

    head: Sha
    tree: Sha
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Worktree:
    """One attempt's working directory. `base` is the tip it started from; `ref` is the task's branch."""

    directory: Path
    base: Sha
    ref: str
    mirror: Mirror
    git: Git

    def contract(self) -> bytes | None:
        """The contract file as it stands on the base."""
        return self.mirror.blob(self.base, CONTRACT_PATH)

    def commit_rest(self, message: str) -> None:
        """Commit whatever the command left uncommitted, as the executor, and put the task's branch on the result."""
        self._here("add", "--all", "--", ".")
        if self._here("diff", "--cached", "--quiet", expected=(0, 1)).exit == 1:
            self._here("commit", "--quiet", "--no-verify", f"--message={message}", identity=True)
        self._here("update-ref", "--no-deref", self.ref, "HEAD")

    def change(self) -> Change:
        """The change from the base to the present head. It is what it is: it may be empty, or not contain the base."""
        head, tree = (self._here("rev-parse", "--verify", "--end-of-options", name).text for name in ("HEAD", "HEAD^{tree}"))
        files = tuple((changed.path, changed.status) for changed in self.mirror.changes(self.base, head))
        return Change(head, tree, files)

    def on_base(self, change: Change) -> bool:
        """Whether the head contains the base."""
        return self.mirror.is_ancestor(self.base, change.head)

    def dirty(self, apart_from: str | None = None) -> bool:
        """Whether anything differs from the head, ignored files aside, and `apart_from` (what bootstrap made) aside."""
        aside = [f":(exclude,literal,top){apart_from}"] if apart_from else []
        return bool(self._here("status", "--porcelain", "-z", "--", ".", *aside).stdout)

    def summary(self) -> str:
        """The subjects of the commits on top of the base, newest first."""
        subjects = self._here("log", "--format=%s", "--max-count=20", f"{self.base}..HEAD").stdout
        return subjects.decode("utf-8", "replace").strip()

    def bundle(self) -> bytes:
        """The commits from the base to the head as a git bundle that names the task's branch."""
        return self._here("bundle", "create", "--quiet", "-", self.ref, f"^{self.base}").stdout

    def _here(self, *argv: str, expected: tuple[int, ...] = (0,), identity: bool = False) -> Answer:
        return self.git.run(*argv, directory=self.directory, expected=expected, variables=IDENTITY if identity else None)


@dataclass(frozen=True, slots=True)
class Workshop:
    """The folder of an executor: mirrors that stay, worktrees that go with their attempt."""

    root: Path
    git: Git

    @contextlib.contextmanager
    def worktree(self, clone_url: str, canonical: str, branch: str, token: str) -> Iterator[Worktree]:
        """A worktree on `branch` for one attempt, removed when the block ends.

        Raises `Unavailable` when the remote cannot be read, or has no such canonical branch.
        """
        mirror = self._mirror(clone_url, token)
        base, earlier = _fetch(mirror, branch_ref(canonical), branch_ref(branch))
        directory = self.root / "worktrees" / digest_bytes(branch.encode())[:16]
        self._remove(mirror, directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        self.git.run(
            "worktree", "add", "--quiet", "--force", "-B", branch, "--", str(directory), base, directory=mirror.path
        )
        tree = Worktree(directory, base, branch_ref(branch), mirror, self.git)
        try:
            if earlier is not None:
                self._take_along(tree, earlier)
            yield tree
        finally:
            self._remove(mirror, directory)

    def _take_along(self, tree: Worktree, earlier: Sha) -> None:
        """Put earlier work on top of the base: as it is where it contains the base, else replayed, else not at all."""
        if tree.mirror.is_ancestor(tree.base, earlier):
            self.git.run("reset", "--quiet", "--hard", earlier, directory=tree.directory)
            return
        self._replay(tree, earlier)

    def _replay(self, tree: Worktree, earlier: Sha) -> None:
        """Rebase the earlier work; a conflict leaves the worktree as clean as the tip itself."""
        here = tree.directory
        self.git.run("reset", "--quiet", "--hard", earlier, directory=here)
        try:
            self.git.run("rebase", "--quiet", tree.base, directory=here, variables=IDENTITY)
        except GitFailed:
            self.git.run("rebase", "--abort", directory=here, expected=(0, 128))
            self.git.run("reset", "--quiet", "--hard", tree.base, directory=here)

    def _mirror(self, clone_url: str, token: str) -> Mirror:
        path = self.root / "mirrors" / f"{digest_bytes(clone_url.encode())[:16]}.git"
        mirror = Mirror(path, self.git, clone_url, lambda: token, remake=lambda: self._make(path))
        if not (path / "HEAD").is_file():
            self._make(path)
        return mirror

    def _make(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        self.git.run("init", "--quiet", "--bare", "--", ".", directory=path)

    def _remove(self, mirror: Mirror, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(GitFailed):
            self.git.run("worktree", "prune", directory=mirror.path)


def _fetch(mirror: Mirror, canonical: str, branch: str) -> tuple[Sha, Sha | None]:
    """The canonical tip, and the head of the task's branch where it has one; both are here afterwards."""
    found = mirror.ls_remote([canonical, branch])
    tip, earlier = found.get(canonical), found.get(branch)
    if tip is None:
        raise Unavailable("canonical_branch_absent", f"The remote has no {canonical}.")
    mirror.fetch({tip: _TIP, **({earlier: _EARLIER} if earlier else {})})
    assert is_sha(tip)
    return tip, earlier
