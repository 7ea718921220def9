"""Tasks, and the only writer of their state."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Row, func, insert, select, update

from ledger import history
from ledger.pages import Page, page, resolve
from ledger.projects import Project
from ledger.session import Transaction
from ledger.tables import attempts, credited, leases, tasks
from ledger.upsert import insert_absent
from pipeline.canonical import Json
from pipeline.errors import FactValue, Rejected, ensure
from pipeline.facts import Deliverable
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import Event, State, after

PREFIX = "task_"


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of requested work, as the ledger holds it. `attempts` and `fence` never go down; `not_before` is the
    back-off; `kept_for_worker_until`: offered to its last worker first until then; `line_at`: its first approval;
    `tokens`: used by its attempts, by their executors' word; `token_budget` None: as many as it takes."""

    id: str
    project_id: str
    title: str
    body: str
    deliverable: Deliverable
    priority: int
    state: State
    reason: str | None
    reason_facts: Mapping[str, FactValue]
    max_attempts: int
    attempts: int
    credits: int
    sent_back: int
    held: bool
    stop_requested_at: int | None
    directive: Mapping[str, Any] | None
    not_before: int
    last_worker_id: str | None
    kept_for_worker_until: int
    fence: int
    head_branch: str
    pushed_head: str | None
    pull_request: int | None
    pull_request_url: str | None
    line_priority: int | None
    line_at: int | None
    created_at: int
    changed_at: int
    created_by: str
    tokens: int
    token_budget: int | None

    @property
    def attempts_left(self) -> int:
        """How many attempts may still be leased, credits counted."""
        return self.max_attempts + self.credits - self.attempts


def create(
    tx: Transaction,
    project: Project,
    *,
    title: str,
    body: str,
    deliverable: Deliverable,
    actor: str,
    priority: int = 0,
    max_attempts: int | None = None,
    token_budget: int | None = None,
) -> Task:
    """A new task, open. Raises `Rejected(project_not_ready)` until the project's repository was read."""
    if project.state != "ready":
        raise Rejected(
            Refusal.PROJECT_NOT_READY, {"project": project.name, "problem": project.refusal or project.state}
        )
    task_id, now = tx.new_id("task"), tx.now()
    tx.connection.execute(
        insert(tasks).values(
            id=task_id,
            project_id=project.id,
            title=title,
            body=body,
            deliverable=deliverable.value,
            priority=priority,
            state=State.OPEN.value,
            reason_facts={},
            max_attempts=max_attempts or tx.bounds.max_attempts,
            attempts=0,
            credits=0,
            sent_back=0,
            held=False,
            not_before=now,
            kept_for_worker_until=now,
            fence=0,
            head_branch=f"mac/{task_id.removeprefix(PREFIX)}",
            created_at=now,
            changed_at=now,
            created_by=actor,
            tokens=0,
            token_budget=token_budget,
        )
    )
    history.write(
        tx, subject="task", subject_id=task_id, task=task_id, event="created", to_state=State.OPEN.value, actor=actor
    )
    return get(tx, task_id)


def get(tx: Transaction, given: str) -> Task:
    """The task by its id or a unique prefix of it. Raises `Rejected(task_unknown)` or `Rejected(id_ambiguous)`."""
    unknown = Rejected(Refusal.TASK_UNKNOWN, {"task": given})
    task_id = resolve(tx, tasks, PREFIX, given, unknown)
    return _task(tx.connection.execute(select(tasks).where(tasks.c.id == task_id)).one())


def list_page(
    tx: Transaction,
    *,
    project_id: str | None = None,
    state: State | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Page[Task]:
    """Tasks, the oldest first, of one project or all, in one state or any."""
    query = select(tasks)
    if project_id is not None:
        query = query.where(tasks.c.project_id == project_id)
    if state is not None:
        query = query.where(tasks.c.state == state.value)
    return page(tx, tasks, query, _task, cursor=cursor, limit=limit)


def locked(tx: Transaction, task_id: str) -> Task:
    """The task by its whole id, locked until the transaction ends. Raises `Rejected(task_unknown)`."""
    row = tx.connection.execute(select(tasks).where(tasks.c.id == task_id).with_for_update()).one_or_none()
    if row is None:
        raise Rejected(Refusal.TASK_UNKNOWN, {"task": task_id})
    return _task(row)


def move(
    tx: Transaction,
    task_id: str,
    event: Event,
    *,
    actor: str,
    reason: Reason | None = None,
    facts: Mapping[str, Json] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> State:
    """Move the task as the table of transitions says, with its history row: the only place that writes a task's state.

    `changes` are further columns of the task, set by the same guarded statement. A task that is claimed no longer has
    no live lease: one that was not ended before is ended here. Raises `Rejected(transition_unknown)`;
    `InvariantBroken` for a block without a reason.
    """
    before = locked(tx, task_id).state
    behind = after(before, event)
    ensure(behind is not State.BLOCKED or reason is not None, "a task is not blocked without a reason")
    ensure(not {"state", "id"} & set(changes or ()), "a state is written by its event only")
    values: dict[str, Any] = {
        "reason": None if reason is None else reason.value,
        "reason_facts": dict(facts or {}),
        "changed_at": tx.now(),
    }
    guarded = update(tasks).where(tasks.c.id == task_id, tasks.c.state == before.value)
    done = tx.connection.execute(guarded.values(state=behind.value, **values, **(changes or {})))
    ensure(done.rowcount == 1, "a locked task kept its state")
    if before is State.CLAIMED:
        _end_lease(tx, task_id, ending=behind.value)
    history.write(
        tx,
        subject="task",
        subject_id=task_id,
        task=task_id,
        event=event.value,
        from_state=before.value,
        to_state=behind.value,
        reason=values["reason"],
        facts=facts,
        actor=actor,
    )
    return behind


def _end_lease(tx: Transaction, task_id: str, *, ending: str) -> None:
    live = update(leases).where(leases.c.task_id == task_id, leases.c.released_at.is_(None))
    ended = tx.connection.execute(live.values(released_at=tx.now()).returning(leases.c.attempt_id)).scalars().all()
    for attempt_id in ended:
        change_attempt = update(attempts).where(attempts.c.id == attempt_id)
        tx.connection.execute(change_attempt.values(ended_at=tx.now(), ending=ending))


def change(tx: Transaction, task_id: str, **values: Any) -> None:
    """Write columns that are not part of the task's state. Raises `InvariantBroken` when there is no such task."""
    ensure("state" not in values, "a state is written by its event only")
    done = tx.connection.execute(update(tasks).where(tasks.c.id == task_id).values(**values))
    ensure(done.rowcount == 1, f"there is a task {task_id}")


def credit(tx: Transaction, task_id: str, attempt_id: str, reason: str, *, at_most: int | None = None) -> bool:
    """Give one attempt back to the task, once for each attempt and reason, and at most `at_most` for that reason over
    the task's life. Whether it was given."""
    if at_most is not None and credits_for(tx, task_id, reason) >= at_most:
        return False
    row = {
        "id": tx.new_id("credit"),
        "task_id": task_id,
        "attempt_id": attempt_id,
        "reason": reason,
        "created_at": tx.now(),
    }
    if not insert_absent(tx, credited, row):
        return False
    change(tx, task_id, credits=tasks.c.credits + 1)
    return True


def credits_for(tx: Transaction, task_id: str, reason: str) -> int:
    """How often the task was credited for that reason."""
    query = select(func.count()).select_from(credited)
    return int(
        tx.connection.execute(query.where(credited.c.task_id == task_id, credited.c.reason == reason)).scalar_one()
    )


def _task(row: Row[Any]) -> Task:
    values = {field.name: getattr(row, field.name) for field in fields(Task)}
    values["state"] = State(values["state"])
    values["deliverable"] = Deliverable(values["deliverable"])
    return Task(**values)
