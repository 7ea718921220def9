"""When to look again: back-off as a value. The jitter is an argument, so the same inputs give the same moment."""

from dataclasses import dataclass

from pipeline.decisions import Block, Decision, Wait


@dataclass(frozen=True, slots=True)
class BackOff:
    """The bounds of a wait without an event, in milliseconds."""

    min_ms: int = 30_000
    max_ms: int = 1_800_000


def delay_ms(looks: int, jitter: float, back_off: BackOff) -> int:
    """The wait after `looks` looks that found the same: doubled each time, capped, spread by `jitter` in [0, 1).

    The spread is the upper half of the interval, so that waits which began together do not stay together.
    """
    doubled: int = min(back_off.min_ms * 2 ** min(max(looks, 0), 30), back_off.max_ms)
    return doubled // 2 + int(doubled / 2 * jitter)


def next_look(decision: Decision, now: int, looks: int, jitter: float, back_off: BackOff) -> int:
    """The moment of the next look: at once after an effect, at the named moment of a wait, otherwise by back-off.

    A named moment counts no longer than the longest back-off: nothing waits for ever on one word of the remote.
    """
    if isinstance(decision, Wait) and decision.next_look_at is not None:
        return min(max(now, decision.next_look_at), now + back_off.max_ms)
    if isinstance(decision, Wait | Block):
        return now + delay_ms(looks, jitter, back_off)
    return now


def after_unavailable(now: int, retry_after_ms: int | None, *, intent_open: bool, soon_ms: int) -> int | None:
    """The moment of the next look where the world did not answer at all, or None where the back-off decides.

    The wait that was asked for is kept. An open intent is looked at soon: nothing else of its branch moves until then.
    """
    if retry_after_ms is not None:
        return now + retry_after_ms
    return now + soon_ms if intent_open else None
