"""What became of an intent: total, and nothing counts as landed by us unless the branch itself shows it."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.settle import (
    IsVoid,
    LandedByUs,
    LandedOtherwise,
    LandedRemoved,
    LandedUnattributed,
    MakeVoid,
    MarkerState,
    NotSettled,
    Seen,
    SeenMerge,
    Told,
    settle,
    settle_merge,
)

TIP = "a" * 40
SHAS = st.none() | st.just(TIP)
PUSHES = st.builds(Seen, tip=SHAS, marker=st.sampled_from(MarkerState), reachable=st.booleans())
MERGES = st.builds(
    SeenMerge,
    told=st.sampled_from(Told),
    tip=SHAS,
    pull_request_merged=st.booleans(),
    commit=st.none() | st.just("c" * 40),
    reachable=st.booleans(),
    on_expected_tip=st.booleans(),
    tree_tested=st.booleans(),
    over=st.booleans(),
)


def test_the_marker_alone_tells_what_became_of_a_push() -> None:
    assert settle(Seen(TIP, MarkerState.OURS, reachable=True)) == LandedByUs(TIP)
    assert settle(Seen(TIP, MarkerState.OURS, reachable=False)) == LandedRemoved()
    assert settle(Seen(TIP, MarkerState.ABSENT, reachable=True)) == MakeVoid(), "somebody pushed our very commit"
    assert settle(Seen(TIP, MarkerState.ABSENT, reachable=False)) == MakeVoid()
    assert settle(Seen(TIP, MarkerState.VOID, reachable=True)) == LandedUnattributed()
    assert settle(Seen(TIP, MarkerState.VOID, reachable=False)) == IsVoid()
    assert isinstance(settle(Seen(TIP, MarkerState.OTHER, reachable=True)), NotSettled)


@given(PUSHES)
def test_a_push_is_ours_only_with_our_marker_and_on_the_branch(seen: Seen) -> None:
    landed = isinstance(settle(seen), LandedByUs)
    assert landed == (seen.tip is not None and seen.marker is MarkerState.OURS and seen.reachable)
    void = isinstance(settle(seen), IsVoid)
    assert not void or seen.marker is MarkerState.VOID, "nothing is void before its marker is"


@given(MERGES)
def test_a_merge_is_ours_only_as_it_was_tested_and_on_the_branch(seen: SeenMerge) -> None:
    settlement = settle_merge(seen)
    whole = seen.reachable and seen.on_expected_tip and seen.tree_tested
    assert isinstance(settlement, LandedByUs) == (seen.tip is not None and seen.commit is not None and whole)


@given(MERGES)
def test_a_merge_is_void_only_when_no_request_can_be_under_way(seen: SeenMerge) -> None:
    if isinstance(settle_merge(seen), IsVoid):
        assert seen.told is Told.REFUSED or seen.over
        assert seen.commit is None
        assert not seen.pull_request_merged


def test_a_merge_by_somebody_else_and_a_merge_that_came_out_otherwise_are_told_apart() -> None:
    base = SeenMerge(Told.UNCLEAR, TIP, True, None, False, False, False, over=False)
    assert settle_merge(base) == LandedUnattributed()
    ours = SeenMerge(Told.MERGED, TIP, True, "c" * 40, True, True, False, over=False)
    assert settle_merge(ours) == LandedOtherwise("merged_with_another_tree")
