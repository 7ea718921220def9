"""One open mirror: what git knows of a repository, read by plumbing, without a working tree.

Objects are immutable, so what was read by object id is remembered while the mirror is open. Exit codes decide, never
the look of the output.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline import bundle
from pipeline.errors import Rejected
from pipeline.facts import Sha
from pipeline.refusals import Refusal
from workers.git import Answer, Git, GitFailed
from workers.objects import ChangedFile, Commit, pack_of, parse_batch, parse_changes, parse_commit
from workers.refs import full_ref, is_sha, whole_sha

_BUNDLE_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Merge:
    """What merging two commits gives: a tree, or None and the paths in conflict (none when they share no history)."""

    tree: Sha | None
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Author and committer of what the hub builds; fixed, so that a commit can be computed again bit for bit."""

    name: str
    email: str


class Mirror:
    """A bare repository that is ours alone while it is open. Made by `Mirrors.open`."""

    def __init__(
        self, path: Path, git: Git, url: str, token: Callable[[], str] | None, *, remake: Callable[[], None]
    ) -> None:
        self.path = path
        self.url = url
        self._git = git
        self._token = token
        self._remake = remake
        self._commits: dict[Sha, Commit] = {}

    # --- the remote

    def ls_remote(self, refs: Sequence[str]) -> dict[str, Sha]:
        """What these full refs point to on the remote now, over a connection of its own. An absent ref is left out.

        Raises `GitFailed` or `Unavailable` when the remote did not answer: silence is never an absent ref.
        """
        names = [full_ref(ref) for ref in refs]
        answer = self.remote("ls-remote", "--quiet", "--", self.url, *names)
        found = dict(line.split("\t", 1)[::-1] for line in answer.stdout.decode("utf-8", "replace").splitlines())
        return {name: whole_sha(found[name]) for name in names if name in found}

    def fetch(self, refspecs: Mapping[str, str]) -> None:
        """Fetch single refs (or whole ids) of the remote: source → the name under `refs/hub/` that keeps it here.

        A mirror that turns out broken is made anew and the fetch repeated once; reading twice does no harm.
        """
        try:
            self._fetch(refspecs)
        except GitFailed as failure:
            if failure.code != "mirror_corrupt":
                raise
            self._remake()
            self._commits.clear()
            self._fetch(refspecs)

    def _fetch(self, refspecs: Mapping[str, str]) -> None:
        specs = [f"+{source if is_sha(source) else full_ref(source)}:{full_ref(kept)}" for source, kept in refspecs.items()]
        if specs:
            self.remote("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--", self.url, *specs)

    def remote(self, *argv: str, must_move: str | None = None, expected: tuple[int, ...] = (0,)) -> Answer:
        """A git command that speaks to the remote, with the token. `must_move`: see the pre-push guard in `git`.

        Only a fetch, which never happens for the sake of an effect, may take as long as a clone takes.
        """
        return self._git.run(
            *argv,
            directory=self.path,
            token=self._token() if self._token is not None and self.url.startswith("http") else None,
            variables={"MAC_PUSH_MUST_MOVE": must_move} if must_move else None,
            config={"core.hooksPath": str(self._git.hooks)} if must_move else None,
            expected=expected,
            timeout_ms=None if argv[0] == "fetch" else self._git.effect_timeout_ms,
        )

    # --- what is here

    def has(self, sha: Sha) -> bool:
        """Whether this commit is here and can be read."""
        try:
            self.commits([sha])
        except GitFailed:
            return False
        return True

    def commits(self, shas: Iterable[Sha]) -> dict[Sha, Commit]:
        """Tree, parents, committer and message of each commit, in one process for all that are not remembered.

        Raises `GitFailed(object_missing)` when one is not here or is no commit.
        """
        asked = [whole_sha(sha) for sha in shas]
        missing = [sha for sha in dict.fromkeys(asked) if sha not in self._commits]
        if missing:
            for sha, found in zip(missing, self._batch(missing), strict=True):
                if found is None or found[0] != "commit":
                    raise GitFailed("object_missing", ("cat-file", sha), 0, f"{sha} is no commit here")
                self._commits[sha] = parse_commit(found[1])
        return {sha: self._commits[sha] for sha in asked}

    def tree_of(self, sha: Sha) -> Sha:
        """The tree of a commit. Raises `GitFailed(object_missing)`."""
        return self.commits([sha])[sha].tree

    def parents(self, sha: Sha) -> tuple[Sha, ...]:
        """The parents of a commit, in order. Raises `GitFailed(object_missing)`."""
        return self.commits([sha])[sha].parents

    def blobs(self, sha: Sha, paths: Sequence[str]) -> dict[str, bytes]:
        """The content of these files in a commit, in one process. A path that is absent or no file is left out."""
        whole_sha(sha)
        named = [path for path in paths if path and "\n" not in path]
        found = self._batch([f"{sha}:{path}" for path in named]) if named else []
        return {p: entry[1] for p, entry in zip(named, found, strict=True) if entry is not None and entry[0] == "blob"}

    def blob(self, sha: Sha, path: str) -> bytes | None:
        """The content of one file in a commit, or None when it is not there."""
        return self.blobs(sha, [path]).get(path)

    def objects(self, shas: Sequence[Sha]) -> dict[Sha, tuple[str, bytes]]:
        """Type and content of these objects, in one process; what is not here is left out."""
        found = self._batch([whole_sha(sha) for sha in shas]) if shas else []
        return {sha: entry for sha, entry in zip(shas, found, strict=True) if entry is not None}

    def resolve(self, ref: str) -> Sha | None:
        """What a full ref of this repository points to, or None when there is no such ref."""
        answer = self._git_here("rev-parse", "--quiet", "--verify", "--end-of-options", full_ref(ref), expected=(0, 1))
        return whole_sha(answer.text) if answer.exit == 0 else None

    def is_ancestor(self, older: Sha, newer: Sha) -> bool:
        """Whether `newer` contains `older` (a commit contains itself)."""
        if older == newer:
            return True
        shas = (whole_sha(older), whole_sha(newer))
        return self._git_here("merge-base", "--is-ancestor", *shas, expected=(0, 1)).exit == 0

    def merge_base(self, one: Sha, other: Sha) -> Sha | None:
        """A best common ancestor, or None when the two share no history."""
        answer = self._git_here("merge-base", whole_sha(one), whole_sha(other), expected=(0, 1))
        return whole_sha(answer.text) if answer.exit == 0 else None

    def merge_tree(self, into: Sha, other: Sha) -> Merge:
        """Merge without a working tree, by git's own strategy. The tree written for a conflict is never used."""
        if self.merge_base(into, other) is None:
            return Merge(None)
        answer = self._git_here(
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", into, other, expected=(0, 1)
        )
        tree, *names = answer.stdout.decode("utf-8", "backslashreplace").rstrip("\0").split("\0")
        if answer.exit == 0:
            return Merge(whole_sha(tree))
        return Merge(None, tuple(name for name in names if name))

    def changes(self, base: Sha, head: Sha) -> tuple[ChangedFile, ...]:
        """What differs between two commits, a rename as a deletion and an addition, with modes and line counts."""
        answer = self._git_here(
            "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev", "--no-ext-diff",
            "--no-textconv", whole_sha(base), whole_sha(head),
        )  # fmt: skip
        return parse_changes(answer.stdout)

    def merges_between(self, base: Sha, head: Sha) -> tuple[Sha, ...]:
        """Merge commits that `head` contains and `base` does not, newest first."""
        return self._revisions("--merges", whole_sha(head), f"^{whole_sha(base)}")

    def first_parents(self, tip: Sha, *, limit: int) -> tuple[Sha, ...]:
        """The last commits of a branch along first parents, newest first, at most `limit`."""
        return self._revisions("--first-parent", f"--max-count={limit}", whole_sha(tip))

    # --- what we add

    def import_bundle(self, content: bytes, head: Sha, kept: str) -> None:
        """Take the objects of a bundle, checked by git's fsck, and keep `head` under the ref `kept`; nothing else.

        Raises `Rejected(head_not_in_bundle)` when the bundle does not name that head, and `Rejected(bundle_invalid)`
        when it is malformed, builds on commits that are not here, or does not hold everything that `head` needs.
        """
        header = bundle.header(content)
        if whole_sha(head) not in {sha for _, sha in header.tips}:
            raise Rejected(Refusal.HEAD_NOT_IN_BUNDLE, {"head": head})
        unknown = [sha for sha in header.prerequisites if not self.has(sha)]
        if unknown:
            raise Rejected(Refusal.BUNDLE_INVALID, {"problem": f"it builds on {unknown[0]}, which is not known here"})
        try:
            self._git_here(
                "index-pack", "--stdin", "--fix-thin", "--strict", stdin=pack_of(content),
                timeout_ms=_BUNDLE_TIMEOUT_MS,
            )  # fmt: skip
            self._git_here("rev-list", "--quiet", "--objects", head, "--not", "--all")
        except GitFailed as failure:
            raise Rejected(Refusal.BUNDLE_INVALID, {"problem": failure.stderr[-300:].strip()}) from failure
        self.keep(kept, head)

    def keep(self, ref: str, sha: Sha) -> None:
        """Point a ref of this mirror at a commit, so that it stays."""
        self._git_here("update-ref", full_ref(ref), whole_sha(sha))

    def commit_tree(self, tree: Sha, parents: Sequence[Sha], message: str, *, identity: Identity, at_ms: int) -> Sha:
        """Write a commit and return its id. The same arguments give the same id, on any machine."""
        date = f"@{at_ms // 1000} +0000"
        variables = {
            "GIT_AUTHOR_NAME": identity.name, "GIT_AUTHOR_EMAIL": identity.email, "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": identity.name, "GIT_COMMITTER_EMAIL": identity.email, "GIT_COMMITTER_DATE": date,
        }  # fmt: skip
        flags = [word for parent in parents for word in ("-p", whole_sha(parent))]
        answer = self._git.run(
            "commit-tree", *flags, whole_sha(tree),
            directory=self.path, stdin=message.encode(), variables=variables,
        )  # fmt: skip
        return whole_sha(answer.text)

    def write_tag(self, content: bytes) -> Sha:
        """Write a tag object that git finds well-formed, and return its id."""
        return whole_sha(self._git_here("mktag", stdin=content).text)

    # --- inner

    def _batch(self, names: Sequence[str]) -> list[tuple[str, bytes] | None]:
        asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        return parse_batch(self._git_here("cat-file", "--batch", stdin=asked).stdout, len(names))

    def _revisions(self, *argv: str) -> tuple[Sha, ...]:
        return tuple(self._git_here("rev-list", *argv).stdout.decode().split())

    def _git_here(
        self, *argv: str, stdin: bytes = b"", expected: tuple[int, ...] = (0,), timeout_ms: int | None = None
    ) -> Answer:
        return self._git.run(*argv, directory=self.path, stdin=stdin, expected=expected, timeout_ms=timeout_ms)
