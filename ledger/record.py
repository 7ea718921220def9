"""Writing down what was decided, and the part of each decision that is the ledger's own: one transaction for one
decision."""

from collections.abc import Mapping
from typing import Any, assert_never

from sqlalchemy import Row, case, select

from ledger import leases, line, publication, tasks
from ledger.publication import Look
from ledger.session import Ledger, Transaction
from ledger.tables import attempts, branches, publications, verdicts
from ledger.tasks import Task
from pipeline.decisions import (
    Block,
    ConfirmLanding,
    Decision,
    Finish,
    Land,
    Nothing,
    Owner,
    Propose,
    Return,
    RunGate,
    SendBack,
    UpdateBranch,
    Wait,
    name,
)
from pipeline.errors import ensure
from pipeline.facts import VerdictResult
from pipeline.reasons import Reason
from pipeline.states import TERMINAL, Event, State

ACTOR = "hub"

# Waits that say nothing about whether the fact behind a block is gone: the task stays blocked.
_SAYS_NOTHING = frozenset(
    {
        Reason.UNKNOWN,
        Reason.UNCONFIRMED,
        Reason.RATE_LIMITED,
        Reason.PROJECT_PAUSED,
        Reason.HELD,
        Reason.INTENT_OPEN,
        Reason.INTENT_UNSETTLED,
        Reason.SLOT_TAKEN,
    }
)


def record(ledger: Ledger, look: Look, decision: Decision, *, next_look_at: int) -> int | None:
    """Write the decision down, with its effects inside the ledger; when the publication is looked at next (None:
    closed).

    A history row is written only when the decision or its reason changed, and `since` moves only then. If a fact
    arrived after the look began, the next look is now and not `next_look_at`. For a decision that acts on the remote,
    the look stays with its holder. Raises `Rejected(lease_stale)` when the look no longer counts; then nothing was
    written.
    """
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        task = tasks.locked(tx, row.task_id)
        values = _told(tx, row, decision) | _next(tx, look, decision, next_look_at) | _suspicion(tx, row, decision)
        values |= _own_part(tx, row, task, decision)
        publication.write(tx, look, **values)
        if (row.decision, row.reason) != (values["decision"], values["reason"]):
            _note(tx, look, row, values)
        line.turn(tx, row.branch_id)
        at = tx.connection.execute(select(publications.c.next_look_at).where(publications.c.id == row.id)).scalar_one()
        return None if at is None else int(at)


# --- what every decision writes


def _told(tx: Transaction, row: Row[Any], decision: Decision) -> dict[str, Any]:
    word, reason = name(decision), decision.reason.value
    same = (row.decision, row.reason) == (word, reason)
    since = row.since if same else tx.now()
    facts = row.facts if same and not decision.facts else dict(decision.facts)
    owner, deadline = Owner.HUB, None
    if isinstance(decision, Wait | Block):
        owner = decision.owner
    if isinstance(decision, Wait) and decision.deadline_ms is not None:
        deadline = since + decision.deadline_ms
    return {
        "decision": word,
        "reason": reason,
        "facts": facts,
        "since": since,
        "owner": owner.value,
        "deadline": deadline,
    }


def _next(tx: Transaction, look: Look, decision: Decision, next_look_at: int) -> dict[str, Any]:
    seen = select(branches.c.generation).where(branches.c.id == look.branch_id).scalar_subquery()
    values: dict[str, Any] = {"next_look_at": case((seen == look.generation, next_look_at), else_=tx.now())}
    if isinstance(decision, Wait | Block):
        values |= {"look_holder": None, "look_expires_at": None}
    return values


def _suspicion(tx: Transaction, row: Row[Any], decision: Decision) -> dict[str, Any]:
    if not isinstance(decision, Wait) or decision.fingerprint is None or decision.suspected is None:
        return {"suspicion_reason": None, "suspicion_fingerprint": None, "suspicion_at": None}
    suspected = decision.suspected.value
    if (row.suspicion_reason, row.suspicion_fingerprint) == (suspected, decision.fingerprint):
        return {}
    return {
        "suspicion_reason": suspected,
        "suspicion_fingerprint": decision.fingerprint,
        "suspicion_at": tx.now(),
    }


def _note(tx: Transaction, look: Look, row: Row[Any], values: Mapping[str, Any]) -> None:
    publication.note(
        tx,
        look,
        f"decided_{values['decision']}",
        from_state=row.state,
        to_state=values.get("state", row.state),
        reason=values["reason"],
        facts=values["facts"],
    )


# --- the ledger's own part of each decision


def _own_part(tx: Transaction, row: Row[Any], task: Task, decision: Decision) -> dict[str, Any]:
    match decision:
        case Block():
            return _block(tx, task, decision)
        case Wait():
            return _wait(tx, row, task, decision)
        case SendBack():
            return _send_back(tx, row, task, decision)
        case Return():
            return _return(tx, row, task, decision)
        case Nothing():
            return _nothing(tx, row, task, decision)
        case ConfirmLanding():
            return {}
        case Finish():
            return {}
        case Propose() | RunGate() | UpdateBranch() | Land():
            return _going_on(tx, row, task)
        case _:
            assert_never(decision)


def _block(tx: Transaction, task: Task, decision: Block) -> dict[str, Any]:
    facts = dict(decision.facts)
    if task.state is State.BLOCKED:
        if task.reason != decision.reason.value:
            tasks.change(tx, task.id, reason=decision.reason.value, reason_facts=facts)
    elif task.state not in TERMINAL and task.state is not State.STOPPED:
        tasks.move(tx, task.id, Event.BLOCK, reason=decision.reason, facts=facts, actor=ACTOR)
    line.forget_kept(tx, task.id)
    return {"state": "parked", "sticky": decision.sticky, "in_line": False, "checks_since": None}


def _wait(tx: Transaction, row: Row[Any], task: Task, decision: Wait) -> dict[str, Any]:
    if decision.reason in _SAYS_NOTHING:
        return {}
    values = _going_on(tx, row, task)
    if decision.owner is Owner.PERSON:
        values["in_line"] = False
    if decision.go_behind:
        values |= line.behind_all(tx, row.branch_id, row.line_priority or task.priority)
        values |= {"yielded": row.yielded + 1, "passed": 0, "checks_since": None}
        tasks.change(tx, task.id, line_priority=values["line_priority"], line_at=values["line_at"])
    elif decision.reason is not Reason.CHECKS_PENDING:
        values |= {"checks_since": None}
    elif row.checks_since is None or row.checks_head != row.head:
        values |= {"checks_since": tx.now(), "checks_head": row.head}
    return values


def _going_on(tx: Transaction, row: Row[Any], task: Task) -> dict[str, Any]:
    _unblock(tx, row, task)
    return {"state": "active", "sticky": False, "in_line": row.line_at is not None}


def _unblock(tx: Transaction, row: Row[Any], task: Task) -> None:
    if task.state is State.BLOCKED:
        event = Event.UNBLOCK_REVIEW if row.line_at is None else Event.UNBLOCK_LANDING
        tasks.move(tx, task.id, event, actor=ACTOR, facts={"was": task.reason})


def _send_back(tx: Transaction, row: Row[Any], task: Task, decision: SendBack) -> dict[str, Any]:
    _no_open_intent(tx, row)
    _unblock(tx, row, task)
    now = tx.now()
    tasks.credit(tx, task.id, row.attempt_id, f"sent_back_{task.sent_back + 1}")
    changes = _offered_again(tx, row, directive=decision.directive, facts=dict(decision.facts))
    changes |= {"sent_back": task.sent_back + 1, "not_before": now}
    tasks.move(
        tx, task.id, Event.SEND_BACK, reason=decision.reason, facts=dict(decision.facts), changes=changes, actor=ACTOR
    )
    kept_until = now + tx.bounds.task_lease_ms if row.in_line else None
    return publication.closing(tx, "sent_back") | {"kept_until": kept_until}


def _return(tx: Transaction, row: Row[Any], task: Task, decision: Return) -> dict[str, Any]:
    _no_open_intent(tx, row)
    _unblock(tx, row, task)
    verdict = tx.connection.execute(
        select(verdicts).where(verdicts.c.evidence_id == row.evidence_id).order_by(verdicts.c.number.desc()).limit(1)
    ).one_or_none()
    findings = [] if verdict is None else verdict.document["findings"]
    environment = verdict is not None and verdict.result == VerdictResult.ENVIRONMENT
    if environment:
        most = tx.bounds.environment_credits_max
        tasks.credit(tx, task.id, row.attempt_id, leases.ENVIRONMENT, at_most=most)
    left = tasks.locked(tx, task.id).attempts_left
    wait_ms = (
        leases.back_off_ms(task.attempts, tx.bounds.backoff_min_ms, tx.bounds.backoff_max_ms) if environment else 0
    )
    changes = _offered_again(tx, row, directive="findings", facts={**decision.facts, "findings": findings})
    changes |= {"not_before": tx.now() + wait_ms}
    event = Event.RETURN if left > 0 else Event.EXHAUST
    facts = {**decision.facts, "attempts_left": left}
    tasks.move(tx, task.id, event, reason=decision.reason, facts=facts, changes=changes, actor=ACTOR)
    return publication.closing(tx, "returned")


def _nothing(tx: Transaction, row: Row[Any], task: Task, decision: Nothing) -> dict[str, Any]:
    _no_open_intent(tx, row)
    if decision.reason is Reason.STOPPED and task.state is not State.STOPPED:
        tasks.move(tx, task.id, Event.STOP, reason=Reason.STOPPED, actor=ACTOR)
    if decision.reason is not Reason.SUPERSEDED:
        line.forget_kept(tx, task.id)
    return publication.closing(tx, decision.reason.value)


def _offered_again(tx: Transaction, row: Row[Any], *, directive: str, facts: dict[str, Any]) -> dict[str, Any]:
    worker_id = tx.connection.execute(select(attempts.c.worker_id).where(attempts.c.id == row.attempt_id)).scalar_one()
    return {
        "directive": {"code": directive, "facts": facts},
        "last_worker_id": worker_id,
        "kept_for_worker_until": tx.now() + tx.bounds.returned_first_ms,
    }


def _no_open_intent(tx: Transaction, row: Row[Any]) -> None:
    unsettled = publication.has_open_intent(tx, row.id)
    ensure(not unsettled, "a publication with an open intent is settled before it is closed")
