"""Read models: what the ledger says to people, from stored facts only. Unknown is null, never false."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, select

from ledger import acceptance, claims, tasks
from ledger.session import Transaction
from ledger.tables import evidence, publications, verdicts
from ledger.tables import proofs as proofs_table
from pipeline.reasons import Reason
from pipeline.words import explain, would_change

Shown = dict[str, Any]


def why(tx: Transaction, task_id: str) -> Shown:
    """The stored decision on the task's newest publication: what, why, since when, until when, whose turn, and what
    would change it. All null while nothing was decided. Raises `Rejected(task_unknown)`."""
    task = tasks.get(tx, task_id)
    row = _newest_publication(tx, task.id)
    shown: Shown = {"task": task.id, "state": task.state.value, "publication": None if row is None else row.id}
    names = ("decision", "reason", "facts", "since", "next_look_at", "deadline", "owner")
    decided = row is not None and row.decision is not None
    shown |= {name: getattr(row, name) if decided else None for name in names}
    shown |= _said(shown["reason"], shown["facts"])
    if task.reason is not None and task.reason != shown["reason"]:
        shown["task_reason"] = {"code": task.reason, "facts": dict(task.reason_facts)}
    return shown


def why_unclaimed(tx: Transaction, task_id: str) -> Shown:
    """Every condition that keeps the task from being leased by whoever comes, each with what would change it; none:
    `claimable`. Raises `Rejected(task_unknown)`."""
    task = tasks.get(tx, task_id)
    found = claims.why_not(tx, task.id)
    conditions = [
        {
            "code": failing.code.value,
            "facts": dict(failing.facts),
            "sentence": failing.sentence,
            "would_change": failing.would_change,
        }
        for failing in found
    ]
    return {"task": task.id, "state": task.state.value, "claimable": not conditions, "conditions": conditions}


def outcome(tx: Transaction, task_id: str) -> Shown:
    """Five facts side by side, never merged into one: evidence, review, publication (with its proof), acceptance,
    deployment. Raises `Rejected(task_unknown)`."""
    task = tasks.get(tx, task_id)
    row = _newest_publication(tx, task.id)
    return {
        "task": task.id,
        "state": task.state.value,
        "evidence": _evidence(tx, task.id),
        "review": None if row is None else _review(tx, row.evidence_id),
        "publication": None if row is None else _publication(tx, row, pull_request=task.pull_request),
        "acceptance": acceptance.shown(tx, task.id),
        "deployment": None,
    }


def _said(reason: str | None, facts: Mapping[str, Any] | None) -> Shown:
    if reason is None:
        return {"sentence": None, "would_change": []}
    known = Reason(reason)
    return {"sentence": explain(known, facts or {}), "would_change": would_change(known)}


def _evidence(tx: Transaction, task_id: str) -> Shown | None:
    newest = select(evidence).where(evidence.c.task_id == task_id).order_by(evidence.c.number.desc()).limit(1)
    row = tx.connection.execute(newest).one_or_none()
    if row is None:
        return None
    facts = {"id": row.id, "kind": row.kind, "digest": row.digest, "head": row.head, "verified_base": row.verified_base}
    return {"state": "taken", "facts": facts | {"attempt": row.attempt_id}, "at": row.created_at}


def _review(tx: Transaction, evidence_id: str) -> Shown | None:
    newest = select(verdicts).where(verdicts.c.evidence_id == evidence_id).order_by(verdicts.c.number.desc())
    row = tx.connection.execute(newest.limit(1)).one_or_none()
    if row is None:
        return None
    facts = {"digest": row.digest, "contract": row.contract_digest, "findings": row.document["findings"]}
    return {"state": row.result, "facts": facts | {"person_needed": row.person_needed}, "at": row.created_at}


def _publication(tx: Transaction, row: Row[Any], *, pull_request: int | None) -> Shown:
    facts = {"id": row.id, "decision": row.decision, "reason": row.reason, "head": row.head}
    facts |= {"pull_request": pull_request, "landing": row.landing if row.landing != "none" else None}
    return {
        "state": row.closed_as if row.state == "closed" else row.state,
        "facts": facts | {"why": row.facts},
        "at": row.closed_at if row.state == "closed" else row.since,
        "proof": _proof(tx, row.id),
    }


def _proof(tx: Transaction, publication_id: str) -> Shown | None:
    found = select(proofs_table).where(proofs_table.c.publication_id == publication_id)
    row = tx.connection.execute(found).one_or_none()
    if row is None:
        return None
    facts = {"id": row.id, "digest": row.digest, "sequence": row.sequence, "previous": row.previous}
    return {"state": "verified", "facts": facts | {"intent": row.intent_id}, "at": row.created_at}


def _newest_publication(tx: Transaction, task_id: str) -> Row[Any] | None:
    newest = select(publications).where(publications.c.task_id == task_id).order_by(publications.c.number.desc())
    return tx.connection.execute(newest.limit(1)).one_or_none()
