"""What the racing processes do: each waits at the barrier, then does one thing once, on a ledger that it opened."""

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

from ledger import evidence, idempotency, leases, slot
from ledger.idempotency import Answer
from ledger.session import Ledger
from ledger.slot import Holder
from pipeline.errors import Rejected
from tests.ledger.world import change_document

PATIENCE_S = 60


def race(racer: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run one process for each tuple of arguments, all let go at the same moment; what each found."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(each)), context.SimpleQueue()
    processes = [context.Process(target=_run, args=(racer, barrier, answers, arguments)) for arguments in each]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in processes] == [0] * len(each)
    return [answers.get() for _ in processes]


def _run(racer: Callable[..., Any], barrier: Any, answers: Any, arguments: tuple[Any, ...]) -> None:
    url, *rest = arguments
    ledger = Ledger.open(url)
    barrier.wait(PATIENCE_S)
    answers.put(racer(ledger, *rest))
    ledger.close()


def claim(ledger: Ledger, worker_id: str) -> str | None:
    """Lease a task."""
    found = leases.lease(ledger, worker_id)
    return None if found is None else found.task.id


def take(ledger: Ledger, branch_id: str, pid: int) -> int | None:
    """Take the land slot."""
    found = slot.take_slot(ledger, branch_id, Holder("here", "boot-1", pid, pid))
    return None if found is None else found.token


def submit(ledger: Ledger, lease_id: str, token: int, worker_id: str) -> str:
    """Hand the evidence in; the publication, or the name of the refusal."""
    try:
        return evidence.submit(ledger, lease_id, token, worker_id, change_document()).publication_id
    except Rejected as refused:
        return refused.code


def lease_under_key(ledger: Ledger, worker_id: str) -> str:
    """Lease a task as a request does that is repeated under one key; the answer."""
    key = {"actor": "token_1", "key": "the same"}
    whole = {**key, "route": "POST /v1/leases", "request_sha256": "0" * 64}
    with ledger.write() as tx:
        idempotency.reserve(tx, **key)
        before = idempotency.replay(tx, **whole)
        if before is not None:
            return before.body
        found = leases.lease_in(tx, worker_id)
        return idempotency.keep(tx, **whole, answer=Answer(201, "none" if found is None else found.lease_id)).body


def reclaim(ledger: Ledger) -> int:
    """End expired leases."""
    return leases.reclaim(ledger)
