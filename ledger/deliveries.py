"""Deliveries of GitHub: taken in once each by their id, as a hint of where to look, and kept for a bounded time."""

from dataclasses import asdict, dataclass

from sqlalchemy import delete, select

from ledger import history, projects, publication
from ledger.session import Ledger, Transaction
from ledger.tables import deliveries
from ledger.upsert import insert_absent
from pipeline.canonical import Json

PRUNE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Hint:
    """Where a delivery says to look; identities only. `branch`: a branch that moved; `everything`: rules, access or the
    repository itself changed, so that whatever waits there is looked at."""

    repository_id: int | None = None
    branch: str | None = None
    head: str | None = None
    pull_request: int | None = None
    everything: bool = False


def receive(ledger: Ledger, *, guid: str, event: str, action: str | None, body_sha256: str, hint: Hint | None) -> bool:
    """Take the delivery in and wake what it concerns, in one durable commit; whether it is new.

    One that is repeated under its id changes nothing and rings nothing, however many arrive at once. One for a
    repository that nobody registered leaves a history row. Without a hint (an event that is ignored) it is only
    noted.
    """
    with ledger.write() as tx:
        row = {
            "guid": guid,
            "event": event,
            "action": action,
            "body_sha256": body_sha256,
            "hint": {} if hint is None else asdict(hint),
            "received_at": tx.now(),
        }
        if not insert_absent(tx, deliveries, row):
            return False
        if hint is not None and hint.repository_id is not None:
            _wake(tx, guid, event, hint, hint.repository_id)
        return True


def _wake(tx: Transaction, guid: str, event: str, hint: Hint, repository_id: int) -> None:
    found = projects.of_repository(tx, repository_id)
    if not found:
        facts: dict[str, Json] = {"event": event, "repository_id": repository_id}
        history.write(
            tx, subject="delivery", subject_id=guid, event="delivery_unregistered", facts=facts, actor="github"
        )
    for project in found:
        if hint.everything or hint.branch == project.canonical_branch:
            publication.wake(tx, project.branch_id)
        elif (hint.branch, hint.head, hint.pull_request) != (None, None, None):
            publication.wake(
                tx, project.branch_id, head=hint.head, head_branch=hint.branch, pull_request=hint.pull_request
            )


def prune(tx: Transaction) -> int:
    """Forget deliveries older than the retention of events, a bounded number at a time; how many."""
    c = deliveries.c
    old = select(c.guid).where(c.received_at < tx.now() - tx.bounds.event_retention_ms).limit(PRUNE_ROWS)
    found = tx.connection.execute(old).scalars().all()
    tx.connection.execute(delete(deliveries).where(c.guid.in_(found)))
    return len(found)
