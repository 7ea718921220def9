"""Proof and completion: written in one transaction, or neither. There are two ways to complete a task, and no third."""

from dataclasses import dataclass
from typing import Any, assert_never

from sqlalchemy import Row, insert, select

from ledger import intents, line, publication, tasks
from ledger.publication import Look
from ledger.session import Ledger, Transaction
from ledger.tables import evidence, proofs, verdicts
from pipeline.canonical import Json
from pipeline.decisions import Finish, name
from pipeline.errors import Rejected, ensure
from pipeline.facts import Deliverable, LandingRecord, VerdictResult
from pipeline.proof import VerifiedProof
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import Event


@dataclass(frozen=True, slots=True)
class Landed:
    """The change is on the canonical branch, and every step of its proof held."""

    proof: VerifiedProof


@dataclass(frozen=True, slots=True)
class Approved:
    """The report's verdict is approved; `verdict_digest` names which."""

    verdict_digest: str


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The newest proof of a branch: the next one has `sequence + 1` and names `digest` as its previous."""

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True)
class Proof:
    """One stored proof; `envelope` is the signed envelope, byte for byte."""

    id: str
    branch_id: str
    sequence: int
    previous: str | None
    digest: str
    envelope: bytes
    task_id: str
    publication_id: str
    intent_id: str
    created_at: int


def complete(ledger: Ledger, look: Look, outcome: Landed | Approved) -> None:
    """Complete the look's task by a verified landing (code) or an approved verdict (report), and close its publication.

    One transaction: the proof joins the branch's chain, its intent is done, the task is completed, a landing ahead of
    the first in the line is counted against it, and the next in the line is woken. Raises `Rejected(proof_refused)`
    when the proof is not about this publication and its open intent, or not the next of the chain;
    `Rejected(lease_stale)` when the look no longer counts; `InvariantBroken` for anything else than the two outcomes.
    Nothing is written then.
    """
    ensure(isinstance(outcome, Landed | Approved), "a task is completed by a landing or an approval, by nothing else")
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        match outcome:
            case Landed(proof=proof):
                facts = _land(tx, row, proof)
            case Approved(verdict_digest=digest):
                facts = _approve(tx, row, digest)
            case _:
                assert_never(outcome)
        if isinstance(outcome, Landed):
            line.passed_by(tx, row.branch_id, row.task_id)  # while the line is still the one it landed in
        tasks.move(tx, row.task_id, Event.COMPLETE, facts=facts, actor="hub")
        line.forget_kept(tx, row.task_id)
        how = "landed" if isinstance(outcome, Landed) else "approved"
        landing = LandingRecord.PROVEN if isinstance(outcome, Landed) else LandingRecord.NONE
        ended = Finish(Reason.PROOF_VERIFIED if isinstance(outcome, Landed) else Reason.REPORT_APPROVED)
        publication.write(
            tx,
            look,
            **publication.closing(tx, how),
            landing=landing.value,
            landing_facts=facts,
            decision=name(ended),
            reason=ended.reason.value,
            facts={},
            since=tx.now(),
        )
        publication.note(tx, look, how, from_state=row.state, to_state="closed", facts=facts)
        line.turn(tx, row.branch_id)
        publication.wake(tx, row.branch_id, all_in_line=True)


def chain_head(tx: Transaction, branch_id: str) -> ChainHead | None:
    """The newest proof of the branch, or None before the first."""
    query = select(proofs.c.sequence, proofs.c.digest).where(proofs.c.branch_id == branch_id)
    row = tx.connection.execute(query.order_by(proofs.c.sequence.desc()).limit(1)).one_or_none()
    return None if row is None else ChainHead(row.sequence, row.digest)


def proof_of(tx: Transaction, task_id: str) -> Proof:
    """The proof of the task. Raises `Rejected(proof_unknown)` while there is none."""
    row = tx.connection.execute(select(proofs).where(proofs.c.task_id == task_id)).one_or_none()
    if row is None:
        raise Rejected(Refusal.PROOF_UNKNOWN, {"task": task_id})
    return _proof(row)


def chain(tx: Transaction, branch_id: str, *, after: int = 0, limit: int = 200) -> list[Proof]:
    """The proofs of a branch in the order of their landing, from the one after `after` on."""
    query = select(proofs).where(proofs.c.branch_id == branch_id, proofs.c.sequence > after)
    rows = tx.connection.execute(query.order_by(proofs.c.sequence).limit(min(limit, tx.bounds.page_rows_max)))
    return [_proof(row) for row in rows]


def _proof(row: Row[Any]) -> Proof:
    return Proof(**{name: getattr(row, name) for name in proofs.c.keys()})  # noqa: SIM118 - a collection, no mapping


def _land(tx: Transaction, row: Row[Any], proof: VerifiedProof) -> dict[str, Json]:
    ensure(isinstance(proof, VerifiedProof), "a landing is completed by a verified proof")
    problem = _mismatch(tx, row, proof)
    if problem is not None:
        raise Rejected(Refusal.PROOF_REFUSED, {"step": "completion", "problem": problem})
    proof_id = tx.new_id("proof")
    tx.connection.execute(
        insert(proofs).values(
            id=proof_id,
            branch_id=row.branch_id,
            sequence=proof.sequence,
            previous=proof.previous,
            digest=proof.digest,
            envelope=proof.envelope,
            task_id=row.task_id,
            publication_id=row.id,
            intent_id=proof.intent,
            created_at=tx.now(),
        )
    )
    ensure(intents.settle(tx, proof.intent, "done", None), "the open intent was there a moment ago")
    return {"proof": proof_id, "digest": proof.digest, "sequence": proof.sequence, "intent": proof.intent}


def _mismatch(tx: Transaction, row: Row[Any], proof: VerifiedProof) -> str | None:
    intent = intents.open_intent(tx, row.branch_id)
    head = chain_head(tx, row.branch_id)
    due = (1, None) if head is None else (head.sequence + 1, head.digest)
    checks = (
        (proof.branch != row.branch_id, "it is about another branch"),
        (proof.task != row.task_id, "it is about another task"),
        (proof.publication != row.id, "it is about another publication"),
        (intent is None or intent.publication_id != row.id, "the publication has no open intent"),
        (intent is not None and intent.id != proof.intent, "it is about another intent"),
        (intent is not None and intent.kind is not intents.IntentKind.LAND, "the open intent is no landing"),
        ((proof.sequence, proof.previous) != due, "it is not the next of the branch's chain"),
    )
    return next((sentence for failed, sentence in checks if failed), None)


def _approve(tx: Transaction, row: Row[Any], verdict_digest: str) -> dict[str, Json]:
    task = tasks.locked(tx, row.task_id)
    if task.deliverable is not Deliverable.REPORT:
        raise Rejected(Refusal.FORCE_COMPLETE_REFUSED)
    newest = select(verdicts).where(verdicts.c.evidence_id == row.evidence_id)
    verdict = tx.connection.execute(newest.order_by(verdicts.c.number.desc()).limit(1)).one_or_none()
    approved = verdict is not None and verdict.result == VerdictResult.APPROVED and verdict.digest == verdict_digest
    if not approved:
        raise Rejected(Refusal.PROOF_REFUSED, {"step": "completion", "problem": "the verdict is not an approval"})
    digest = tx.connection.execute(select(evidence.c.digest).where(evidence.c.id == row.evidence_id)).scalar_one()
    return {"verdict": verdict_digest, "evidence": str(digest)}
