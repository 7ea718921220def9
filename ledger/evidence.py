"""Evidence: the immutable record of an attempt, taken in together with everything that follows from it, or not at
all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from ledger import history, leases, publication, tasks
from ledger.leases import Held
from ledger.session import Ledger, Transaction
from ledger.tables import bundles, evidence
from ledger.tasks import Task
from pipeline.bundle import header
from pipeline.canonical import Json, canonical_bytes, digest_bytes
from pipeline.errors import InvariantBroken, Rejected
from pipeline.evidence import EvidenceValue, RepositoryChange, invalid, parse, tokens_used
from pipeline.facts import EVIDENCE_FOR, EvidenceKind
from pipeline.refusals import Refusal
from pipeline.states import Event


@dataclass(frozen=True, slots=True)
class Stored:
    """A bundle in the ledger; evidence names it by its digest."""

    bundle_id: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """What an evidence became."""

    evidence_id: str
    digest: str
    publication_id: str
    task_id: str


def store_bundle(ledger: Ledger, lease_id: str, token: int, worker_id: str, content: bytes) -> Stored:
    """Keep the bundle that an executor hands in under its lease; a later one under the same lease replaces it.

    Raises `Rejected(bundle_too_large|bundle_invalid)`, or one of a lease's refusals; then nothing was kept.
    """
    limit = ledger.bounds.bundle_bytes_max
    if len(content) > limit:
        raise Rejected(Refusal.BUNDLE_TOO_LARGE, {"limit": limit})
    header(content)
    sha256 = digest_bytes(content)
    with ledger.write() as tx:
        mine = leases.held(tx, lease_id, token, worker_id)
        tx.connection.execute(delete(bundles).where(bundles.c.lease_id == mine.lease_id))
        stored = Stored(tx.new_id("bundle"), sha256, len(content))
        tx.connection.execute(
            insert(bundles).values(
                id=stored.bundle_id,
                lease_id=mine.lease_id,
                sha256=sha256,
                size_bytes=len(content),
                content=content,
                created_at=tx.now(),
            )
        )
        return stored


def read_bundle(tx: Transaction, bundle_id: str) -> bytes:
    """The bytes of a bundle, whose digest is checked again. Raises `Rejected(bundle_missing)`."""
    row = tx.connection.execute(select(bundles).where(bundles.c.id == bundle_id)).one_or_none()
    if row is None:
        raise Rejected(Refusal.BUNDLE_MISSING)
    content = bytes(row.content)
    if digest_bytes(content) != row.sha256:
        raise InvariantBroken(f"the bundle {bundle_id} is not what was handed in")
    return content


def submit(ledger: Ledger, lease_id: str, token: int, worker_id: str, document: Mapping[str, Json]) -> Submitted:
    """Take in the evidence of the attempt that this lease stands for.

    In one transaction: the evidence is stored under the digest of its canonical JSON, the lease ends, the task is
    reviewed, its publication begins (one for each attempt), the tokens it used are added to the task's sum, and the
    branch's bell is rung afterwards. Raises
    `Rejected` by name for a lease that is not good, evidence of another kind than the task asks for, a head that is
    not in the bundle, and evidence that is malformed or too large; then no row was written.
    """
    with ledger.write() as tx:
        return submit_in(tx, lease_id, token, worker_id, document)


def submit_in(tx: Transaction, lease_id: str, token: int, worker_id: str, document: Mapping[str, Json]) -> Submitted:
    """The same inside a transaction of the caller's; what it raises must end that transaction."""
    value, tokens = _read(document, tx.bounds.request_body_bytes_max), tokens_used(document)
    publication.lock_branch_of_task(tx, leases.task_of(tx, lease_id))
    mine = leases.held(tx, lease_id, token, worker_id)
    task = tasks.locked(tx, mine.task_id)
    kind = _fits(task, value)
    change = value if isinstance(value, RepositoryChange) else None
    bundle_id = None if change is None else _bundle_of(tx, mine, change, document.get("bundle"))
    evidence_id, head = tx.new_id("ev"), None if change is None else change.head
    tx.connection.execute(
        insert(evidence).values(
            id=evidence_id,
            task_id=task.id,
            attempt_id=mine.attempt_id,
            number=task.attempts,
            kind=kind.value,
            digest=value.digest,
            document=dict(document),
            bundle_id=bundle_id,
            created_at=tx.now(),
            head=head,
            tree=None if change is None else change.tree,
            verified_base=None if change is None else change.verified_base,
        )
    )
    leases.end(tx, mine, ending="submitted")
    leases.spend(tx, mine, tokens)
    facts: dict[str, Json] = {"evidence": evidence_id, "digest": value.digest, "attempt": mine.attempt_id}
    tasks.move(tx, task.id, Event.SUBMIT, facts=facts, changes={"directive": None}, actor=f"worker {worker_id}")
    publication_id = publication.begin(tx, task, mine.attempt_id, evidence_id, head=head)
    _note(tx, task.id, evidence_id, facts, worker_id)
    return Submitted(evidence_id, value.digest, publication_id, task.id)


def _read(document: Mapping[str, Json], limit: int) -> EvidenceValue:
    try:
        size = len(canonical_bytes(document))
    except InvariantBroken as problem:
        raise invalid("document", str(problem)) from problem
    if size > limit:
        raise Rejected(Refusal.EVIDENCE_TOO_LARGE, {"limit": limit})
    return parse(document)


def _fits(task: Task, value: EvidenceValue) -> EvidenceKind:
    is_change = isinstance(value, RepositoryChange)
    kind = EvidenceKind.REPOSITORY_CHANGE if is_change else EvidenceKind.OPERATOR_RESULT
    if EVIDENCE_FOR[task.deliverable] is not kind:
        raise Rejected(Refusal.DELIVERABLE_MISMATCH, {"deliverable": task.deliverable.value, "kind": kind.value})
    return kind


def _bundle_of(tx: Transaction, mine: Held, change: RepositoryChange, named: Json) -> str | None:
    """The bundle that carries the head; None where the executor pushed the head itself and names the ref."""
    if named is None and change.ref is not None:
        return None
    row = tx.connection.execute(select(bundles).where(bundles.c.lease_id == mine.lease_id)).one_or_none()
    if row is None or row.sha256 != named:
        raise Rejected(Refusal.BUNDLE_MISSING)
    if change.head not in {sha for _, sha in header(bytes(row.content)).tips}:
        raise Rejected(Refusal.HEAD_NOT_IN_BUNDLE, {"head": change.head})
    return str(row.id)


def _note(tx: Transaction, task_id: str, evidence_id: str, facts: Mapping[str, Any], worker_id: str) -> None:
    history.write(
        tx,
        subject="evidence",
        subject_id=evidence_id,
        task=task_id,
        event="evidence_taken",
        facts=facts,
        actor=f"worker {worker_id}",
    )
