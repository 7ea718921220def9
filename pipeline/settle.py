"""What became of an intent: settled from what the remote shows; an answer alone settles nothing.

A landing by push writes two refs or none: the canonical branch and the marker. So the marker alone tells. While it is
absent nothing has landed by this intent, and it may be made void by creating the marker first; whoever comes first
wins.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pipeline.facts import Sha


class MarkerState(StrEnum):
    """What stands at the marker's ref: nothing, this landing, the hub's own void, or something else."""

    ABSENT = "absent"
    OURS = "ours"
    VOID = "void"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Seen:
    """One reading of the remote after an intent. `reachable`: the branch as read contains the intent's commit."""

    tip: Sha | None
    marker: MarkerState
    reachable: bool


@dataclass(frozen=True, slots=True)
class LandedByUs:
    """The marker carries this intent and the branch contains its commit: the proof may be built on this tip."""

    tip: Sha


@dataclass(frozen=True, slots=True)
class MakeVoid:
    """Nothing has landed by this intent yet: create the marker first, then read again."""


@dataclass(frozen=True, slots=True)
class IsVoid:
    """It has not landed and never will."""


@dataclass(frozen=True, slots=True)
class LandedUnattributed:
    """The branch contains the commit, but this intent did not put it there."""


@dataclass(frozen=True, slots=True)
class LandedRemoved:
    """The marker proves that it landed, but the branch no longer contains the commit: it was taken off again."""


@dataclass(frozen=True, slots=True)
class NotSettled:
    """The remote does not say enough; read it again later."""

    why: str


Settlement: TypeAlias = LandedByUs | MakeVoid | IsVoid | LandedUnattributed | LandedRemoved | NotSettled


def settle(seen: Seen) -> Settlement:
    """What became of the intent. Total; the same reading always gives the same answer."""
    if seen.marker is MarkerState.OTHER:
        return NotSettled("marker_of_somebody_else")
    if seen.tip is None:
        return NotSettled("branch_absent")
    if seen.marker is MarkerState.OURS:
        return LandedByUs(seen.tip) if seen.reachable else LandedRemoved()
    if seen.marker is MarkerState.VOID:
        return LandedUnattributed() if seen.reachable else IsVoid()
    return MakeVoid()


# --- landings that GitHub makes


class Told(StrEnum):
    """What the one merge request of an intent was told: done, refused, or nothing that can be relied on."""

    MERGED = "merged"
    REFUSED = "refused"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class SeenMerge:
    """One reading after a merge request. `commit`: what the answer named, or the pull request if our App merged it (None:
    neither does). `reachable`, `on_expected_tip` and `tree_tested` say of it what git says. `over`: the longest possible
    request has passed, so nothing of it can still be under way."""

    told: Told
    tip: Sha | None
    pull_request_merged: bool
    commit: Sha | None
    reachable: bool
    on_expected_tip: bool
    tree_tested: bool
    over: bool


@dataclass(frozen=True, slots=True)
class LandedOtherwise:
    """It landed by us, but not as it was tested: nothing is proven, and somebody must look."""

    why: str


MergeSettlement: TypeAlias = LandedByUs | IsVoid | LandedUnattributed | LandedOtherwise | NotSettled


def settle_merge(seen: SeenMerge) -> MergeSettlement:
    """What became of a merge that GitHub was asked for. Total.

    A refusal ends the one request there was; after anything else the intent is void only once no request can still be
    under way. GitHub's word that it merged is believed when the branch contains that very commit, and not before.
    """
    if seen.tip is None:
        return NotSettled("branch_absent")
    if seen.commit is None:
        if seen.pull_request_merged:
            return LandedUnattributed()
        gone = seen.told is Told.REFUSED or seen.over
        return IsVoid() if gone else NotSettled("merge_may_be_under_way")
    if not seen.reachable:
        return LandedOtherwise("merged_and_not_on_the_branch") if seen.over else NotSettled("branch_lags")
    if not seen.on_expected_tip:
        return LandedOtherwise("merged_on_another_tip")
    if not seen.tree_tested:
        return LandedOtherwise("merged_with_another_tree")
    return LandedByUs(seen.tip)
