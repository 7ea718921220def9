"""Answers that are given again: a request repeated under its key gets the stored answer, and nothing is done twice."""

from dataclasses import dataclass

from sqlalchemy import delete, func, select

from ledger.engine import is_sqlite
from ledger.session import Transaction
from ledger.tables import idempotency
from ledger.upsert import insert_absent
from pipeline.canonical import digest
from pipeline.errors import Rejected
from pipeline.refusals import Refusal

PRUNE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered the first time, byte for byte."""

    status: int
    body: str


def reserve(tx: Transaction, *, actor: str, key: str) -> None:
    """Let one request at a time work under the key, until the transaction ends: the second of two at the same moment
    waits, and then finds the first one's answer. Where one writer excludes all others anyway, it costs nothing."""
    if not is_sqlite(tx.connection):
        number = int.from_bytes(bytes.fromhex(digest([actor, key]))[:8], signed=True)
        tx.connection.execute(select(func.pg_advisory_xact_lock(number)))


def replay(tx: Transaction, *, actor: str, key: str, route: str, request_sha256: str) -> Answer | None:
    """The stored answer, or None when the key is new. Raises `Rejected(idempotency_key_reused)` when it was used for
    another route or another request."""
    query = select(idempotency).where(idempotency.c.actor == actor, idempotency.c.key == key)
    row = tx.connection.execute(query).one_or_none()
    if row is None:
        return None
    if (row.route, row.request_sha256) != (route, request_sha256):
        raise Rejected(Refusal.IDEMPOTENCY_KEY_REUSED)
    return Answer(row.status, row.answer)


def keep(tx: Transaction, *, actor: str, key: str, route: str, request_sha256: str, answer: Answer) -> Answer:
    """Store the answer in the transaction of the work it tells of, and return the one that stands. Raises
    `Rejected(idempotency_key_reused)` as `replay` does, when somebody else was first under the key."""
    row = {
        "actor": actor,
        "key": key,
        "route": route,
        "request_sha256": request_sha256,
        "status": answer.status,
        "answer": answer.body,
        "created_at": tx.now(),
    }
    if insert_absent(tx, idempotency, row):
        return answer
    return replay(tx, actor=actor, key=key, route=route, request_sha256=request_sha256) or answer


def prune(tx: Transaction, *, older_than: int) -> int:
    """Forget answers from before that instant, a bounded number at a time; how many."""
    old = select(idempotency.c.actor, idempotency.c.key).where(idempotency.c.created_at < older_than).limit(PRUNE_ROWS)
    found = tx.connection.execute(old).all()
    for actor, key in found:
        tx.connection.execute(delete(idempotency).where(idempotency.c.actor == actor, idempotency.c.key == key))
    return len(found)
