"""Proving what landed: the intent and a reading become a proof, which has to hold before it completes anything."""

from dataclasses import dataclass

import structlog

from ledger import intents, proofs
from ledger.intents import Intent
from ledger.record import record
from pipeline import proof, words
from pipeline.canonical import Json
from pipeline.decisions import Owner, Wait
from pipeline.facts import Sha
from pipeline.intent import signed
from pipeline.reasons import Reason
from workers import proving, telling
from workers.looking import Looking

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """The canonical branch as it was read back over git, and noted in the ledger under just these values."""

    tip: Sha
    at: int


def prove(work: Looking, intent: Intent, landed: Sha, read: Read, *, marked: bool, answered: Sha | None = None) -> None:
    """Build the proof from the intent and this reading, hold it against git and the ledger, and complete with it.

    `marked`: the marker that carries this very intent was read back beside the branch; `answered`: the commit that GitHub
    named for the merge. A proof that does not hold is no proof: the landing stays unproven, and an operator looks at it.
    """
    place, keys = work.place, [work.place.key.public]
    reading = proof.Reading("git", read.tip, read.at)
    envelope = proof.build(intent.fields, landed, read.tip, [reading], place.key)
    marker = (landed, signed(intent.fields, place.key)) if marked else None
    facts = proving.git_facts(work.mirror, proof.predicate_of(envelope), read.tip, marker, keys)
    recorded = proof.Recorded(intent.fields, _recorded(work, intent, read), answered)
    verification = proof.verify(envelope, keys, facts, recorded)
    if not verification.holds:
        failed = [f"{step.number} {step.name}: {step.problem}" for step in verification.failed]
        log.error("proof_does_not_hold", intent=intent.id, failed=failed)
        intents.unproven(place.ledger, intent.id, {"failed": failed})
        return
    proven = proof.admit(envelope, verification)
    proofs.complete(place.ledger, work.look, proofs.Landed(proven))
    telling.tell(work, words.landed_report(landed, proven.digest))


def _recorded(work: Looking, intent: Intent, read: Read) -> list[dict[str, Json]]:
    """The reading as the ledger holds it; empty when it was not noted, and then the proof does not hold."""
    for seen in reversed(intents.observed(work.place.ledger, intent.id, "reading")):
        if (seen.facts.get("via"), seen.facts.get("sha"), seen.facts.get("at")) == ("git", read.tip, read.at):
            return [{"via": "git", "sha": read.tip, "at": read.at}]
    return []


def look_later(work: Looking, intent: Intent, why: str) -> None:
    """The intent stays open; the publication is looked at again soon, and nothing else of its branch moves until
    then."""
    at = work.place.now() + work.place.bounds.confirm_ms
    wait = Wait(Reason.INTENT_UNSETTLED, Owner.HUB, {"intent": intent.id, "why": why}, next_look_at=at)
    record(work.place.ledger, work.look, wait, next_look_at=at)
