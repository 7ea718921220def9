"""What became of an intent: settled from what the remote shows, never from what an answer claimed.

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
