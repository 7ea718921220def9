"""The dossier of one publication: everything that its snapshot needs from the ledger, read in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import LABEL_STYLE_TABLENAME_PLUS_COL, Row, select

from ledger import intents, line, proofs, tasks
from ledger.intents import Intent
from ledger.leases import ENVIRONMENT
from ledger.projects import Project
from ledger.projects import get as get_project
from ledger.proofs import ChainHead
from ledger.session import Ledger, Transaction
from ledger.tables import attempts, evidence, publications, update_commits, verdicts
from ledger.tables import intents as intents_table
from ledger.tasks import Task
from pipeline.errors import Rejected
from pipeline.facts import (
    EvidenceFacts,
    IntentFacts,
    LandingRecord,
    LineFacts,
    PublicationFacts,
    Repository,
    Sha,
    Suspicion,
    TaskFacts,
    VerdictFacts,
    VerdictResult,
)
from pipeline.intent import Update
from pipeline.landing import NEEDED_PERMISSIONS
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import State


@dataclass(frozen=True, slots=True)
class Dossier:
    """What the ledger holds on one publication. The values down to `earlier` go into the snapshot as they are; the rest
    are the identities and documents that observing and acting need. Without `head` (a report) there is nothing to
    land."""

    now: int
    task: TaskFacts
    publication: PublicationFacts
    evidence: EvidenceFacts
    verdict: VerdictFacts | None
    line: LineFacts
    intent: IntentFacts | None
    earlier: Suspicion | None
    repository: Repository
    project: Project
    whole_task: Task
    branch_id: str
    attempt_id: str
    attempt: int
    evidence_id: str
    evidence_document: Mapping[str, Any]
    bundle_id: str | None
    head: str | None
    updates: tuple[Update, ...]
    verdict_digest: str | None
    verdict_document: Mapping[str, Any] | None
    open_intent: Intent | None
    chain_head: ChainHead | None
    looks: int
    decision: str | None
    reason: str | None
    since: int


def dossier(ledger: Ledger, publication_id: str) -> Dossier:
    """The dossier, in a bounded number of statements whatever the length of history. Raises
    `Rejected(field_invalid)` when there is no such publication."""
    with ledger.read() as tx:
        row = _row(tx, publication_id)
        task = tasks.get(tx, row.publications_task_id)
        project = get_project(tx, row.publications_project_id)
        verdict = _verdict(tx, row.evidence_id)
        open_intent = intents.open_intent(tx, row.publications_branch_id)
        return Dossier(
            now=tx.now(),
            task=_task_facts(tx, task, project),
            publication=_publication_facts(tx, row, task),
            evidence=_evidence_facts(tx, row, verdict),
            verdict=None if verdict is None else _verdict_facts(row, verdict),
            line=line.facts_of(tx, _publication_row(tx, publication_id)),
            intent=None if open_intent is None else IntentFacts(open_intent.id, open_intent.publication_id),
            earlier=_suspicion(row),
            repository=_repository(project, task),
            project=project,
            whole_task=task,
            branch_id=row.publications_branch_id,
            attempt_id=row.attempts_id,
            attempt=row.attempts_number,
            evidence_id=row.evidence_id,
            evidence_document=row.evidence_document,
            bundle_id=row.evidence_bundle_id,
            head=row.publications_head,
            updates=_updates(tx, publication_id),
            verdict_digest=None if verdict is None else verdict.digest,
            verdict_document=None if verdict is None else verdict.document,
            open_intent=open_intent,
            chain_head=proofs.chain_head(tx, row.publications_branch_id),
            looks=row.publications_looks,
            decision=row.publications_decision,
            reason=row.publications_reason,
            since=row.publications_since,
        )


def _row(tx: Transaction, publication_id: str) -> Row[Any]:
    joined = (
        select(publications, evidence, attempts)
        .join(evidence, evidence.c.id == publications.c.evidence_id)
        .join(attempts, attempts.c.id == publications.c.attempt_id)
        .where(publications.c.id == publication_id)
        .set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL)
    )
    row = tx.connection.execute(joined).one_or_none()
    if row is None:
        raise Rejected(Refusal.FIELD_INVALID, {"field": "publication", "problem": "there is none of that id"})
    return row


def _publication_row(tx: Transaction, publication_id: str) -> Row[Any]:
    return tx.connection.execute(select(publications).where(publications.c.id == publication_id)).one()


def _task_facts(tx: Transaction, task: Task, project: Project) -> TaskFacts:
    return TaskFacts(
        id=task.id,
        state=task.state,
        deliverable=task.deliverable,
        attempts_left=task.attempts_left,
        sent_back=task.sent_back,
        environment_credits=tasks.credits_for(tx, task.id, ENVIRONMENT),
        stop_requested=task.stop_requested_at is not None,
        held=task.held,
        project_paused=project.paused,
    )


def _publication_facts(tx: Transaction, row: Row[Any], task: Task) -> PublicationFacts:
    return PublicationFacts(
        id=row.publications_id,
        landing=LandingRecord(row.publications_landing),
        refused_landings=row.publications_refused_landings,
        superseded=task.attempts > row.attempts_number,
        checks_since=row.publications_checks_since,
        pushed_head=task.pushed_head,
        blocked_for=task.reason if task.state is State.BLOCKED else None,
        blocked_sticky=row.publications_sticky,
        own_heads=_own_heads(tx, task.id),
    )


def _own_heads(tx: Transaction, task_id: str) -> frozenset[Sha]:
    """What the hub may have put on the task's branch: it pushes heads of evidence, and what an intent names."""
    handed_in = select(evidence.c.head).where(evidence.c.task_id == task_id, evidence.c.head.is_not(None))
    c = intents_table.c
    of_task = publications.c.task_id == task_id, c.publication_id == publications.c.id
    meant = select(c.document).where(*of_task, c.kind == intents.IntentKind.UPDATE.value)
    documents = tx.connection.execute(meant).scalars()
    made = [document["commit"] for document in documents if "commit" in document]
    return frozenset(str(head) for head in (*tx.connection.execute(handed_in).scalars(), *made))


def _evidence_facts(tx: Transaction, row: Row[Any], verdict: Row[Any] | None) -> EvidenceFacts:
    newest = select(evidence.c.id).where(evidence.c.task_id == row.publications_task_id)
    latest = tx.connection.execute(newest.order_by(evidence.c.number.desc()).limit(1))
    return EvidenceFacts(
        digest=row.evidence_digest,
        head=row.evidence_head or "",
        tree=row.evidence_tree or "",
        verified_base=row.evidence_verified_base or "",
        current=latest.scalar_one() == row.evidence_id,
        verifier_green=verdict is not None and verdict.verifier_green,
    )


def _verdict(tx: Transaction, evidence_id: str) -> Row[Any] | None:
    of_evidence = select(verdicts).where(verdicts.c.evidence_id == evidence_id)
    return tx.connection.execute(of_evidence.order_by(verdicts.c.number.desc()).limit(1)).one_or_none()


def _verdict_facts(row: Row[Any], verdict: Row[Any]) -> VerdictFacts:
    codes = {finding["code"] for finding in verdict.document["findings"]}
    return VerdictFacts(
        result=VerdictResult(verdict.result),
        contract_digest=verdict.contract_digest,
        person_needed=() if row.publications_person_waved else tuple(verdict.person_needed),
        deterministic=verdict.deterministic,
        contract_broken=Reason.CONTRACT_BROKEN.value in codes,
    )


def _suspicion(row: Row[Any]) -> Suspicion | None:
    if row.publications_suspicion_reason is None:
        return None
    return Suspicion(
        row.publications_suspicion_reason, row.publications_suspicion_fingerprint, row.publications_suspicion_at
    )


def _repository(project: Project, task: Task) -> Repository:
    return Repository(project.repository_id or 0, project.canonical_branch, task.head_branch, NEEDED_PERMISSIONS)


def _updates(tx: Transaction, publication_id: str) -> tuple[Update, ...]:
    c = update_commits.c
    rows = tx.connection.execute(select(update_commits).where(c.publication_id == publication_id).order_by(c.number))
    return tuple(Update(row.head, row.previous_head, row.tip, row.tree) for row in rows)
