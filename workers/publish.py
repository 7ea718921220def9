"""The straight line of the hands: lease a publication, observe the remote, ask the mind, record, perform one effect.

`advance` is what the bell rings and what the sweep calls; both run the same code. One advance is bounded in looks and
in time, then rings again, so that no branch starves another.
"""

import structlog

from ledger import publication
from ledger.dossier import dossier
from ledger.publication import Look
from ledger.record import record
from pipeline.decide import decide
from pipeline.decisions import Decision, Owner, Wait
from pipeline.errors import Rejected, Unavailable
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.retry import after_unavailable, next_look
from workers import register, wiring
from workers.looking import looking
from workers.perform import perform
from workers.place import Place

log = structlog.get_logger(__name__)


def advance(branch_id: str) -> None:
    """The job that a ring names: look at this branch until nothing is due, or the bound is reached."""
    advance_branch(wiring.place(), branch_id)


def advance_branch(place: Place, branch_id: str) -> int:
    """Look at what is due on one branch; how many looks there were. Rings again when a bound ended it.

    The bell is answered first: whatever is rung from then on comes as a new ring, and what came before is seen now.
    """
    place.ledger.bell.answer(branch_id)
    register.register_waiting(place)
    begun = place.now()
    for looks in range(place.bounds.advance_looks_max):
        if place.now() - begun >= place.bounds.advance_ms_max:
            break
        look = publication.due(place.ledger, branch_id, place.name)
        if look is None:
            return looks
        look_at(place, look)
    place.ledger.bell.ring(branch_id)
    return place.bounds.advance_looks_max


def look_at(place: Place, look: Look) -> Decision | None:
    """One look, at most one effect; the decision, or None when the look was lost to another process.

    What is not available just now becomes a wait with that name, so that a world that does not answer is shown as such.
    """
    try:
        with looking(place, look) as work:
            decision = decide(work.snapshot)
            at = next_look(decision, place.now(), work.held.looks, place.jitter(), place.back_off)
            record(place.ledger, look, decision, next_look_at=at)
            log.info("decided", publication=look.publication_id, decision=type(decision).__name__, reason=decision.reason)
            perform(work, decision)
            return decision
    except Unavailable as away:
        return _wait(place, look, away)
    except Rejected as refused:
        if refused.refusal not in (Refusal.LEASE_STALE, Refusal.SLOT_LOST, Refusal.INTENT_NOT_ADMITTED):
            raise
        log.info("look_given_up", publication=look.publication_id, code=refused.code, problem=str(refused))
        return None


def _wait(place: Place, look: Look, away: Unavailable) -> Decision:
    log.warning("look_unavailable", publication=look.publication_id, code=away.code, problem=str(away))
    now, held = place.now(), dossier(place.ledger, look.publication_id)
    mine = held.intent is not None and held.intent.publication == look.publication_id
    until = after_unavailable(now, away.retry_after_ms, intent_open=mine, soon_ms=place.bounds.confirm_ms)
    wait = Wait(Reason.UNKNOWN, Owner.HUB, {"fact": "remote", "why": away.code}, next_look_at=until)
    record(place.ledger, look, wait, next_look_at=next_look(wait, now, held.looks, place.jitter(), place.back_off))
    return wait
