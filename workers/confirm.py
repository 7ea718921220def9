"""Confirming: reads the remote over a fresh connection, settles an intent from that alone, and proves what landed.

Used after an answer, an error, a time-out and a restart alike; it never asks what the push said.
"""

from typing import assert_never

from ledger import intents, proofs
from ledger.intents import Intent, IntentKind
from ledger.slot import LandSlot
from pipeline import settle as mind
from pipeline.canonical import Json
from pipeline.decisions import ConfirmLanding, Decision, TipGuard
from pipeline.errors import ensure
from pipeline.facts import Sha
from pipeline.intent import signed
from workers import land as pushes
from workers import merging
from workers.looking import Looking
from workers.prove import Read, look_later, prove
from workers.under_slot import under_slot

ROUNDS_MAX = 3
VOID_PAYLOAD = b'{"mac":"void"}\n'


def settle_open(work: Looking, decision: ConfirmLanding) -> None:
    """Settle the open intent of this publication, under the land slot."""
    under_slot(work, decision, _settle_held)


def _settle_held(work: Looking, _slot: LandSlot, _decision: Decision) -> None:
    intent = work.held.open_intent
    if intent is None or intent.publication_id != work.look.publication_id:
        return
    if intent.kind is IntentKind.UPDATE:
        settle_update(work, intent)
    elif intent.fields["tip_guard"] == TipGuard.STRICT_PROTECTION.value:
        merging.settle(work, intent)
    else:
        settle(work, intent)


def finish(work: Looking) -> None:
    """Complete an approved report. A code task is completed together with its proof, and not here."""
    digest = work.held.verdict_digest
    ensure(digest is not None, "a report is finished by its verdict")
    assert digest is not None
    proofs.complete(work.place.ledger, work.look, proofs.Approved(digest))


def settle(work: Looking, intent: Intent) -> None:
    """Settle a landing from what the remote shows; while it shows too little, the intent stays open for the next
    look."""
    landing = landing_of(work, intent)
    void = pushes.marker_object(work.mirror, intent.id, landing.expected_tip, VOID_PAYLOAD, at_ms=intent.committed_at)
    for _ in range(ROUNDS_MAX):
        reading = pushes.read_back(work.mirror, landing.branch, [intent.id], now=work.place.now())
        seen = mind.Seen(reading.sha, _marker(reading, intent, landing, void), _reachable(work, landing, reading.sha))
        settlement = mind.settle(seen)
        noted: dict[str, Json] = {"via": "git", "sha": reading.sha, "at": reading.at, "marker": seen.marker.value}
        intents.observe(work.place.ledger, intent.id, "reading", noted)
        match settlement:
            case mind.MakeVoid():
                pushes.void_marker(work.mirror, intent.id, void)
            case mind.LandedByUs(tip=tip):
                prove(work, intent, landing.commit, Read(tip, reading.at), marked=True)
                return
            case mind.IsVoid():
                intents.void(work.place.ledger, intent.id, "not_landed")
                return
            case mind.LandedUnattributed():
                intents.unattributed(work.place.ledger, intent.id, {"tip": reading.sha})
                return
            case mind.LandedRemoved():
                intents.unproven(work.place.ledger, intent.id, {"tip": reading.sha, "why": "removed_again"})
                return
            case mind.NotSettled(why=why):
                look_later(work, intent, why)
                return
            case _:
                assert_never(settlement)
    look_later(work, intent, "still_moving")


def landing_of(work: Looking, intent: Intent) -> pushes.Landing:
    """The landing exactly as its intent fixed it; the marker object can be made again from the intent alone."""
    fixed = intent.fields
    commit, tip = str(fixed["landed_sha"]), str(fixed["expected_tip"])
    payload = signed(fixed, work.place.key)
    marker = pushes.marker_object(work.mirror, intent.id, commit, payload, at_ms=intent.committed_at)
    branch = work.held.repository.canonical_branch
    return pushes.Landing(intent.id, intent.slot_token, branch, tip, commit, marker)


def settle_update(work: Looking, intent: Intent) -> None:
    """Settle an update of the head: it is there as intended, or the compare-and-swap can no longer succeed, or we
    wait."""
    fixed = intent.fields
    head, commit = str(fixed["head"]), str(fixed["commit"])
    reading = pushes.read_back(work.mirror, work.held.repository.head_branch, now=work.place.now())
    intents.observe(work.place.ledger, intent.id, "reading", {"via": "git", "sha": reading.sha, "at": reading.at})
    if reading.sha == commit:
        tip, tree = str(fixed["tip"]), str(fixed["tree"])
        intents.record_update(work.place.ledger, work.look, intent.id, previous_head=head, tip=tip, tree=tree, head=commit)
    elif reading.sha != head or work.place.now() >= intent.committed_at + work.place.bounds.land_slot_ms:
        intents.void(work.place.ledger, intent.id, "not_updated")
    else:
        look_later(work, intent, "push_may_be_under_way")


def _marker(reading: pushes.Reading, intent: Intent, landing: pushes.Landing, void: Sha) -> mind.MarkerState:
    found = reading.markers.get(intent.id)
    if found is None:
        return mind.MarkerState.ABSENT
    known = {landing.marker: mind.MarkerState.OURS, void: mind.MarkerState.VOID}
    return known.get(found, mind.MarkerState.OTHER)


def _reachable(work: Looking, landing: pushes.Landing, tip: Sha | None) -> bool:
    if tip is None:
        return False
    if not work.mirror.has(tip):
        work.mirror.fetch({f"refs/heads/{landing.branch}": "refs/hub/tip"})
    # A commit that was built on another host and never pushed is not here, and then it is not on the branch either.
    return work.mirror.has(tip) and work.mirror.has(landing.commit) and work.mirror.is_ancestor(landing.commit, tip)
