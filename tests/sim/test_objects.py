"""The git of the simulation says what the program says, command by command, on the same repository."""

import os
from pathlib import Path

import pytest

from tests.sim.baton import Baton
from tests.sim.git import RemoteRefs, SimGit
from tests.sim.objects import Repository, Sha, Store
from workers.clone import Mirrors, Remote
from workers.git import Git
from workers.land import HUB
from workers.mirror import Mirror
from workers.push import RefUpdate, push

MAIN = "refs/heads/main"


class Twins:
    """One history, as a real repository beside a simulated one, each behind a mirror."""

    def __init__(self, folder: Path) -> None:
        self.store = Store()
        files = {"a.txt": "a\n", "deep/er/b.txt": "b\n", "deep.txt": "c\n"}
        self.base = self.store.commit(
            self.store.tree({p: self.store.put("blob", t.encode()) for p, t in files.items()}), [], "Begin"
        )
        self.one = self.store.change(self.base, {"a.txt": "one\n", "new/x.txt": "x\n"}, "One")
        self.other = self.store.change(self.base, {"deep/er/b.txt": None, "y.txt": "y\n"}, "Other")
        self.clash = self.store.change(self.base, {"a.txt": "clash\n"}, "Clash")
        tree = self.store.merge(self.one, self.other)[0]
        assert tree is not None
        self.merged = self.store.commit(tree, [self.one, self.other], "Merge")
        self.simulated = RemoteRefs(Repository(self.store))
        self.real = Git.prepared(folder / "git", os.environ, file_protocol=True)
        self.bare = folder / "bare.git"
        self.real.run("init", "-q", "--bare", str(self.bare), directory=folder)
        for name, sha in (("main", self.base), ("one", self.one), ("merged", self.merged), ("clash", self.clash)):
            self.simulated.repository.take(sha)
            self.simulated.repository.refs[f"refs/heads/{name}"] = sha
            self.real.run(
                "unpack-objects", "-q", directory=self.bare, stdin=self.store.pack(self.store.closure(sha, frozenset()))
            )
            self.real.run("update-ref", f"refs/heads/{name}", sha, directory=self.bare)
        sim = SimGit.made(folder, self.store, Baton(), {"http://127.0.0.1:1/x.git": self.simulated})
        self.places = [
            (Mirrors(folder / "real", self.real, max_bytes=1 << 40), Remote(1, str(self.bare))),
            (Mirrors(folder / "sim", sim, max_bytes=1 << 40), Remote(1, "http://127.0.0.1:1/x.git")),
        ]


@pytest.fixture
def twins(tmp_path: Path) -> Twins:
    return Twins(tmp_path)


def _fetched(mirror: Mirror) -> None:
    mirror.fetch({f"refs/heads/{name}": f"refs/hub/{name}" for name in ("main", "merged", "clash")})


def _answers(mirror: Mirror, twins: Twins) -> list[object]:
    """Everything that the product asks of a mirror."""
    shas: list[Sha] = [twins.base, twins.one, twins.other, twins.clash, twins.merged]
    _fetched(mirror)
    answers: list[object] = [mirror.ls_remote([MAIN, "refs/heads/none", "refs/heads/clash"]), mirror.commits(shas)]
    answers += [mirror.has("f" * 40), mirror.resolve("refs/hub/clash"), mirror.resolve("refs/hub/none")]
    answers += [
        mirror.blobs(twins.merged, ["a.txt", "deep/er/b.txt", "new/x.txt", "deep"]),
        mirror.first_parents(twins.merged, limit=2),
    ]
    answers += [mirror.merges_between(twins.base, twins.merged), mirror.merges_between(twins.merged, twins.one)]
    for one in shas:
        for two in shas:
            answers += [mirror.is_ancestor(one, two), mirror.merge_base(one, two), mirror.merge_tree(one, two).conflicts]
            answers += [mirror.changes(one, two), mirror.merge_tree(one, two).tree]
    commit = mirror.commit_tree(mirror.tree_of(twins.one), [twins.base], "Ours\n", identity=HUB, at_ms=1_700_000_000_000)
    tag = f"object {commit}\ntype commit\ntag t\ntagger a <a@b> 1 +0000\n\nx\n".encode()
    return [*answers, commit, mirror.write_tag(tag)]


def test_both_answer_alike_to_all_that_is_read_and_built(twins: Twins) -> None:
    answers = []
    for mirrors, remote in twins.places:
        with mirrors.open(remote) as mirror:
            answers.append(_answers(mirror, twins))
    assert answers[0] == answers[1]


def test_both_take_in_the_same_bundle_and_refuse_the_same_one(twins: Twins) -> None:
    head = twins.store.change(twins.merged, {"deep/er/z.txt": "z\n"}, "Work")
    for mirrors, remote in twins.places:
        with mirrors.open(remote) as mirror:
            _fetched(mirror)
            mirror.import_bundle(twins.store.bundle(head, twins.merged), head, "refs/hub/evidence/e")
            assert mirror.has(head)
            assert mirror.resolve("refs/hub/evidence/e") == head


def test_both_push_alike_what_moves_what_is_there_and_what_is_stale(twins: Twins) -> None:
    answers = []
    for mirrors, remote in twins.places:
        with mirrors.open(remote) as mirror:
            _fetched(mirror)
            moves = [RefUpdate(MAIN, twins.one, twins.base), RefUpdate("refs/mac/landings/i", twins.one, None)]
            said = [push(mirror, [RefUpdate(MAIN, twins.one, twins.other), moves[1]], must_move=MAIN)]
            said += [push(mirror, moves, must_move=MAIN), push(mirror, moves, must_move=MAIN), push(mirror, moves)]
            said += [push(mirror, [RefUpdate("refs/heads/clash", twins.one, twins.base)])]
            said += [push(mirror, [RefUpdate("refs/mac/landings/i", None, twins.one)])]
            answers.append((said, mirror.ls_remote([MAIN, "refs/mac/landings/i", "refs/heads/clash"])))
    assert answers[0] == answers[1]
