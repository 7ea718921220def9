"""Acceptance: an operator's word on the current evidence of the current attempt.

It is a fact of its own beside the review, the publication and the proof. It moves no task, waves nothing through and says
nothing of deployment; so nothing else in the ledger reads it but what shows it.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import func, insert, select

from ledger import history, publication, tasks
from ledger.session import Transaction
from ledger.tables import acceptances, attempts, evidence
from pipeline.errors import Rejected
from pipeline.outcome import Current, moved_on
from pipeline.refusals import Refusal


class Judgement(StrEnum):
    """What an operator can say."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


def judge(
    tx: Transaction, task_id: str, judgement: Judgement, *, evidence_digest: str, attempt_id: str, why: str, actor: str
) -> str:
    """Keep the word, and its id. It may be given before or after landing, and taken back by a later one.

    Raises `Rejected(evidence_moved_on)` unless the digest and the attempt are the current ones while the task's row is
    held; then nothing was written. The task itself stays as it is.
    """
    publication.lock_branch_of_task(tx, task_id)
    tasks.locked(tx, task_id)
    current = _current(tx, task_id)
    problem = moved_on(current, evidence=evidence_digest, attempt=attempt_id)
    if problem is not None:
        raise Rejected(Refusal.EVIDENCE_MOVED_ON, {"problem": problem})
    of_attempt = select(evidence.c.id).where(evidence.c.attempt_id == attempt_id)
    evidence_id = tx.connection.execute(of_attempt).scalar_one()
    acceptance_id = tx.new_id("acc")
    earlier = select(func.count()).where(acceptances.c.task_id == task_id)
    tx.connection.execute(
        insert(acceptances).values(
            id=acceptance_id,
            task_id=task_id,
            attempt_id=attempt_id,
            evidence_id=evidence_id,
            number=tx.connection.execute(earlier).scalar_one() + 1,
            decision=judgement.value,
            why=why,
            actor=actor,
            created_at=tx.now(),
        )
    )
    facts = {"evidence": evidence_id, "digest": evidence_digest, "attempt": attempt_id, "why": why}
    history.write(
        tx,
        subject="acceptance",
        subject_id=acceptance_id,
        task=task_id,
        event=judgement.value,
        facts=facts,
        actor=actor,
    )
    return acceptance_id


def shown(tx: Transaction, task_id: str) -> dict[str, Any] | None:
    """The newest word: `accepted` or `rejected` while what it is bound to is current, `moved_on` afterwards (`facts.was`
    then says what it was); None: nobody said anything."""
    c = acceptances.c
    newest = select(acceptances, evidence.c.digest).join(evidence, evidence.c.id == c.evidence_id)
    row = tx.connection.execute(newest.where(c.task_id == task_id).order_by(c.number.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    problem = moved_on(_current(tx, task_id), evidence=row.digest, attempt=row.attempt_id)
    facts = {"id": row.id, "was": row.decision, "digest": row.digest, "attempt": row.attempt_id, "why": row.why}
    facts |= {"by": row.actor, "moved_on": problem}
    return {"state": row.decision if problem is None else "moved_on", "facts": facts, "at": row.created_at}


def _current(tx: Transaction, task_id: str) -> Current | None:
    newest = select(evidence.c.digest, evidence.c.attempt_id).where(evidence.c.task_id == task_id)
    row = tx.connection.execute(newest.order_by(evidence.c.number.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    begun = select(attempts.c.id).where(attempts.c.task_id == task_id).order_by(attempts.c.number.desc()).limit(1)
    return Current(row.digest, row.attempt_id, tx.connection.execute(begun).scalar_one())
