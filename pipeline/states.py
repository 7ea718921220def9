"""The life of a task: one table of transitions, the only place where a state can follow another.

The ledger writes a state only by naming an `Event`; the table says what comes next, so no caller can invent a path.
`docs/states.md` is drawn from this table.
"""

from collections.abc import Mapping
from enum import StrEnum

from pipeline.errors import Rejected
from pipeline.refusals import Refusal


class State(StrEnum):
    """Where a task is."""

    OPEN = "open"
    CLAIMED = "claimed"
    REVIEWING = "reviewing"
    LANDING = "landing"
    COMPLETED = "completed"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What moves a task from one state to the next."""

    CLAIM = "claim"
    SUBMIT = "submit"
    RELEASE = "release"
    EXPIRE = "expire"
    EXHAUST = "exhaust"
    APPROVE = "approve"
    RETURN = "return"
    SEND_BACK = "send_back"
    COMPLETE = "complete"
    BLOCK = "block"
    UNBLOCK_REVIEW = "unblock_review"
    UNBLOCK_LANDING = "unblock_landing"
    RETRY = "retry"
    STOP = "stop"
    START = "start"
    CANCEL = "cancel"


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
PARKED = frozenset({State.BLOCKED, State.STOPPED})

TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.OPEN, Event.CLAIM): State.CLAIMED,
    (State.OPEN, Event.EXHAUST): State.FAILED,
    (State.OPEN, Event.STOP): State.STOPPED,
    (State.OPEN, Event.COMPLETE): State.COMPLETED,
    (State.OPEN, Event.CANCEL): State.CANCELLED,
    (State.CLAIMED, Event.SUBMIT): State.REVIEWING,
    (State.CLAIMED, Event.RELEASE): State.OPEN,
    (State.CLAIMED, Event.EXPIRE): State.OPEN,
    (State.CLAIMED, Event.EXHAUST): State.FAILED,
    (State.CLAIMED, Event.STOP): State.STOPPED,
    (State.CLAIMED, Event.COMPLETE): State.COMPLETED,
    (State.CLAIMED, Event.CANCEL): State.CANCELLED,
    (State.REVIEWING, Event.APPROVE): State.LANDING,
    (State.REVIEWING, Event.RETURN): State.OPEN,
    (State.REVIEWING, Event.SEND_BACK): State.OPEN,
    (State.REVIEWING, Event.EXHAUST): State.FAILED,
    (State.REVIEWING, Event.COMPLETE): State.COMPLETED,
    (State.REVIEWING, Event.BLOCK): State.BLOCKED,
    (State.REVIEWING, Event.STOP): State.STOPPED,
    (State.REVIEWING, Event.CANCEL): State.CANCELLED,
    (State.LANDING, Event.SEND_BACK): State.OPEN,
    (State.LANDING, Event.COMPLETE): State.COMPLETED,
    (State.LANDING, Event.BLOCK): State.BLOCKED,
    (State.LANDING, Event.STOP): State.STOPPED,
    (State.LANDING, Event.CANCEL): State.CANCELLED,
    (State.BLOCKED, Event.UNBLOCK_REVIEW): State.REVIEWING,
    (State.BLOCKED, Event.UNBLOCK_LANDING): State.LANDING,
    (State.BLOCKED, Event.COMPLETE): State.COMPLETED,
    (State.BLOCKED, Event.RETRY): State.OPEN,
    (State.BLOCKED, Event.STOP): State.STOPPED,
    (State.BLOCKED, Event.CANCEL): State.CANCELLED,
    (State.STOPPED, Event.START): State.OPEN,
    (State.STOPPED, Event.COMPLETE): State.COMPLETED,
    (State.STOPPED, Event.CANCEL): State.CANCELLED,
}


def after(state: State, event: Event) -> State:
    """The state that follows. Raises `Rejected(transition_unknown)` for a pair that the table does not hold.

    `COMPLETE` is reachable from every state that is not terminal, on purpose: an intent that was committed before a
    stop, a block or a retry is settled all the same, and what has landed is completed whatever was asked in between.
    """
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise Rejected(Refusal.TRANSITION_UNKNOWN, {"state": state.value, "event": event.value})
    return found


def mermaid() -> str:
    """The table as a Mermaid state diagram, in a stable order, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> open"]
    pairs: dict[tuple[State, State], list[str]] = {}
    for (source, event), target in TRANSITIONS.items():
        pairs.setdefault((source, target), []).append(event.value)
    lines += [f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in pairs.items()]
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join(lines)
