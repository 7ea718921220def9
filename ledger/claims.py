"""The claim's side of the ledger: which tasks a worker may be offered, and why a task is offered to nobody.

The statement finds candidates by index; whether one may be leased is decided by `pipeline.claim.failing`, which also
answers why not. A test holds the two together, so that the statement never hides what the function would admit.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, or_, select

from ledger import tasks
from ledger.session import Transaction
from ledger.tables import intents, projects, proofs
from ledger.tables import tasks as tasks_table
from pipeline.claim import Claim, Claimant, Failing, failing
from pipeline.states import State

CANDIDATES = 5

_t = tasks_table.c
_LANDED = select(proofs.c.id).where(proofs.c.task_id == _t.id).exists()
_UNSETTLED = select(intents.c.id).where(intents.c.task_id == _t.id, intents.c.state == "open").exists()


def offered(tx: Transaction, claimant: Claimant) -> Iterator[str]:
    """The tasks that may be leased by the claimant, locked: by priority, then age. A few at most; locked rows of
    others are passed over."""
    now = tx.now()
    query = candidates(now, claimant).limit(CANDIDATES).with_for_update(of=tasks_table, skip_locked=True)
    for row in tx.connection.execute(query).all():
        if not failing(_claim(row), now, claimant):
            yield row.id


def candidates(now: int, claimant: Claimant) -> Select[Any]:
    """Every task that the claimant may lease, and nothing that an index could have left out."""
    kept = (_t.kept_for_worker_until > now) & _t.last_worker_id.is_not(None) & (_t.last_worker_id != claimant.worker)
    conditions: list[ColumnElement[bool]] = [
        _t.state == "open",
        _t.held == 0,
        _t.stop_requested_at.is_(None),
        projects.c.paused == 0,
        projects.c.state == "ready",
        _t.not_before <= now,
        _t.attempts < _t.max_attempts + _t.credits,
        or_(_t.token_budget.is_(None), _t.tokens < _t.token_budget),
        ~kept,
        ~_LANDED,
        ~_UNSETTLED,
    ]
    if claimant.projects is not None:
        conditions.append(_t.project_id.in_(sorted(claimant.projects)))
    return _facts().where(*conditions).order_by(_t.priority.desc(), _t.created_at, _t.id)


def why_not(tx: Transaction, task_id: str, claimant: Claimant | None = None) -> Sequence[Failing]:
    """Every condition that keeps the task from being leased; empty: the next worker that asks gets it, in its turn.
    Raises `Rejected(task_unknown)`."""
    found = tasks.get(tx, task_id)
    row = tx.connection.execute(_facts().where(_t.id == found.id)).one()
    return failing(_claim(row), tx.now(), claimant)


def _facts() -> Select[Any]:
    return select(
        tasks_table,
        projects.c.paused.label("project_paused"),
        projects.c.state.label("project_state"),
        _LANDED.label("landed"),
        _UNSETTLED.label("unsettled"),
    ).join(projects, projects.c.id == _t.project_id)


def _claim(row: Row[Any]) -> Claim:
    return Claim(
        state=State(row.state),
        held=row.held,
        stop_requested=row.stop_requested_at is not None,
        project=row.project_id,
        project_ready=row.project_state == "ready",
        project_paused=row.project_paused,
        attempts=row.attempts,
        attempts_allowed=row.max_attempts + row.credits,
        tokens=row.tokens,
        token_budget=row.token_budget,
        not_before=row.not_before,
        landed=bool(row.landed),
        intent_open=bool(row.unsettled),
        kept_for=row.last_worker_id,
        kept_until=row.kept_for_worker_until,
    )
