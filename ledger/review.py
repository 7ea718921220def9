"""What a look wrote down besides its decision: the verdict, the pushed head, the pull request, a person's word."""

from typing import Any

from sqlalchemy import Row, func, insert, select
from sqlalchemy.exc import IntegrityError

from ledger import line, publication, tasks
from ledger.publication import Look
from ledger.session import Ledger, Transaction
from ledger.tables import attempts, publications, verdicts
from ledger.tasks import Task
from pipeline.canonical import Json, digest
from pipeline.errors import Rejected
from pipeline.facts import Deliverable, VerdictResult
from pipeline.refusals import Refusal
from pipeline.states import Event, State
from pipeline.verdicts import Verdict

ACTOR = "hub"


def record_verdict(
    ledger: Ledger, look: Look, verdict: Verdict, contract_digest: str, *, verifier_green: bool = False
) -> str:
    """Store the verdict on the look's evidence, and look again at once; the verdict's id.

    An approved change goes on to its landing and gets its place in the line, the one that the task had before if it had
    one. `verifier_green`: every contract command has a recorded run that passed at exactly the evidence's head. Raises
    `Rejected(lease_stale)` when the look no longer counts.
    """
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        task = tasks.locked(tx, row.task_id)
        verdict_id = _insert(tx, row, verdict, contract_digest, verifier_green=verifier_green)
        values = publication.again_now(tx)
        if verdict.result is VerdictResult.APPROVED and task.deliverable is Deliverable.CODE:
            values |= _approve(tx, task, waits_for_person=bool(_persons(verdict)))
        publication.write(tx, look, **values)
        facts: dict[str, Json] = {"verdict": verdict_id, "digest": verdict.digest, "contract": contract_digest}
        publication.note(tx, look, f"verdict_{verdict.result.value}", facts=facts)
        line.turn(tx, row.branch_id)
        return verdict_id


def record_push(ledger: Ledger, look: Look, head: str) -> None:
    """The hub pushed `head` to the task's branch, as was read back. Looks again at once. Raises
    `Rejected(lease_stale)`."""
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        tasks.change(tx, row.task_id, pushed_head=head)
        publication.write(tx, look, **publication.again_now(tx))
        publication.note(tx, look, "head_pushed", facts={"head": head})


def record_pull_request(ledger: Ledger, look: Look, number: int, url: str) -> None:
    """The pull request of the task. Raises `Rejected(field_invalid)` when it is another task's, `Rejected(lease_stale)`
    when the look no longer counts; then nothing was written."""
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        try:
            tasks.change(tx, row.task_id, pull_request=number, pull_request_url=url)
        except IntegrityError as taken:
            problem = f"#{number} is the pull request of another task"
            raise Rejected(Refusal.FIELD_INVALID, {"field": "pull_request", "problem": problem}) from taken
        publication.write(tx, look, **publication.again_now(tx))
        publication.note(tx, look, "pull_request_opened", facts={"number": number, "url": url})


def wave_through(tx: Transaction, publication_id: str, *, why: str = "", actor: str) -> None:
    """A person looked at what the verdict asks a person for, on this very evidence, and lets it pass."""
    row = tx.connection.execute(select(publications).where(publications.c.id == publication_id)).one_or_none()
    if row is None or row.state == "closed":
        raise Rejected(Refusal.FIELD_INVALID, {"field": "publication", "problem": "there is none that waits"})
    publication.lock_branch(tx, row.branch_id)
    change = publications.update().where(publications.c.id == publication_id)
    tx.connection.execute(change.values(person_waved=True, next_look_at=tx.now(), fresh=True))
    publication.raise_generation(tx, row.branch_id)
    tx.ring(row.branch_id)
    look = Look(row.id, row.task_id, row.branch_id, actor, row.look_token, 0, 0)
    publication.note(tx, look, "person_waved", facts={"by": actor} | ({"why": why} if why else {}))


def _insert(tx: Transaction, row: Row[Any], verdict: Verdict, contract_digest: str, *, verifier_green: bool) -> str:
    verdict_id = tx.new_id("verdict")
    worker_id = tx.connection.execute(select(attempts.c.worker_id).where(attempts.c.id == row.attempt_id)).scalar_one()
    made = select(func.count()).where(verdicts.c.evidence_id == row.evidence_id)
    rejecting = sorted([f.code, f.path or ""] for f in verdict.findings if f.weight == "reject")
    findings_digest = digest(rejecting)
    tx.connection.execute(
        insert(verdicts).values(
            id=verdict_id,
            task_id=row.task_id,
            publication_id=row.id,
            evidence_id=row.evidence_id,
            number=tx.connection.execute(made).scalar_one() + 1,
            worker_id=worker_id,
            result=verdict.result.value,
            contract_digest=contract_digest,
            digest=verdict.digest,
            document=verdict.document(),
            person_needed=_persons(verdict),
            verifier_green=verifier_green,
            findings_digest=findings_digest,
            deterministic=_reached_alike(tx, row, verdict, findings_digest, worker_id),
            created_at=tx.now(),
        )
    )
    return verdict_id


def _reached_alike(tx: Transaction, row: Row[Any], verdict: Verdict, findings_digest: str, worker_id: str) -> bool:
    """Whether another worker's attempt at this task was rejected for just the same."""
    if verdict.result is not VerdictResult.REJECTED:
        return False
    c = verdicts.c
    others = select(func.count()).where(
        c.task_id == row.task_id,
        c.findings_digest == findings_digest,
        c.result == VerdictResult.REJECTED.value,
        c.worker_id != worker_id,
    )
    return bool(tx.connection.execute(others).scalar_one())


def _persons(verdict: Verdict) -> list[str]:
    return sorted({finding.code for finding in verdict.findings if finding.weight == "person"})


def _approve(tx: Transaction, task: Task, *, waits_for_person: bool) -> dict[str, Any]:
    place = {
        "line_priority": task.priority if task.line_priority is None else task.line_priority,
        "line_at": tx.now() if task.line_at is None else task.line_at,
    }
    if task.state is State.REVIEWING:
        tasks.move(tx, task.id, Event.APPROVE, actor=ACTOR, changes=place)
    else:
        tasks.change(tx, task.id, **place)
    line.forget_kept(tx, task.id)
    return place | {"in_line": not waits_for_person and task.state is not State.BLOCKED}
