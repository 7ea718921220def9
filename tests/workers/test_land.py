"""A landing moves both refs or neither, and only from the tip that it was planned on."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.slot import LandSlot
from pipeline.decisions import Gate, GateKind, LandPlan, Method, TipGuard
from pipeline.errors import InvariantBroken, Rejected
from tests.workers.places import Place
from tests.workers.processes import ends
from workers.clone import Mirrors
from workers.git import Git
from workers.land import (
    HUB,
    Landing,
    MarkersAdmitted,
    MarkerTaken,
    Voided,
    build_commit,
    land,
    marker_object,
    marker_ref,
    push_head,
    read_back,
    read_marker,
    try_markers,
    void_marker,
)
from workers.mirror import Mirror
from workers.push import Pushed, RefusalKind, Refused, Unclear, UpToDate

MAIN = "refs/heads/main"
INTENT = "int_01"
MARKER = marker_ref(INTENT)
AT = 1_700_000_100_000


def _plan(place: Place, mirror: Mirror, tested: str, method: Method = Method.MERGE) -> LandPlan:
    tip = place.tip()
    assert tip is not None
    tree = mirror.tree_of(tested)
    gate = Gate(GateKind.VERIFIER, ())
    return LandPlan(method, TipGuard.ATOMIC_PUSH, tip, tested, tree, tested, tip, gate)


def _change(place: Place, mirror: Mirror, text: str = "new\n") -> str:
    """A head on top of main, pushed by its author and fetched by us."""
    tip = place.tip()
    assert tip is not None
    head = place.commit({"new.txt": text}, tip)
    place.points("refs/heads/mac/one", head)
    mirror.fetch({"refs/heads/mac/one": "refs/hub/heads/one"})
    return head


def _landing(place: Place, mirror: Mirror, slot: LandSlot, method: Method = Method.MERGE) -> Landing:
    plan = _plan(place, mirror, _change(place, mirror), method)
    commit = build_commit(mirror, plan, "Land one", intent=INTENT, at_ms=AT)
    marker = marker_object(mirror, INTENT, commit, b'{"intent":"int_01"}\n', at_ms=AT)
    return Landing(INTENT, slot.token, "main", plan.expected_tip, commit, marker)


def _hook(place: Place, name: str, text: str) -> None:
    hook = place.path / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(text)
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("method", [Method.MERGE, Method.SQUASH, Method.FAST_FORWARD])
def test_a_landing_moves_the_branch_and_creates_its_marker(
    place: Place, mirror: Mirror, slot: LandSlot, method: Method
) -> None:
    landing = _landing(place, mirror, slot, method)

    assert land(slot, mirror, landing) == Pushed()

    reading = read_back(mirror, "main", [INTENT, "int_02"], now=AT)
    assert (reading.via, reading.sha, reading.markers) == ("git", landing.commit, {INTENT: landing.marker})
    assert read_marker(mirror, INTENT) == (landing.commit, b'{"intent":"int_01"}\n')
    assert place.git("fsck", "--strict") == ""


def test_a_built_commit_has_the_tested_tree_and_names_its_intent_last(place: Place, mirror: Mirror) -> None:
    plan = _plan(place, mirror, _change(place, mirror))

    commit = build_commit(mirror, plan, "Land one\n\nMore.\n\n", intent=INTENT, at_ms=AT)

    built = mirror.commits([commit])[commit]
    assert built.tree == plan.tested_tree
    assert built.parents == (plan.expected_tip, plan.tested)
    assert built.message == "Land one\n\nMore.\n\nMac-Intent: int_01\n"
    assert built.committed_at == AT
    assert commit == build_commit(mirror, plan, "Land one\n\nMore.\n\n", intent=INTENT, at_ms=AT)


def test_a_message_cannot_claim_an_intent(place: Place, mirror: Mirror) -> None:
    plan = _plan(place, mirror, _change(place, mirror))

    with pytest.raises(InvariantBroken):
        build_commit(mirror, plan, "Land one\n\nmac-intent: int_99", intent=INTENT, at_ms=AT)


def test_a_plan_that_changes_nothing_is_not_built(place: Place, mirror: Mirror) -> None:
    tip = place.tip()
    assert tip is not None
    empty = place.commit({}, tip, message="nothing")
    place.points("refs/heads/mac/empty", empty)
    mirror.fetch({"refs/heads/mac/empty": "refs/hub/heads/empty"})

    with pytest.raises(InvariantBroken):
        build_commit(mirror, _plan(place, mirror, empty), "Land nothing", intent=INTENT, at_ms=AT)


def test_a_tip_that_moved_refuses_the_whole_landing(place: Place, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(place, mirror, slot)
    neighbour = place.commit({"other.txt": "theirs\n"}, landing.expected_tip)
    place.points(MAIN, neighbour)
    before = place.refs()

    result = land(slot, mirror, landing)

    assert isinstance(result, Refused)
    assert (result.kind, result.refs) == (RefusalKind.STALE, (MAIN,))
    assert place.refs() == before


def test_a_rewound_branch_refuses_although_the_landing_would_fast_forward(
    place: Place, mirror: Mirror, slot: LandSlot
) -> None:
    first = place.tip()
    assert first is not None
    removed = place.commit({"secret.txt": "taken back\n"}, first)
    place.points(MAIN, removed)
    mirror.fetch({MAIN: "refs/hub/heads/main"})
    landing = _landing(place, mirror, slot, Method.FAST_FORWARD)
    place.points(MAIN, first)

    result = land(slot, mirror, landing)

    assert isinstance(result, Refused)
    assert result.kind is RefusalKind.STALE
    assert place.tip() == first
    assert place.tip(MARKER) is None


def test_a_marker_that_is_there_refuses_the_landing_whole(place: Place, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(place, mirror, slot)
    void = marker_object(mirror, INTENT, landing.expected_tip, b'{"void":"int_01"}\n', at_ms=AT)
    assert void_marker(mirror, INTENT, void) == Voided()

    result = land(slot, mirror, landing)

    assert isinstance(result, Refused)
    assert (result.kind, result.refs) == (RefusalKind.STALE, (MARKER,))
    assert place.tip() == landing.expected_tip
    assert place.tip(MARKER) == void


def test_what_somebody_else_pushed_is_up_to_date_and_gets_no_marker(
    place: Place, mirror: Mirror, slot: LandSlot
) -> None:
    landing = _landing(place, mirror, slot, Method.FAST_FORWARD)
    place.points(MAIN, landing.commit)

    assert land(slot, mirror, landing) == UpToDate()

    assert place.tip(MARKER) is None


def test_a_landing_that_took_place_cannot_be_voided(place: Place, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(place, mirror, slot)
    assert land(slot, mirror, landing) == Pushed()
    void = marker_object(mirror, INTENT, landing.expected_tip, b'{"void":"int_01"}\n', at_ms=AT)

    assert void_marker(mirror, INTENT, void) == MarkerTaken(landing.marker)
    assert place.tip(MARKER) == landing.marker


def test_voiding_twice_is_voided_twice(place: Place, mirror: Mirror) -> None:
    tip = place.tip()
    assert tip is not None
    void = marker_object(mirror, INTENT, tip, b'{"void":"int_01"}\n', at_ms=AT)

    assert [void_marker(mirror, INTENT, void), void_marker(mirror, INTENT, void)] == [Voided(), Voided()]


def test_a_push_that_hangs_is_unclear_and_leaves_no_process_behind(
    place: Place, mirrors: Mirrors, mirror: Mirror, slot: LandSlot, tmp_path: Path
) -> None:
    landing = _landing(place, mirror, slot)
    _hook(place, "pre-receive", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    impatient = Git.prepared(
        tmp_path / "git-home", os.environ, file_protocol=True, timeout_ms=60_000, effect_timeout_ms=700
    )
    hasty = Mirror(mirror.path, impatient, mirror.url, None, remake=lambda: None)

    assert land(slot, hasty, landing) == Unclear("time_out")

    sleeper = int((tmp_path / "pid").read_text())
    assert ends(sleeper)
    assert place.tip() == landing.expected_tip
    assert place.tip(MARKER) is None


def test_an_answer_lost_after_the_refs_moved_is_unclear_and_the_reading_shows_the_landing(
    place: Place, mirror: Mirror, slot: LandSlot
) -> None:
    landing = _landing(place, mirror, slot)
    _hook(place, "post-receive", "#!/bin/sh\nkill -9 $PPID\n")

    assert isinstance(land(slot, mirror, landing), Unclear)

    reading = read_back(mirror, "main", [INTENT], now=AT)
    assert (reading.sha, reading.markers) == (landing.commit, {INTENT: landing.marker})


def test_a_rule_of_the_remote_refuses_with_its_own_words(place: Place, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(place, mirror, slot)
    words = "remote rule: GH013: Repository rule violations found for refs/heads/main."
    _hook(place, "pre-receive", f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")

    result = land(slot, mirror, landing)

    assert isinstance(result, Refused)
    assert result.kind is RefusalKind.RULE
    assert "GH013" in result.message
    assert place.tip() == landing.expected_tip
    assert place.tip(MARKER) is None


def test_a_commit_that_does_not_contain_the_expected_tip_is_never_pushed(
    place: Place, mirror: Mirror, slot: LandSlot
) -> None:
    landing = _landing(place, mirror, slot)
    stranger = place.commit({"x": "1\n"})
    place.points("refs/heads/mac/x", stranger)
    mirror.fetch({"refs/heads/mac/x": "refs/hub/heads/x"})

    with pytest.raises(InvariantBroken):
        land(slot, mirror, replace(landing, commit=stranger))

    assert place.tip() == landing.expected_tip


def test_a_slot_of_another_token_lands_nothing(place: Place, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(place, mirror, slot)

    with pytest.raises(InvariantBroken):
        land(slot, mirror, replace(landing, slot_token=slot.token - 1))

    assert place.tip() == landing.expected_tip


def test_a_head_is_pushed_by_compare_and_swap(place: Place, mirror: Mirror) -> None:
    head = _change(place, mirror)
    update = place.commit({"more.txt": "m\n"}, head)
    place.points("refs/heads/mac/one", update)
    mirror.fetch({"refs/heads/mac/one": "refs/hub/heads/one"})

    assert push_head(mirror, "mac/two", head, expected=None) == Pushed()
    stale = push_head(mirror, "mac/two", update, expected=None)
    assert isinstance(stale, Refused)
    assert stale.kind is RefusalKind.STALE
    assert place.tip("refs/heads/mac/two") == head
    assert push_head(mirror, "mac/two", update, expected=head) == Pushed()
    assert push_head(mirror, "mac/two", update, expected=update) == UpToDate()
    assert place.tip("refs/heads/mac/two") == update


def test_only_the_hubs_own_branches_are_pushed_as_heads(place: Place, mirror: Mirror) -> None:
    head = _change(place, mirror)
    before = place.refs()

    with pytest.raises(InvariantBroken):
        push_head(mirror, "main", head, expected=place.tip())

    assert place.refs() == before


def test_trying_the_markers_leaves_none_behind(place: Place, mirror: Mirror) -> None:
    tip = place.tip()
    assert tip is not None
    before = place.refs()

    assert try_markers(mirror, "probe_1", tip, at_ms=AT) == MarkersAdmitted()

    assert place.refs() == before


def test_a_remote_that_takes_no_markers_says_so(place: Place, mirror: Mirror) -> None:
    tip = place.tip()
    assert tip is not None
    place.git("config", "receive.hideRefs", "refs/mac")

    result = try_markers(mirror, "probe_1", tip, at_ms=AT)

    assert isinstance(result, Refused)
    assert result.refs == (marker_ref("probe_1"),)


@pytest.mark.parametrize("branch", ["--upload-pack=touch /tmp/x", "-main", "a..b", "a b", "x.lock", "", "a/", "@{u}"])
def test_a_hostile_branch_name_is_refused_before_git_is_run(place: Place, mirror: Mirror, branch: str) -> None:
    with pytest.raises(Rejected) as refusal:
        read_back(mirror, branch, now=AT)

    assert refusal.value.code == "field_invalid"


def test_a_marker_has_one_id_wherever_its_commit_is(place: Place, mirror: Mirror, git: Git, tmp_path: Path) -> None:
    tip = place.tip()
    assert tip is not None
    built = mirror.commit_tree(mirror.tree_of(_change(place, mirror)), [tip], "Only here", identity=HUB, at_ms=AT)
    here = marker_object(mirror, INTENT, built, b'{"intent":"int_01"}\n', at_ms=AT)
    with Mirrors(tmp_path / "another-host", git, max_bytes=10**9).open(place.remote()) as other:
        assert not other.has(built)
        assert marker_object(other, INTENT, built, b'{"intent":"int_01"}\n', at_ms=AT) == here
