"""The effects that move refs: the head of a task's branch, and the canonical branch. Intent before, reading after.

Every one of them happens under the land slot, for seconds: the snapshot is read again under it and decided again, and
only the decision taken then is carried out. `workers.land` is the only module that pushes to a canonical branch.
"""

import structlog

from ledger import intents, review
from ledger.intents import IntentKind
from ledger.slot import LandSlot
from pipeline import words
from pipeline.canonical import Json
from pipeline.decisions import Decision, Land, LandPlan, TipGuard, UpdateBranch, UpdatePlan
from pipeline.errors import InvariantBroken
from pipeline.facts import Sha
from pipeline.intent import Bearings, document
from workers import confirm, merging
from workers import land as pushes
from workers.looking import Looking
from workers.push import Pushed, PushResult, Refused, Unclear, UpToDate
from workers.under_slot import under_slot

log = structlog.get_logger(__name__)


def push_evidence(work: Looking) -> None:
    """Push the evidence's head to the task's own branch by compare-and-swap, and record it once it is read back
    there."""
    head, branch = work.change.head, work.held.repository.head_branch
    answer = pushes.push_head(work.mirror, branch, head, expected=work.remote_head)
    reading = pushes.read_back(work.mirror, branch, now=work.place.now())
    log.info("head_pushed", publication=work.look.publication_id, answer=type(answer).__name__, head=head)
    if reading.sha == head:
        review.record_push(work.place.ledger, work.look, head)


def update_head(work: Looking, decision: UpdateBranch) -> None:
    """Bring the head up to date: a merge commit of our own, pushed by compare-and-swap under an intent."""
    under_slot(work, decision, _update)


def land(work: Looking, decision: Land) -> None:
    """Land the change: commit the intent, push once, and settle it from what the remote shows."""
    under_slot(work, decision, _land)


def _land(work: Looking, slot: LandSlot, decided: Decision) -> None:
    if not isinstance(decided, Land):
        return  # recorded, and due at once: the next look carries it out
    place, plan = work.place, decided.plan

    def fill(intent_id: str, slot_token: int, committed_at: int) -> dict[str, Json]:
        return document(
            plan,
            _bearings(work),
            work.held.updates,
            intent=intent_id,
            landed=_commit(work, plan, intent_id, committed_at),
            landed_tree=plan.tested_tree,
            gate_read_at=work.snapshot.remote.read_at,
            accepted=work.snapshot.policy.accepted,
            slot_token=slot_token,
            committed_at=committed_at,
        )

    intent = intents.commit_intent(place.ledger, work.look, slot, IntentKind.LAND, fill)
    if plan.tip_guard is TipGuard.STRICT_PROTECTION:
        merging.ask(work, intent, plan)
        merging.settle(work, intent)
        return
    answer = pushes.land(slot, work.mirror, confirm.landing_of(work, intent))
    intents.observe(place.ledger, intent.id, "answer", told(answer))
    confirm.settle(work, intent)


def _commit(work: Looking, plan: LandPlan, intent_id: str, at_ms: int) -> Sha | None:
    """The commit that will land, where it can be known before: not where GitHub makes it."""
    if plan.tip_guard is TipGuard.STRICT_PROTECTION:
        return None
    task = work.held.whole_task
    message = words.commit_message(task.title, task.id, task.pull_request)
    return pushes.build_commit(work.mirror, plan, message, intent=intent_id, at_ms=at_ms)


def _bearings(work: Looking) -> Bearings:
    held, chain = work.held, work.held.chain_head
    if held.verdict is None or held.verdict_digest is None:
        raise InvariantBroken("a landing without a verdict")
    return Bearings(
        repository=f"{held.project.owner}/{held.project.repository}",
        repository_id=held.repository.id,
        canonical_ref=f"refs/heads/{held.repository.canonical_branch}",
        branch=held.branch_id,
        task=held.task.id,
        attempt=held.attempt_id,
        publication=held.publication.id,
        pull_request=held.whole_task.pull_request,
        evidence_digest=held.evidence.digest,
        verdict_digest=held.verdict_digest,
        contract_digest=held.verdict.contract_digest,
        hub_revision=work.place.revision,
        sequence=1 if chain is None else chain.sequence + 1,
        previous=None if chain is None else chain.digest,
    )


def _update(work: Looking, slot: LandSlot, decided: Decision) -> None:
    if not isinstance(decided, UpdateBranch):
        return
    place, plan = work.place, decided.plan
    commits: dict[str, Sha] = {}

    def fill(intent_id: str, slot_token: int, committed_at: int) -> dict[str, Json]:
        commits["head"] = _update_commit(work, plan, committed_at)
        fixed: dict[str, Json] = {"schema": "mac.update_intent.v1", "intent": intent_id, "slot_token": slot_token}
        return fixed | {"head": plan.head, "tip": plan.tip, "tree": plan.tree, "commit": commits["head"]}

    intent = intents.commit_intent(place.ledger, work.look, slot, IntentKind.UPDATE, fill)
    branch = work.held.repository.head_branch
    answer = pushes.push_head(work.mirror, branch, commits["head"], expected=plan.head)
    intents.observe(place.ledger, intent.id, "answer", told(answer))
    confirm.settle_update(work, intent)


def _update_commit(work: Looking, plan: UpdatePlan, at_ms: int) -> Sha:
    message = words.update_message(work.held.task.id, plan.tip)
    return work.mirror.commit_tree(plan.tree, [plan.head, plan.tip], message, identity=pushes.HUB, at_ms=at_ms)


def told(answer: PushResult) -> dict[str, Json]:
    """What a push answered, for the record. It settles nothing."""
    match answer:
        case Pushed() | UpToDate():
            return {"push": type(answer).__name__}
        case Refused(kind=kind, refs=refs, message=message):
            return {"push": "Refused", "kind": kind.value, "refs": list(refs), "message": message[:500]}
        case Unclear(why=why):
            return {"push": "Unclear", "why": why}
