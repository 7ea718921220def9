"""Evidence: the immutable record of an attempt, taken in together with everything that follows from it, or not at all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from ledger import history, leases, publication, tasks
from ledger.bundles import bundle_header
from ledger.leases import Held
from ledger.session import Ledger, Transaction
from ledger.tables import bundles, evidence
from ledger.tasks import Task
from pipeline.canonical import Json, canonical_bytes, digest_bytes
from pipeline.errors import InvariantBroken, Rejected
from pipeline.facts import EVIDENCE_FOR, EvidenceKind
from pipeline.refusals import Refusal
from pipeline.states import Event

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


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
    bundle_header(content)
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
    reviewed, its publication begins (one for each attempt), and the branch's bell is rung afterwards. Raises
    `Rejected` by name for a lease that is not good, evidence of another kind than the task asks for, a head that is not in
    the bundle, and evidence that is malformed or too large; then no row was written.
    """
    content = _canonical(document, ledger.bounds.request_body_bytes_max)
    with ledger.write() as tx:
        mine = leases.held(tx, lease_id, token, worker_id)
        task = tasks.locked(tx, mine.task_id)
        kind = _kind_for(task, document)
        bundle_id = _check_change(tx, mine, document) if kind is EvidenceKind.REPOSITORY_CHANGE else None
        evidence_id, digest = tx.new_id("ev"), digest_bytes(content)
        is_change = kind is EvidenceKind.REPOSITORY_CHANGE
        shas = {name: str(document[name]) if is_change else None for name in ("head", "tree", "verified_base")}
        tx.connection.execute(
            insert(evidence).values(
                id=evidence_id,
                task_id=task.id,
                attempt_id=mine.attempt_id,
                kind=kind.value,
                digest=digest,
                document=dict(document),
                bundle_id=bundle_id,
                created_at=tx.now(),
                **shas,
            )
        )
        leases.end(tx, mine, ending="submitted")
        facts: dict[str, Json] = {"evidence": evidence_id, "digest": digest, "attempt": mine.attempt_id}
        tasks.move(tx, task.id, Event.SUBMIT, facts=facts, changes={"directive": None}, actor=f"worker {worker_id}")
        publication_id = publication.begin(tx, task, mine.attempt_id, evidence_id, head=shas["head"])
        _note(tx, task.id, evidence_id, facts, worker_id)
        return Submitted(evidence_id, digest, publication_id, task.id)


def _canonical(document: Mapping[str, Json], limit: int) -> bytes:
    try:
        content = canonical_bytes(document)
    except InvariantBroken as problem:
        raise _invalid("document", str(problem)) from problem
    if len(content) > limit:
        raise Rejected(Refusal.EVIDENCE_TOO_LARGE, {"limit": limit})
    return content


def _kind_for(task: Task, document: Mapping[str, Json]) -> EvidenceKind:
    given = document.get("kind")
    if given not in {kind.value for kind in EvidenceKind}:
        raise _invalid("kind", "it is none that the hub knows")
    kind = EvidenceKind(given)
    if EVIDENCE_FOR[task.deliverable] is not kind:
        raise Rejected(Refusal.DELIVERABLE_MISMATCH, {"deliverable": task.deliverable.value, "kind": kind.value})
    return kind


def _check_change(tx: Transaction, mine: Held, document: Mapping[str, Json]) -> str | None:
    for field in ("head", "tree", "verified_base"):
        value = document.get(field)
        if not (isinstance(value, str) and _SHA.fullmatch(value)):
            raise _invalid(field, "it is not a whole object name")
    named, ref = document.get("bundle"), document.get("ref")
    if named is None and isinstance(ref, str) and ref.startswith("refs/heads/"):
        return None
    row = tx.connection.execute(select(bundles).where(bundles.c.lease_id == mine.lease_id)).one_or_none()
    if row is None or row.sha256 != named:
        raise Rejected(Refusal.BUNDLE_MISSING)
    head = document["head"]
    if head not in bundle_header(bytes(row.content)).heads.values():
        raise Rejected(Refusal.HEAD_NOT_IN_BUNDLE, {"head": str(head)})
    return str(row.id)


def _invalid(field: str, problem: str) -> Rejected:
    return Rejected(Refusal.EVIDENCE_INVALID, {"field": field, "problem": problem})


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
