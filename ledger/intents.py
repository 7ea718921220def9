"""Intents: what the hub is about to do to a remote, written down before it does, and settled against the remote
after."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ledger import history, line, publication, tasks
from ledger.publication import Look
from ledger.session import Ledger, Transaction
from ledger.slot import LandSlot, require_slot
from ledger.tables import evidence, intents, observations, projects, publications, update_commits
from pipeline.canonical import Json, canonical_bytes, digest_bytes
from pipeline.errors import Rejected, ensure
from pipeline.facts import LandingRecord
from pipeline.refusals import Refusal
from pipeline.states import State

OBSERVED_MAX = 50

Filled = Callable[[str, int, int], Mapping[str, Json]]


class IntentKind(StrEnum):
    """What an intent is about to move: the canonical branch, or the head branch of a change."""

    LAND = "land"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Intent:
    """An intent as it was committed. `document` is its canonical JSON, byte for byte, and `digest` the SHA-256 of
    it."""

    id: str
    kind: IntentKind
    branch_id: str
    task_id: str
    publication_id: str
    document: bytes
    digest: str
    slot_token: int
    committed_at: int

    @property
    def fields(self) -> dict[str, Any]:
        """The document, read."""
        found: dict[str, Any] = json.loads(self.document)
        return found


def commit_intent(ledger: Ledger, look: Look, slot: LandSlot, kind: IntentKind, document: Filled) -> Intent:
    """Commit the intent, or nothing. `document(intent_id, slot_token, committed_at)` gives what is about to be done.

    In one transaction: the slot is ours and has not expired, the task is landing, nothing was stopped, held or
    paused, the evidence is the newest of its task, and the branch has no other open intent. Raises
    `Rejected(slot_lost|intent_not_admitted|lease_stale)`.
    """
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        require_slot(tx, slot)
        problem = _problem(tx, row, slot)
        if problem is not None:
            raise Rejected(Refusal.INTENT_NOT_ADMITTED, {"problem": problem})
        now, intent_id = tx.now(), tx.new_id("int")
        filled = document(intent_id, slot.token, now)
        content = canonical_bytes(filled)
        intent = Intent(
            intent_id, kind, row.branch_id, row.task_id, row.id, content, digest_bytes(content), slot.token, now
        )
        _insert(tx, intent, row.evidence_id, filled)
        publication.note(tx, look, "intent_committed", facts={"intent": intent_id, "kind": kind.value})
        return intent


def open_intent(tx: Transaction, branch_id: str) -> Intent | None:
    """The intent of the branch that is not settled yet; there is at most one."""
    row = tx.connection.execute(
        select(intents).where(intents.c.branch_id == branch_id, intents.c.state == "open")
    ).one_or_none()
    return None if row is None else _intent(row)


def get(tx: Transaction, intent_id: str) -> Intent:
    """The intent, settled or not. It is one of ours, so that a missing one is `InvariantBroken`."""
    row = tx.connection.execute(select(intents).where(intents.c.id == intent_id)).one_or_none()
    ensure(row is not None, f"there is an intent {intent_id}")
    return _intent(row)


def observe(ledger: Ledger, intent_id: str, what: str, facts: Mapping[str, Json]) -> None:
    """Note what was seen of an intent's effect: an answer, an error, a reading. Never changes the intent."""
    with ledger.write() as tx:
        tx.connection.execute(
            insert(observations).values(
                id=tx.new_id("obs"), intent_id=intent_id, what=what, facts=dict(facts), at=tx.now()
            )
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of an intent's effect, as it was noted."""

    what: str
    facts: Mapping[str, Json]
    at: int


def observed(ledger: Ledger, intent_id: str, what: str) -> tuple[Observation, ...]:
    """What was noted of this kind, the oldest first; the newest `OBSERVED_MAX` of it."""
    with ledger.read() as tx:
        c = observations.c
        query = select(c.what, c.facts, c.at).where(c.intent_id == intent_id, c.what == what)
        rows = tx.connection.execute(query.order_by(c.at.desc()).limit(OBSERVED_MAX)).all()
    return tuple(Observation(row.what, row.facts, row.at) for row in reversed(rows))


def void(ledger: Ledger, intent_id: str, why: str) -> bool:
    """The remote refused it for good, or its marker was taken by the hub: it has not happened and never will. The row
    is kept; a landing counts as refused. Looks again at once. Whether this call voided it."""
    with ledger.write() as tx:
        intent = _on_locked_branch(tx, intent_id)
        if not settle(tx, intent_id, "void", why):
            return False
        refused = int(intent.kind is IntentKind.LAND)
        more = {"refused_landings": publications.c.refused_landings + refused}
        _after(tx, intent, "intent_void", {"intent": intent_id, "why": why}, **more, **publication.again_now(tx))
        return True


def unattributed(ledger: Ledger, intent_id: str, facts: Mapping[str, Json]) -> bool:
    """The branch contains the change, but not by this intent: nothing is proven, an operator must look. Whether this
    call said so first."""
    return _landed_otherwise(ledger, intent_id, LandingRecord.UNATTRIBUTED, "void", facts)


def unproven(ledger: Ledger, intent_id: str, facts: Mapping[str, Json]) -> bool:
    """The landing is ours, but its proof does not hold: an operator must look. Whether this call said so first."""
    return _landed_otherwise(ledger, intent_id, LandingRecord.UNPROVEN, "done", facts)


def record_update(
    ledger: Ledger, look: Look, intent_id: str, *, previous_head: str, tip: str, tree: str, head: str
) -> None:
    """The update commit of this intent was read back on the head branch: the head moves on and waits for its checks
    anew. Raises `Rejected(lease_stale|intent_not_admitted)`, and then nothing was written."""
    with ledger.write() as tx:
        row = publication.locked(tx, look)
        if not settle(tx, intent_id, "done", None):
            raise Rejected(Refusal.INTENT_NOT_ADMITTED, {"problem": "it was settled before"})
        count = select(func.count()).where(update_commits.c.publication_id == row.id)
        tx.connection.execute(
            insert(update_commits).values(
                intent_id=intent_id,
                publication_id=row.id,
                number=tx.connection.execute(count).scalar_one() + 1,
                previous_head=previous_head,
                tip=tip,
                tree=tree,
                head=head,
                created_at=tx.now(),
            )
        )
        tasks.change(tx, row.task_id, pushed_head=head)
        publication.write(tx, look, head=head, checks_since=None, **publication.again_now(tx))
        publication.note(tx, look, "head_updated", facts={"intent": intent_id, "head": head, "tip": tip})


def settle(tx: Transaction, intent_id: str, state: str, why: str | None) -> bool:
    """Close an open intent; whether it was open. For this room only: what follows from it belongs to the caller."""
    guarded = update(intents).where(intents.c.id == intent_id, intents.c.state == "open")
    return tx.connection.execute(guarded.values(state=state, closed_at=tx.now(), why=why)).rowcount == 1


def _problem(tx: Transaction, row: Row[Any], slot: LandSlot) -> str | None:
    task = tasks.locked(tx, row.task_id)
    paused = select(projects.c.paused).where(projects.c.id == row.project_id)
    newest = select(evidence.c.id).where(evidence.c.task_id == row.task_id)
    latest = tx.connection.execute(newest.order_by(evidence.c.number.desc()).limit(1))
    checks = (
        (slot.branch_id != row.branch_id, "the slot is another branch's"),
        (task.state is not State.LANDING, f"the task is {task.state.value}"),
        (task.stop_requested_at is not None, "a stop was requested"),
        (task.held, "the task is held"),
        (bool(tx.connection.execute(paused).scalar_one()), "the project is paused"),
        (latest.scalar_one() != row.evidence_id, "newer evidence was handed in"),
        (row.landing != LandingRecord.NONE, f"a landing is recorded as {row.landing}"),
        (open_intent(tx, row.branch_id) is not None, "the branch has an open intent"),
    )
    return next((sentence for failed, sentence in checks if failed), None)


def _insert(tx: Transaction, intent: Intent, evidence_id: str, filled: Mapping[str, Json]) -> None:
    values = {
        "id": intent.id,
        "branch_id": intent.branch_id,
        "task_id": intent.task_id,
        "publication_id": intent.publication_id,
        "evidence_id": evidence_id,
        "kind": intent.kind.value,
        "document": dict(filled),
        "digest": intent.digest,
        "slot_token": intent.slot_token,
        "committed_at": intent.committed_at,
        "state": "open",
    }
    try:
        tx.connection.execute(insert(intents).values(**values))
    except IntegrityError as taken:
        raise Rejected(Refusal.INTENT_NOT_ADMITTED, {"problem": "the branch has an open intent"}) from taken


def _landed_otherwise(
    ledger: Ledger, intent_id: str, landing: LandingRecord, state: str, facts: Mapping[str, Json]
) -> bool:
    with ledger.write() as tx:
        intent = _on_locked_branch(tx, intent_id)
        if not settle(tx, intent_id, state, landing.value):
            return False
        more = {"landing": landing.value, "landing_facts": dict(facts)}
        _after(tx, intent, f"landing_{landing.value}", facts, **more, **publication.again_now(tx))
        return True


def _on_locked_branch(tx: Transaction, intent_id: str) -> Intent:
    intent = get(tx, intent_id)
    publication.lock_branch(tx, intent.branch_id)
    return intent


def _after(tx: Transaction, intent: Intent, event: str, facts: Mapping[str, Json], **values: Any) -> None:
    change = update(publications).where(publications.c.id == intent.publication_id, publications.c.state != "closed")
    ensure(tx.connection.execute(change.values(**values)).rowcount == 1, "an open intent's publication lives")
    history.write(
        tx,
        subject="publication",
        subject_id=intent.publication_id,
        task=intent.task_id,
        event=event,
        facts=facts,
        actor="hub",
    )
    publication.raise_generation(tx, intent.branch_id)
    tx.ring(intent.branch_id)
    line.turn(tx, intent.branch_id)


def _intent(row: Row[Any] | None) -> Intent:
    ensure(row is not None, "there is such an intent")
    assert row is not None
    content = canonical_bytes(row.document)
    ensure(digest_bytes(content) == row.digest, f"the intent {row.id} is what was committed")
    return Intent(
        id=row.id,
        kind=IntentKind(row.kind),
        branch_id=row.branch_id,
        task_id=row.task_id,
        publication_id=row.publication_id,
        document=content,
        digest=row.digest,
        slot_token=row.slot_token,
        committed_at=row.committed_at,
    )
