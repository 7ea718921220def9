"""Acting under the land slot: what was read without it is read and decided again before anything moves."""

from collections.abc import Callable

from ledger.record import record
from ledger.slot import LandSlot, release_slot, take_slot
from pipeline.decide import decide
from pipeline.decisions import Decision, Owner, Wait
from pipeline.reasons import Reason
from workers.looking import Looking
from workers.place import gone


def under_slot(work: Looking, decision: Decision, act: Callable[[Looking, LandSlot, Decision], None]) -> None:
    """Act on a decision that was taken on what was read under the slot; without it, take it, read and decide again.

    Another holder makes it a short wait.
    """
    place = work.place
    if work.slot is not None:
        act(work, work.slot, decision)
        return
    slot = take_slot(place.ledger, work.look.branch_id, place.holder, gone=gone)
    if slot is None:
        at = place.now() + place.bounds.confirm_ms
        wait = Wait(Reason.SLOT_TAKEN, Owner.HUB, next_look_at=at)
        record(place.ledger, work.look, wait, next_look_at=at)
        return
    try:
        again = work.under(slot)
        decided = decide(again.snapshot)
        record(place.ledger, again.look, decided, next_look_at=place.now())
        act(again, slot, decided)
    finally:
        release_slot(place.ledger, slot)
