"""What operators order: stop, start, hold, release, cancel, retry, wave. Each is written with its history row, which keeps
the operator's reason, and rings."""

from sqlalchemy import select, update

from ledger import history, line, publication, review, tasks
from ledger.session import Transaction
from ledger.tables import attempts, intents, publications, verdicts
from ledger.tables import evidence as evidences
from ledger.tasks import Task
from pipeline.canonical import Json
from pipeline.errors import Rejected
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import TERMINAL, Event, State


def stop(tx: Transaction, task_id: str, *, why: str = "", actor: str) -> Task:
    """Ask for the task to stop. An open one is stopped at once; a claimed one when its executor obeys or its lease
    ends; one under review or landing at its next look, after an open intent is settled. Asking again changes nothing.
    Raises `Rejected(transition_unknown)` for a task that is over."""
    publication.lock_branch_of_task(tx, task_id)
    task = tasks.locked(tx, task_id)
    _not_over(task, Event.STOP)
    if task.stop_requested_at is not None or task.state is State.STOPPED:
        return task
    tasks.change(tx, task_id, stop_requested_at=tx.now())
    _note(tx, task_id, "stop_requested", actor, why)
    if task.state is State.OPEN:
        tasks.move(tx, task_id, Event.STOP, reason=Reason.STOPPED, actor=actor)
    _look_again(tx, task_id)
    return tasks.locked(tx, task_id)


def start(tx: Transaction, task_id: str, *, why: str = "", actor: str) -> Task:
    """Offer a stopped task again, with one more attempt if none is left. Raises `Rejected(transition_unknown)` for one
    that is not stopped."""
    task = tasks.locked(tx, task_id)
    changes = {"stop_requested_at": None, "not_before": tx.now()}
    tasks.move(tx, task_id, Event.START, actor=actor, facts=_because(why), changes=changes)
    if task.attempts_left <= 0:
        _one_more(tx, task_id, "operator_start")
    return tasks.locked(tx, task_id)


def hold(tx: Transaction, task_id: str, held: bool, *, why: str = "", actor: str) -> Task:
    """Keep the task from being leased and landed, or let it go on. Raises `Rejected(transition_unknown)` when it is
    over."""
    publication.lock_branch_of_task(tx, task_id)
    task = tasks.locked(tx, task_id)
    _not_over(task, Event.STOP)
    if task.held != held:
        tasks.change(tx, task_id, held=held)
        _note(tx, task_id, "held" if held else "hold_released", actor, why)
        _look_again(tx, task_id)
    return tasks.locked(tx, task_id)


def cancel(tx: Transaction, task_id: str, *, why: str = "", actor: str) -> Task:
    """Give the task up for good. Raises `Rejected(intent_not_admitted)` while an intent is open on it: what is being
    landed is settled first; `Rejected(transition_unknown)` when it is over."""
    publication.lock_branch_of_task(tx, task_id)
    _no_intent(tx, task_id)
    tasks.move(tx, task_id, Event.CANCEL, actor=actor, facts=_because(why))
    line.forget_kept(tx, task_id)
    _look_again(tx, task_id)
    return tasks.locked(tx, task_id)


def retry(tx: Transaction, task_id: str, *, why: str, actor: str) -> Task:
    """Open a blocked task again, with one more attempt; its publication is closed and kept. Raises
    `Rejected(transition_unknown)` for one that is not blocked, `Rejected(intent_not_admitted)` while an intent is
    open."""
    publication.lock_branch_of_task(tx, task_id)
    row = _live(tx, task_id)
    _no_intent(tx, task_id)
    if row is not None and publication.landing_recorded(tx, row):
        raise Rejected(Refusal.INTENT_NOT_ADMITTED, {"problem": "a landing of this task is recorded"})
    facts: dict[str, Json] = {"why": why, "publication": row}
    tasks.move(tx, task_id, Event.RETRY, actor=actor, facts=facts, changes={"not_before": tx.now(), "directive": None})
    _one_more(tx, task_id, "operator_retry")
    if row is not None:
        change = update(publications).where(publications.c.id == row)
        tx.connection.execute(change.values(**publication.closing(tx, "retried")))
    line.forget_kept(tx, task_id)
    return tasks.locked(tx, task_id)


def _one_more(tx: Transaction, task_id: str, reason: str) -> None:
    newest = select(attempts.c.id).where(attempts.c.task_id == task_id).order_by(attempts.c.number.desc()).limit(1)
    attempt_id = tx.connection.execute(newest).scalar_one_or_none()
    if attempt_id is not None:
        tasks.credit(tx, task_id, attempt_id, reason)


def wave(tx: Transaction, task_id: str, *, evidence: str, why: str, actor: str) -> Task:
    """Let through what the review asks a person for, on the evidence of that digest and on no other. Raises
    `Rejected(evidence_moved_on)` when it is no longer the one under review, `Rejected(nothing_to_wave)` when no person is
    asked for."""
    publication.lock_branch_of_task(tx, task_id)
    tasks.locked(tx, task_id)
    reviewed = publications.join(evidences, evidences.c.id == publications.c.evidence_id)
    c = publications.c
    query = select(c.id, c.evidence_id, c.person_waved, evidences.c.digest).select_from(reviewed)
    row = tx.connection.execute(query.where(c.task_id == task_id, c.state != "closed")).one_or_none()
    if row is None or row.digest != evidence:
        found = "nothing of it is under review" if row is None else f"{row.digest[:12]} is under review"
        raise Rejected(Refusal.EVIDENCE_MOVED_ON, {"problem": found})
    newest = select(verdicts.c.person_needed).where(verdicts.c.evidence_id == row.evidence_id)
    asks = tx.connection.execute(newest.order_by(verdicts.c.number.desc()).limit(1)).scalar_one_or_none()
    if not asks or row.person_waved:
        raise Rejected(Refusal.NOTHING_TO_WAVE, {"task": task_id})
    review.wave_through(tx, row.id, why=why, actor=actor)
    return tasks.locked(tx, task_id)


def _not_over(task: Task, event: Event) -> None:
    if task.state in TERMINAL:
        raise Rejected(Refusal.TRANSITION_UNKNOWN, {"state": task.state.value, "event": event.value})


def _live(tx: Transaction, task_id: str) -> str | None:
    c = publications.c
    return tx.connection.execute(select(c.id).where(c.task_id == task_id, c.state != "closed")).scalar_one_or_none()


def _no_intent(tx: Transaction, task_id: str) -> None:
    c = intents.c
    if tx.connection.execute(select(c.id).where(c.task_id == task_id, c.state == "open")).one_or_none() is not None:
        raise Rejected(Refusal.INTENT_NOT_ADMITTED, {"problem": "an intent of this task is not settled yet"})


def _look_again(tx: Transaction, task_id: str) -> None:
    c = publications.c
    live = update(publications).where(c.task_id == task_id, c.state != "closed")
    tx.connection.execute(live.values(next_look_at=tx.now(), fresh=True))
    branch_id = tx.connection.execute(select(c.branch_id).where(c.task_id == task_id).limit(1)).scalar_one_or_none()
    if branch_id is not None:
        publication.raise_generation(tx, branch_id)
        tx.ring(branch_id)


def _note(tx: Transaction, task_id: str, event: str, actor: str, why: str) -> None:
    facts = _because(why)
    history.write(tx, subject="task", subject_id=task_id, task=task_id, event=event, facts=facts, actor=actor)


def _because(why: str) -> dict[str, Json]:
    return {"why": why} if why else {}
