"""Real processes at the same moment: one winner each, and the ledger tells of one."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import update

from ledger import evidence, leases
from ledger.clock import wall_clock
from ledger.session import Ledger
from ledger.tables import tasks
from pipeline.refusals import Refusal
from tests.ledger import racers
from tests.ledger.world import HeardBell, VirtualClock, World, bundle, rows

MANY = 4
LEASES = 12


@pytest.fixture
def racing(database_url: str) -> Iterator[World]:
    """The builder on a ledger with the real clock, as the racing processes have it."""
    clock = VirtualClock(wall_clock())
    ledger = Ledger.open(database_url, clock=clock)
    yield World(ledger, clock, HeardBell())
    ledger.close()


def test_many_claimants_get_one_lease(racing: World, database_url: str) -> None:
    task = racing.task(racing.project())
    workers = [racing.worker(f"worker-{number}") for number in range(MANY)]
    found = racers.race(racers.claim, [(database_url, worker) for worker in workers])
    assert sorted(found, key=str) == [None, None, None, task.id]
    assert len(rows(racing.ledger, "leases")) == len(rows(racing.ledger, "attempts")) == 1
    assert rows(racing.ledger, "tasks")[0]["attempts"] == 1


def test_many_takers_get_one_slot(racing: World, database_url: str) -> None:
    branch = racing.project().branch_id
    found = racers.race(racers.take, [(database_url, branch, pid) for pid in range(1, MANY + 1)])
    assert sorted(found, key=str) == [1, None, None, None]


def test_many_submitters_begin_one_publication(racing: World, database_url: str) -> None:
    racing.task(racing.project())
    held = racing.leased()
    evidence.store_bundle(racing.ledger, held.lease_id, held.token, held.worker_id, bundle())
    each = [(database_url, held.lease_id, held.token, held.worker_id)] * MANY
    found = racers.race(racers.submit, each)
    [publication] = rows(racing.ledger, "publications")
    assert sorted(found) == sorted([str(publication["id"]), *[Refusal.LEASE_STALE.value] * (MANY - 1)])
    assert len(rows(racing.ledger, "evidence")) == 1
    assert len(rows(racing.ledger, "history", event="submit")) == 1


def test_requests_at_the_same_moment_under_one_key_cost_one_attempt(racing: World, database_url: str) -> None:
    project = racing.project()
    for _ in range(MANY):
        racing.task(project)
    worker = racing.worker()
    found = racers.race(racers.lease_under_key, [(database_url, worker)] * MANY)
    [lease] = rows(racing.ledger, "leases")
    assert found == [lease["id"]] * MANY
    assert sum(int(str(row["attempts"])) for row in rows(racing.ledger, "tasks")) == 1


def test_many_reclaimers_end_each_lease_once(racing: World, database_url: str) -> None:
    project = racing.project()
    for _ in range(LEASES):
        racing.task(project)
    with racing.ledger.write() as tx:
        tx.connection.execute(update(tasks).values(not_before=0, kept_for_worker_until=0))
    racing.clock.at -= 10_000_000  # leased so long ago that they have expired by the real clock
    for _ in range(LEASES):
        racing.leased()
    found = racers.race(racers.reclaim, [(database_url,)] * MANY)
    with closing(Ledger.open(database_url)) as ledger:
        left = leases.reclaim(ledger)  # what every reclaimer passed over, because another one was at it
    assert sum(found) + left == LEASES
    expired = rows(racing.ledger, "history", event="lease_expired")
    assert len(expired) == len({str(row["subject_id"]) for row in expired}) == LEASES
    assert {row["state"] for row in rows(racing.ledger, "tasks")} == {"open"}
