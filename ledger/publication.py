"""Publications: the way of one attempt's evidence to the branch, and whose turn it is to be looked at.

`next_look_at` is the cursor of every sweep: indexed, never null while the publication lives, and moved on before it is
looked at, so that one that cannot be looked at starves nobody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, insert, or_, select, update

from ledger import history
from ledger.engine import is_sqlite
from ledger.session import Ledger, Transaction
from ledger.tables import branches, evidence, intents, publications, tasks
from ledger.tasks import Task
from pipeline.errors import Rejected
from pipeline.facts import LandingRecord
from pipeline.reasons import Reason
from pipeline.refusals import Refusal

ABANDONED_MAX = 500


NAMED_MOMENTS = tuple(r.value for r in (Reason.UNCONFIRMED, Reason.INTENT_UNSETTLED, Reason.SLOT_TAKEN))


@dataclass(frozen=True, slots=True)
class Look:
    """The right to look at one publication and to write what came of it; lost when a larger token was given.

    `generation` is the branch's at the moment of the look: what arrives later makes the next look come at once.
    """

    publication_id: str
    task_id: str
    branch_id: str
    holder: str
    token: int
    generation: int
    expires_at: int


def begin(tx: Transaction, task: Task, attempt_id: str, evidence_id: str, *, head: str | None) -> str:
    """The publication of an evidence that was just taken in, due at once; its branch's bell is rung. What the task
    lost at the front of the line before is carried over."""
    now, publication_id = tx.now(), tx.new_id("pub")
    branch_id = tx.connection.execute(
        select(branches.c.id).where(branches.c.project_id == task.project_id)
    ).scalar_one()
    tx.connection.execute(
        insert(publications).values(
            id=publication_id,
            project_id=task.project_id,
            branch_id=branch_id,
            task_id=task.id,
            attempt_id=attempt_id,
            evidence_id=evidence_id,
            number=task.attempts,
            state="active",
            facts={},
            sticky=False,
            since=now,
            next_look_at=now,
            fresh=True,
            looks=0,
            look_token=0,
            head=head,
            refused_landings=0,
            landing="none",
            landing_facts={},
            person_waved=False,
            in_line=False,
            created_at=now,
            **_carried(tx, task.id),
        )
    )
    raise_generation(tx, branch_id)
    tx.ring(branch_id)
    return publication_id


def due(ledger: Ledger, branch_id: str, holder: str) -> Look | None:
    """The next publication of the branch to look at, or None: the one with an open intent first, then by its time.

    Its next look is moved on by the least back-off and committed before this returns. `holder` names the process, which
    does one look at a time: when it asks again, its earlier look has ended.
    """
    with ledger.write() as tx:
        now, c = tx.now(), publications.c
        unsettled = select(intents.c.publication_id).where(intents.c.branch_id == branch_id, intents.c.state == "open")
        query = (
            select(c.id, c.task_id, c.look_token)
            .where(c.branch_id == branch_id, c.next_look_at.is_not(None), c.next_look_at <= now)
            .where(c.look_expires_at.is_(None) | (c.look_expires_at <= now) | (c.look_holder == holder))
            .order_by(case((c.id.in_(unsettled), 0), else_=1), c.next_look_at, c.id)
            .limit(1)
        )
        row = tx.connection.execute(query.with_for_update(skip_locked=True)).one_or_none()
        if row is None:
            return None
        generation = tx.connection.execute(select(branches.c.generation).where(branches.c.id == branch_id)).scalar_one()
        look = Look(
            row.id, row.task_id, branch_id, holder, row.look_token + 1, generation, now + tx.bounds.land_slot_ms
        )
        tx.connection.execute(
            update(publications)
            .where(c.id == row.id)
            .values(
                next_look_at=now + tx.bounds.backoff_min_ms,
                look_holder=holder,
                look_token=look.token,
                look_expires_at=look.expires_at,
                looks=c.looks + 1,
                fresh=False,
            )
        )
        return look


def due_branches(ledger: Ledger, limit: int) -> list[str]:
    """Branches with a publication that is due, each once: fresh events first, then by time. What is parked for somebody
    takes at most half of the places, unless nothing else is due."""
    with ledger.read() as tx:
        active, parked = _due_in(tx, "active", limit), _due_in(tx, "parked", limit)
    room = max(limit // 2, limit - len(active))
    chosen = active[: limit - min(len(parked), limit // 2)] + parked[:room]
    return list(dict.fromkeys(chosen))[:limit]


def free_abandoned(ledger: Ledger, gone: Callable[[str], bool]) -> list[str]:
    """End the looks whose holder is provably gone, so that they are due again at once; the branches, which are rung.

    `gone` is asked for each name under which a look is held now. Whoever it wrongly calls gone loses its look, and
    with it the right to write; nothing is decided twice.
    """
    with ledger.write() as tx:
        c = publications.c
        held = select(c.id, c.branch_id, c.look_holder, c.look_token).where(c.look_holder.is_not(None))
        left = [row for row in tx.connection.execute(held.limit(ABANDONED_MAX)).all() if gone(row.look_holder)]
        for row in left:
            ended = update(publications).where(c.id == row.id, c.look_token == row.look_token)
            tx.connection.execute(ended.values(look_token=c.look_token + 1, **again_now(tx)))
            tx.ring(row.branch_id)
        return list(dict.fromkeys(str(row.branch_id) for row in left))


def at_their_moment(ledger: Ledger, limit: int) -> list[str]:
    """Branches with a publication whose moment was named by a decision and has come: a second reading, an open intent, a
    slot that was taken. They are seconds away, and no event tells of them."""
    with ledger.read() as tx:
        c, now = publications.c, tx.now()
        query = (
            select(c.branch_id)
            .where(c.next_look_at.is_not(None), c.next_look_at <= now, c.reason.in_(NAMED_MOMENTS))
            .where(c.look_expires_at.is_(None) | (c.look_expires_at <= now))
            .order_by(c.next_look_at, c.id)
            .limit(limit)
        )
        return list(dict.fromkeys(str(found) for found in tx.connection.execute(query).scalars()))


def has_due(ledger: Ledger, branch_id: str) -> bool:
    """Whether a look at the branch would find something now."""
    with ledger.read() as tx:
        c, now = publications.c, tx.now()
        query = select(c.id).where(c.branch_id == branch_id, c.next_look_at.is_not(None), c.next_look_at <= now)
        free = query.where(c.look_expires_at.is_(None) | (c.look_expires_at <= now)).limit(1)
        return tx.connection.execute(free).one_or_none() is not None


def wake(
    tx: Transaction,
    branch_id: str,
    *,
    head: str | None = None,
    head_branch: str | None = None,
    pull_request: int | None = None,
    all_in_line: bool = False,
) -> int:
    """A fact arrived: look at those it concerns now, and ring. With no selector it concerns every publication of the
    branch. What is blocked until an operator acts is left alone. How many were woken."""
    raise_generation(tx, branch_id)
    c = publications.c
    concerned: list[ColumnElement[bool]] = []
    if head is not None:
        of_evidence = select(evidence.c.id).where(evidence.c.id == c.evidence_id, evidence.c.head == head).exists()
        concerned.append((c.head == head) | of_evidence)
    if head_branch is not None:
        of_task = select(tasks.c.id).where(tasks.c.id == c.task_id, tasks.c.head_branch == head_branch)
        concerned.append(of_task.exists())
    if pull_request is not None:
        of_task = select(tasks.c.id).where(tasks.c.id == c.task_id, tasks.c.pull_request == pull_request)
        concerned.append(of_task.exists())
    if all_in_line:
        concerned.append(c.in_line == 1)
    change = update(publications).where(c.branch_id == branch_id, c.next_look_at.is_not(None), c.sticky == 0)
    if concerned:
        change = change.where(or_(*concerned))
    woken = tx.connection.execute(change.values(next_look_at=tx.now(), fresh=True, looks=0)).rowcount
    tx.ring(branch_id)
    return int(woken)


def lock_branch(tx: Transaction, branch_id: str) -> None:
    """Let one transaction at a time write about a branch. Everybody takes this lock before a publication's or a
    task's, so that no two of them wait for each other. Where one writer excludes all others anyway, it costs
    nothing."""
    if not is_sqlite(tx.connection):
        query = select(branches.c.id).where(branches.c.id == branch_id)
        tx.connection.execute(query.with_for_update(key_share=True))


def lock_branch_of_task(tx: Transaction, task_id: str) -> None:
    """The same, for whom knows only the task."""
    if not is_sqlite(tx.connection):
        project = select(tasks.c.project_id).where(tasks.c.id == task_id).scalar_subquery()
        query = select(branches.c.id).where(branches.c.project_id == project)
        tx.connection.execute(query.with_for_update(key_share=True))


def raise_generation(tx: Transaction, branch_id: str) -> None:
    """Note that something about the branch changed: a look that began before will be followed by another at once."""
    change = update(branches).where(branches.c.id == branch_id)
    tx.connection.execute(change.values(generation=branches.c.generation + 1))


def has_open_intent(tx: Transaction, publication_id: str) -> bool:
    """Whether an intent of this publication is not settled yet."""
    c = intents.c
    query = select(c.id).where(c.publication_id == publication_id, c.state == "open")
    return tx.connection.execute(query).one_or_none() is not None


def landing_recorded(tx: Transaction, publication_id: str) -> bool:
    """Whether the branch contains this publication's change, proven or not, as far as was recorded."""
    query = select(publications.c.landing).where(publications.c.id == publication_id)
    return bool(tx.connection.execute(query).scalar_one() != LandingRecord.NONE)


def locked(tx: Transaction, look: Look) -> Row[Any]:
    """The publication of a look that still counts, locked. Raises `Rejected(lease_stale)` when somebody else looks at
    it now, or when it is closed."""
    lock_branch(tx, look.branch_id)
    c = publications.c
    query = select(publications).where(c.id == look.publication_id).with_for_update()
    row = tx.connection.execute(query).one_or_none()
    if row is None or row.look_token != look.token or row.state == "closed":
        raise Rejected(Refusal.LEASE_STALE)
    return row


def write(tx: Transaction, look: Look, **values: Any) -> None:
    """Write columns of the publication under the look's token. Raises `Rejected(lease_stale)`."""
    c = publications.c
    guarded = update(publications).where(c.id == look.publication_id, c.look_token == look.token, c.state != "closed")
    if tx.connection.execute(guarded.values(**values)).rowcount != 1:
        raise Rejected(Refusal.LEASE_STALE)


def again_now(tx: Transaction) -> dict[str, Any]:
    """The columns that end a look and ask for the next one at once."""
    return {"next_look_at": tx.now(), "look_holder": None, "look_expires_at": None}


def closing(tx: Transaction, how: str) -> dict[str, Any]:
    """The columns that close a publication."""
    return {
        "state": "closed",
        "closed_as": how,
        "closed_at": tx.now(),
        "next_look_at": None,
        "look_holder": None,
        "look_expires_at": None,
        "in_line": False,
        "deadline": None,
        "suspicion_reason": None,
        "suspicion_fingerprint": None,
        "suspicion_at": None,
    }


def note(tx: Transaction, look: Look, event: str, **more: Any) -> None:
    """One history row of the publication, on its task's timeline."""
    history.write(
        tx, subject="publication", subject_id=look.publication_id, task=look.task_id, event=event, actor="hub", **more
    )


def _due_in(tx: Transaction, state: str, limit: int) -> list[str]:
    c, now = publications.c, tx.now()
    query = (
        select(c.branch_id)
        .where(c.state == state, c.next_look_at.is_not(None), c.next_look_at <= now)
        .where(c.look_expires_at.is_(None) | (c.look_expires_at <= now))
        .group_by(c.branch_id)
        .order_by(func.max(c.fresh).desc(), func.min(c.next_look_at), c.branch_id)
        .limit(limit)
    )
    return [str(found) for found in tx.connection.execute(query).scalars()]


def _carried(tx: Transaction, task_id: str) -> dict[str, Any]:
    """What the task's last publication had used up at the front of the line, its running time included."""
    c = publications.c
    query = select(c.front_ms, c.front_since, c.passed, c.yielded).where(c.task_id == task_id)
    before = tx.connection.execute(query.order_by(c.number.desc()).limit(1)).one_or_none()
    if before is None:
        return {"front_ms": 0, "passed": 0, "yielded": 0}
    running = 0 if before.front_since is None else max(0, tx.now() - before.front_since)
    return {"front_ms": before.front_ms + running, "passed": before.passed, "yielded": before.yielded}
