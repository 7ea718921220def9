"""Git as the mirrors call it, answered in this process: the same arguments, exit codes and words as the program's.

A test holds it against the real program, command by command. Commands that speak to the remote are seams.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pipeline.errors import Unavailable
from tests.sim.baton import Baton, Fault
from tests.sim.objects import FILE_MODE, Repository, Sha, Store
from workers.git import Answer, Git, GitFailed

NAME: Final = "simulated"
NO_BLOB: Final = "0" * 40
Said = tuple[int, bytes, str]
RefMove = tuple[str, Sha | None, Sha | None]


class RemoteRefs:
    """The refs of a remote as git clients see them. `moved` is told of each push that moves something, before it does;
    `shown` of each reading."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.moved: Callable[[list[RefMove]], None] = lambda moves: None
        self.shown: Callable[[dict[str, Sha]], None] = lambda refs: None
        self.asleep: list[Callable[[], object]] = []

    def apply(self, wanted: list[RefMove]) -> list[str]:
        """Move all of these refs (name, from, to), or none; the refs that were not where they should be."""
        refs = self.repository.refs
        wrong = [ref for ref, old, _ in wanted if refs.get(ref) != old]
        if not wrong:
            self.moved(wanted)
            for ref, _, new in wanted:
                if new is None:
                    refs.pop(ref, None)
                else:
                    self.repository.take(new)
                    refs[ref] = new
        return wrong


class SimGit(Git):
    """A `Git` whose repositories live in memory. Made once for each schedule, with the remotes by their address."""

    __slots__ = ("baton", "remotes", "repositories", "store")

    store: Store
    baton: Baton
    remotes: dict[str, RemoteRefs]
    repositories: dict[str, Repository]

    @staticmethod
    def made(home: Path, store: Store, baton: Baton, remotes: dict[str, RemoteRefs]) -> "SimGit":
        """A git for the mirrors below `home`."""
        git = SimGit(
            environment={"GIT_CONFIG_COUNT": "0"}, hooks=home / "hooks", timeout_ms=20_000, effect_timeout_ms=20_000,
            output_max_bytes=1 << 26,
        )  # fmt: skip
        for name, value in (("store", store), ("baton", baton), ("remotes", remotes), ("repositories", {})):
            object.__setattr__(git, name, value)
        return git

    def run(
        self,
        *argv: str,
        directory: Path,
        stdin: bytes = b"",
        expected: tuple[int, ...] = (0,),
        token: str | None = None,
        variables: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """One command, as the program would answer it."""
        exit_code, stdout, stderr = self._said(argv, directory, stdin, variables or {})
        if exit_code not in expected:
            code = "unreachable" if "hung up" in stderr else "mirror_corrupt" if "not a git" in stderr else "git_failed"
            raise GitFailed(code, argv, exit_code, stderr)
        return Answer(exit_code, stdout, stderr)

    def _said(self, argv: tuple[str, ...], directory: Path, stdin: bytes, variables: Mapping[str, str]) -> Said:
        if argv[0] == "init":
            return self._init(Path(argv[-1]))
        here = self._here(directory)
        if here is None:
            return 128, b"", "fatal: not a git repository"
        match argv[0]:
            case "ls-remote":
                return self._ls_remote(argv)
            case "fetch":
                return self._fetch(here, argv)
            case "push":
                return self._push(here, argv, variables.get("MAC_PUSH_MUST_MOVE"))
            case "commit-tree":
                return self._commit_tree(here, argv, stdin, variables)
            case _:
                return self._local(here, argv, stdin)

    def _local(self, here: Repository, argv: tuple[str, ...], stdin: bytes) -> Said:
        match argv[0]:
            case "cat-file":
                return 0, b"".join(self._object(here, name) for name in stdin.decode().splitlines()), ""
            case "merge-base" | "merge-tree" | "diff-tree" | "rev-list" | "rev-parse":
                return self._asked(here, argv)
            case "index-pack":
                here.held |= {sha for sha in self.store.unpack(stdin) if self.store.content[sha][0] in ("commit", "tag")}
                return 0, b"", ""
            case "update-ref":
                here.refs[argv[1]] = argv[2]
                return 0, b"", ""
            case "mktag":
                if stdin[7:47].decode() not in here.held:
                    return 128, b"", "fatal: could not read tagged object"
                sha = self.store.put("tag", stdin)
                here.held.add(sha)
                return 0, f"{sha}\n".encode(), ""
            case _:
                raise AssertionError(f"a git command that is not simulated: {argv}")

    # --- here

    def _init(self, path: Path) -> Said:
        number = str(len(self.repositories))
        self.repositories[number] = Repository(self.store)
        (path / NAME).write_text(number)
        return 0, b"", ""

    def _here(self, directory: Path) -> Repository | None:
        try:
            return self.repositories[(directory / NAME).read_text()]
        except FileNotFoundError:
            return None

    def _object(self, here: Repository, name: str) -> bytes:
        sha, _, path = name.partition(":")
        found: str | None = sha
        if path:
            found = self.store.files(self.store.tree_of(sha)).get(path) if sha in here.held else None
        if found is None or found not in self.store.content:
            return f"{name} missing\n".encode()
        kind, body = self.store.content[found]
        if kind in ("commit", "tag") and found not in here.held:
            return f"{name} missing\n".encode()
        return f"{found} {kind} {len(body)}\n".encode() + body + b"\n"

    def _asked(self, here: Repository, argv: tuple[str, ...]) -> Said:
        names = [word.lstrip("^") for word in argv[1:] if len(word.lstrip("^")) == 40]
        if any(sha not in here.held for sha in names):
            return 128, b"", f"fatal: bad object {names}"
        match argv[0]:
            case "merge-base" if argv[1] == "--is-ancestor":
                return int(not self.store.is_ancestor(names[0], names[1])), b"", ""
            case "merge-base":
                base = self.store.merge_base(names[0], names[1])
                return (1, b"", "") if base is None else (0, f"{base}\n".encode(), "")
            case "merge-tree":
                tree, conflicts = self.store.merge(names[0], names[1])
                words = [tree or NO_BLOB, *conflicts]
                return int(tree is None), "".join(f"{w}\0" for w in words).encode(), ""
            case "diff-tree":
                return 0, self._diff(names[0], names[1]), ""
            case "rev-parse":
                sha = here.refs.get(argv[-1])
                return (1, b"", "") if sha is None else (0, f"{sha}\n".encode(), "")
            case _:
                return self._rev_list(here, argv, names)

    def _diff(self, base: Sha, head: Sha) -> bytes:
        old, new = (self.store.files(self.store.tree_of(sha)) for sha in (base, head))
        raw, counts = b"", b""
        for path in sorted({*old, *new}):
            before, after = old.get(path), new.get(path)
            if before == after:
                continue
            status = "A" if before is None else "D" if after is None else "M"
            modes = " ".join(FILE_MODE if blob else "000000" for blob in (before, after))
            raw += f":{modes} {before or NO_BLOB} {after or NO_BLOB} {status}\0{path}\0".encode()
            lines = [self.store.content[blob][1].count(b"\n") if blob else 0 for blob in (after, before)]
            counts += f"{lines[0]}\t{lines[1]}\t{path}\0".encode()
        return raw + counts

    def _rev_list(self, here: Repository, argv: tuple[str, ...], names: list[Sha]) -> Said:
        if "--objects" in argv:
            return (0, b"", "") if here.has_all(names[0]) else (128, b"", "fatal: missing object")
        if "--merges" in argv:
            shas = self.store.ancestors(names[0]) - self.store.ancestors(names[1])
            found = sorted(sha for sha in shas if len(self.store.parents(sha)) > 1)
        else:
            most, found, at = int(argv[2].partition("=")[2]), [], [names[0]]
            while at and len(found) < most:
                found.append(at[0])
                at = list(self.store.parents(at[0])[:1])
        return 0, "".join(f"{sha}\n" for sha in found).encode(), ""

    def _commit_tree(self, here: Repository, argv: tuple[str, ...], stdin: bytes, who: Mapping[str, str]) -> Said:
        parents = [argv[i + 1] for i, word in enumerate(argv) if word == "-p"]
        name = f"{who['GIT_AUTHOR_NAME']} <{who['GIT_AUTHOR_EMAIL']}>"
        at_s = int(who["GIT_AUTHOR_DATE"].split(" ")[0].lstrip("@"))
        message = stdin.decode()
        sha = self.store.commit(argv[-1], parents, message, name, at_s)
        here.held.add(sha)
        return 0, f"{sha}\n".encode(), ""

    # --- the remote

    def _remote(self, url: str) -> RemoteRefs:
        return self.remotes[url]

    def _ls_remote(self, argv: tuple[str, ...]) -> Said:
        at = argv.index("--")
        fault = self.baton.seam("git ls-remote")
        if fault in (Fault.LOST, Fault.LIMITED):
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        remote = self._remote(argv[at + 1])
        refs = {ref: sha for ref, sha in remote.repository.refs.items() if ref in argv[at + 2 :]}
        remote.shown(refs)
        if self.baton.seam("git ls-remote, answered") in (Fault.ANSWER_LOST, Fault.LATE):
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        return 0, "".join(f"{refs[ref]}\t{ref}\n" for ref in refs).encode(), ""

    def _fetch(self, here: Repository, argv: tuple[str, ...]) -> Said:
        at = argv.index("--")
        if self.baton.seam("git fetch") in (Fault.LOST, Fault.LIMITED):
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        remote = self._remote(argv[at + 1]).repository
        for spec in argv[at + 2 :]:
            source, _, kept = spec.lstrip("+").partition(":")
            sha = source if len(source) == 40 else remote.refs.get(source)
            if sha is None:
                return 128, b"", f"fatal: couldn't find remote ref {source}"
            here.take(sha)
            here.refs[kept] = sha
        return 0, b"", ""

    def _push(self, here: Repository, argv: tuple[str, ...], must_move: str | None) -> Said:
        at = argv.index("--")
        remote = self._remote(argv[at + 1])
        leases = dict(w.partition("=")[2].split(":", 1) for w in argv if w.startswith("--force-with-lease="))
        wanted = {ref: new or None for new, _, ref in (spec.partition(":") for spec in argv[at + 2 :])}
        if self.baton.seam("git push") in (Fault.LOST, Fault.LIMITED):
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        there = dict(remote.repository.refs)
        same = {ref for ref, new in wanted.items() if there.get(ref) == new}
        wrong = {ref for ref in wanted if ref not in same and there.get(ref) != (leases[ref] or None)}
        if must_move and must_move not in wanted.keys() - same - wrong:
            return 1, b"", "mac: the canonical branch would not move\n"
        if wrong:
            return 1, _report(wanted, dict.fromkeys(wanted, ("!", "[rejected] (atomic push failed)")) |
                              dict.fromkeys(wrong, ("!", "[rejected] (stale info)"))), ""  # fmt: skip
        moves = [(ref, there.get(ref), new) for ref, new in wanted.items() if ref not in same]
        return self._send(remote, wanted, moves)

    def _send(self, remote: RemoteRefs, wanted: Mapping[str, Sha | None], moves: list[RefMove]) -> Said:
        fault = self.baton.seam("git push, sent")
        if fault is Fault.LATE:
            remote.asleep.append(lambda: remote.apply(moves))
            raise Unavailable("time_out", "git push took longer than its time-out")
        if fault is Fault.LOST:
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        wrong = remote.apply(moves) if moves else []
        answered = self.baton.seam("git push, answered")
        if Fault.ANSWER_LOST in (fault, answered):
            return 128, b"", "fatal: the remote end hung up unexpectedly"
        if wrong:
            told = dict.fromkeys(wanted, ("!", "[remote rejected] (atomic transaction failed)"))
            return 1, _report(wanted, told | dict.fromkeys(wrong, ("!", "[remote rejected] (incorrect old value)"))), ""
        moved = {ref for ref, _, _ in moves}
        return 0, _report(wanted, {ref: ("*" if ref in moved else "=", "[done]") for ref in wanted}), ""


def _report(wanted: Mapping[str, Sha | None], told: Mapping[str, tuple[str, str]]) -> bytes:
    lines = [f"{told[ref][0]}\t{new or ''}:{ref}\t{told[ref][1]}\n" for ref, new in wanted.items()]
    return f"To the remote\n{''.join(lines)}Done\n".encode()
