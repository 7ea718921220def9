"""A mirror is a cache: shared by lock, bounded by size, and made anew when it is broken."""

import threading
from pathlib import Path

import pytest

from pipeline.errors import Rejected, Unavailable
from tests.workers.places import Place
from workers.clone import Mirrors, Remote
from workers.git import Git, GitFailed
from workers.mirror import Identity, Merge, Mirror

WHO = Identity("mac hub", "hub@mac.invalid")


def _tip(place: Place) -> str:
    tip = place.tip()
    assert tip is not None
    return tip


def _head(place: Place, mirror: Mirror, sha: str, name: str = "mac/one") -> str:
    place.points(f"refs/heads/{name}", sha)
    mirror.fetch({f"refs/heads/{name}": f"refs/hub/heads/{name}"})
    return sha


def _spoil(mirror: Path) -> None:
    """Overwrite every object, as a failing disk does."""
    files = [file for file in mirror.glob("objects/*/*") if file.is_file()]
    assert files
    for file in files:
        file.chmod(0o600)
        file.write_bytes(b"rubbish")


def test_reading_the_remote_names_only_what_was_asked_for(place: Place, mirror: Mirror) -> None:
    place.points("refs/heads/nested/refs/heads/main", _tip(place))

    assert mirror.ls_remote(["refs/heads/main", "refs/heads/absent"]) == {"refs/heads/main": _tip(place)}


def test_a_remote_that_is_not_there_is_a_failure_and_not_an_empty_answer(mirrors: Mirrors, tmp_path: Path) -> None:
    with mirrors.open(Remote(2, str(tmp_path / "nowhere.git"))) as mirror, pytest.raises(GitFailed) as failure:
        mirror.ls_remote(["refs/heads/main"])

    assert failure.value.code == "repository_not_found"


def test_a_broken_mirror_is_made_anew_by_the_next_fetch(place: Place, mirrors: Mirrors) -> None:
    with mirrors.open(place.remote()) as mirror:
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})
        _spoil(mirror.path)
        newer = place.commit({"more.txt": "m\n"}, _tip(place))
        place.points("refs/heads/main", newer)
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})

        assert mirror.has(newer)
        assert mirror.blob(newer, "README.md") == b"hello\n"


def test_a_read_that_meets_a_broken_mirror_fails_and_removes_it(place: Place, mirrors: Mirrors) -> None:
    with mirrors.open(place.remote()) as mirror:
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})
        path = mirror.path
    _spoil(path)

    with pytest.raises(Unavailable), mirrors.open(place.remote()) as mirror:
        mirror.first_parents(_tip(place), limit=3)

    assert not path.exists()


def test_a_mirror_in_use_is_waited_for_and_then_named_busy(place: Place, tmp_path: Path, git: Git) -> None:
    hasty = Mirrors(tmp_path / "mirrors", git, max_bytes=1, lock_timeout_ms=50)

    with hasty.open(place.remote()), pytest.raises(Unavailable) as failure, hasty.open(place.remote()):
        pass

    assert failure.value.code == "mirror_busy"


def test_two_threads_take_turns_at_one_mirror(place: Place, mirrors: Mirrors) -> None:
    inside: list[int] = []
    most: list[int] = []

    def visit(number: int) -> None:
        with mirrors.open(place.remote()) as mirror:
            inside.append(number)
            most.append(len(inside))
            mirror.ls_remote(["refs/heads/main"])
            inside.remove(number)

    threads = [threading.Thread(target=visit, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert most == [1, 1, 1, 1]


def test_the_longest_unused_mirror_is_evicted_and_one_in_use_is_not(place: Place, tmp_path: Path, git: Git) -> None:
    mirrors = Mirrors(tmp_path / "mirrors", git, max_bytes=1)
    with mirrors.open(place.remote()) as mirror:
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})
    with mirrors.open(Remote(2, str(place.path))) as used:
        used.fetch({"refs/heads/main": "refs/hub/tip"})

        assert mirrors.evict() == (1,)

        assert used.has(_tip(place))
    assert not (tmp_path / "mirrors" / "1.git").exists()


def test_a_mirror_of_many_packs_is_repacked_and_keeps_its_objects(place: Place, tmp_path: Path, git: Git) -> None:
    mirrors = Mirrors(tmp_path / "mirrors", git, max_bytes=10**9, packs_max=1)
    first = _tip(place)
    with mirrors.open(place.remote()) as mirror:
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})
        assert mirrors.tidy() == (), "one pack is not too many"
        place.points("refs/heads/main", place.commit({"more.txt": "m\n"}, first))
        mirror.fetch({"refs/heads/main": "refs/hub/tip"})
        assert mirrors.tidy() == (), "a mirror in use is passed over"

    assert mirrors.tidy() == (1,)

    with mirrors.open(place.remote()) as mirror:
        assert len(list(mirror.path.glob("objects/pack/*.pack"))) == 1
        assert mirror.blob(_tip(place), "more.txt") == b"m\n"
        assert mirror.has(first)


def test_a_merge_without_conflict_gives_gits_own_tree(place: Place, mirror: Mirror) -> None:
    base = _tip(place)
    ours = place.commit({"ours.txt": "o\n"}, base)
    head = _head(place, mirror, place.commit({"theirs.txt": "t\n"}, base))
    place.points("refs/heads/main", ours)
    mirror.fetch({"refs/heads/main": "refs/hub/tip"})

    merge = mirror.merge_tree(ours, head)

    both = place.commit({"theirs.txt": "t\n"}, ours)
    assert merge == Merge(place.git("rev-parse", f"{both}^{{tree}}"))


def test_a_conflict_names_its_files_and_has_no_tree(place: Place, mirror: Mirror) -> None:
    base = _tip(place)
    ours = place.commit({"README.md": "ours\n"}, base)
    place.points("refs/heads/main", ours)
    head = _head(place, mirror, place.commit({"README.md": "theirs\n"}, base))
    mirror.fetch({"refs/heads/main": "refs/hub/tip"})

    assert mirror.merge_tree(ours, head) == Merge(None, ("README.md",))


def test_histories_that_share_nothing_do_not_merge(place: Place, mirror: Mirror) -> None:
    stranger = _head(place, mirror, place.commit({"x": "1\n"}))

    assert mirror.merge_tree(_tip(place), stranger) == Merge(None)
    assert mirror.merge_base(_tip(place), stranger) is None
    assert not mirror.is_ancestor(_tip(place), stranger)


def test_changes_show_status_modes_and_sizes_and_renames_as_two(place: Place, mirror: Mirror) -> None:
    base = place.commit({"a.txt": "1\n2\n", "old name.txt": "same\n"}, _tip(place))
    place.points("refs/heads/main", base)
    linked = place.commit({"link": "../outside"}, base, mode="120000")
    head = place.commit({"a.txt": "1\n3\n", "old name.txt": None, "new\tname.txt": "same\n"}, linked)
    _head(place, mirror, head)

    changed = {c.path: c for c in mirror.changes(base, head)}

    assert {path: c.status for path, c in changed.items()} == {
        "a.txt": "M",
        "link": "A",
        "new\tname.txt": "A",
        "old name.txt": "D",
    }
    assert (changed["a.txt"].added, changed["a.txt"].removed) == (1, 1)
    assert changed["link"].new_mode == "120000"
    assert changed["old name.txt"].new_mode == "000000"
    assert mirror.blobs(head, ["link", "a.txt", "absent", "two\nlines"]) == {"link": b"../outside", "a.txt": b"1\n3\n"}


def test_merge_commits_between_are_found(place: Place, mirror: Mirror) -> None:
    base = _tip(place)
    left, right = place.commit({"l": "1\n"}, base), place.commit({"r": "1\n"}, base)
    merge = place.commit({"r": "1\n"}, left, right)
    _head(place, mirror, place.commit({"z": "1\n"}, merge))

    assert mirror.merges_between(base, place.refs()["refs/heads/mac/one"]) == (merge,)


def test_a_commit_built_twice_is_the_same_commit(place: Place, mirror: Mirror) -> None:
    tip = _tip(place)
    tree = mirror.tree_of(tip)

    ids = {mirror.commit_tree(tree, [tip], "Say ü\n", identity=WHO, at_ms=1_700_000_000_999) for _ in range(2)}

    assert len(ids) == 1
    commit = mirror.commits(ids)[ids.pop()]
    assert (commit.author, commit.committer, commit.message) == ("mac hub <hub@mac.invalid>",) * 2 + ("Say ü\n",)
    assert commit.committed_at == 1_700_000_000_000


# --- bundles


def test_a_bundle_brings_its_head_and_nothing_is_named_but_that(place: Place, mirror: Mirror) -> None:
    head = place.commit({"new.txt": "n\n"}, _tip(place))
    place.points("refs/heads/work", head)
    place.points("refs/heads/other", place.commit({"other.txt": "o\n"}, _tip(place)))
    content = place.bundle("refs/heads/work", "refs/heads/other", "^refs/heads/main")

    mirror.import_bundle(content, head, "refs/hub/evidence/one")

    assert mirror.blob(head, "new.txt") == b"n\n"
    refs = mirror._git_here("for-each-ref", "--format=%(refname)").text.split()
    assert sorted(refs) == ["refs/hub/evidence/one", "refs/hub/heads/main"]


def test_a_head_that_the_bundle_does_not_name_is_refused(place: Place, mirror: Mirror) -> None:
    head = place.commit({"new.txt": "n\n"}, _tip(place))
    place.points("refs/heads/work", head)
    content = place.bundle("refs/heads/work", "^refs/heads/main")

    with pytest.raises(Rejected) as refusal:
        mirror.import_bundle(content, _tip(place), "refs/hub/evidence/one")

    assert refusal.value.code == "head_not_in_bundle"
    assert not mirror.has(head)


def test_a_bundle_on_commits_that_are_not_here_is_refused(place: Place, mirror: Mirror) -> None:
    unknown = place.commit({"a": "1\n"}, _tip(place))
    place.points("refs/heads/unknown", unknown)
    head = place.commit({"b": "1\n"}, unknown)
    place.points("refs/heads/work", head)
    content = place.bundle("refs/heads/work", "^refs/heads/unknown")

    with pytest.raises(Rejected) as refusal:
        mirror.import_bundle(content, head, "refs/hub/evidence/one")

    assert refusal.value.code == "bundle_invalid"
    assert not mirror.has(head)


@pytest.mark.parametrize("spoil", ["cut", "flip", "no_pack", "filter"])
def test_a_spoilt_bundle_is_refused(place: Place, mirror: Mirror, spoil: str) -> None:
    head = place.commit({"new.txt": "n\n" * 500}, _tip(place))
    place.points("refs/heads/work", head)
    content = place.bundle("refs/heads/work", "^refs/heads/main")
    spoilt = {
        "cut": content[:-30],
        "flip": content[:-40] + bytes([content[-40] ^ 255]) + content[-39:],
        "no_pack": content.partition(b"PACK")[0],
        "filter": content.replace(b"# v2 git bundle\n", b"# v3 git bundle\n@filter=blob:none\n"),
    }[spoil]

    with pytest.raises(Rejected) as refusal:
        mirror.import_bundle(spoilt, head, "refs/hub/evidence/one")

    assert refusal.value.code == "bundle_invalid"


def test_an_object_that_fsck_refuses_does_not_come_in(place: Place, mirror: Mirror) -> None:
    """A tree with an entry named `.git` is how a checkout is attacked."""
    blob = place.git("hash-object", "-w", "--stdin", stdin=b"[core]\n")
    tree = place.git(
        "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=b"100644 .git\0" + bytes.fromhex(blob)
    )
    head = place.git("commit-tree", "-p", _tip(place), "-m", "evil", tree)
    place.points("refs/heads/work", head)
    content = place.bundle("refs/heads/work", "^refs/heads/main")

    with pytest.raises(Rejected) as refusal:
        mirror.import_bundle(content, head, "refs/hub/evidence/one")

    assert refusal.value.code == "bundle_invalid"
    assert not mirror.has(head)
