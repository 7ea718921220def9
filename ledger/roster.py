"""The workers that the hub knows: everybody who leases work or looks at publications has one identity here."""

from dataclasses import dataclass

from sqlalchemy import select, update

from ledger.session import Transaction
from ledger.tables import workers
from ledger.upsert import insert_absent


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker; `name` is what people see, `id` is what tokens and leases are bound to."""

    id: str
    name: str
    created_at: int
    seen_at: int


def worker(tx: Transaction, name: str) -> Worker:
    """The worker of that name, made when it is new, and noted as seen now. Two callers at once get the same one."""
    now = tx.now()
    insert_absent(tx, workers, {"id": tx.new_id("worker"), "name": name, "created_at": now, "seen_at": now})
    tx.connection.execute(update(workers).where(workers.c.name == name).values(seen_at=now))
    row = tx.connection.execute(select(workers).where(workers.c.name == name)).one()
    return Worker(row.id, row.name, row.created_at, row.seen_at)


def worker_of(tx: Transaction, worker_id: str) -> Worker | None:
    """The worker with that id, if there is one."""
    row = tx.connection.execute(select(workers).where(workers.c.id == worker_id)).one_or_none()
    return None if row is None else Worker(row.id, row.name, row.created_at, row.seen_at)
