"""What the hot paths cost: an index for each look-up of a growing table, and a bounded number of statements."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from ledger import deliveries, dossier, leases, publication, record
from ledger.deliveries import Hint
from ledger.engine import is_sqlite
from ledger.session import Ledger
from pipeline.decisions import Owner, Wait
from pipeline.reasons import Reason
from tests.ledger.world import HEAD, World

PARTIAL = ("tasks_open", "publications_due", "publications_line", "leases_live_by_expiry", "intents_one_open")
GROWING = (
    "tasks",
    "leases",
    "publications",
    "evidence",
    "verdicts",
    "intents",
    "history",
    "proofs",
    "attempts",
    "credits",
)


@contextmanager
def statements(ledger: Ledger) -> Iterator[list[tuple[str, Any]]]:
    """The statements that the block runs, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def see(_c: object, _cursor: object, statement: str, parameters: Any, *_more: object) -> None:
        seen.append((statement, parameters))

    event.listen(ledger.engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(ledger.engine, "before_cursor_execute", see)


Hot = Callable[[World, str, str], object]


def _claim(world: World, _branch_id: str, _publication_id: str) -> None:
    assert leases.lease(world.ledger, world.worker()) is not None


def _heartbeat(world: World, _branch_id: str, _publication_id: str) -> None:
    held = world.leased()
    leases.heartbeat(world.ledger, held.lease_id, held.token, held.worker_id)


def _reclaim(world: World, _branch_id: str, _publication_id: str) -> None:
    leases.reclaim(world.ledger)


def _due(world: World, branch_id: str, _publication_id: str) -> None:
    world.look(branch_id)


def _due_branches(world: World, _branch_id: str, _publication_id: str) -> None:
    assert publication.due_branches(world.ledger, 50)


def _deliver(world: World, _branch_id: str, _publication_id: str) -> None:
    hint = Hint(repository_id=1002, head=HEAD, pull_request=3)
    deliveries.receive(world.ledger, guid="g", event="check_run", action=None, body_sha256="0" * 64, hint=hint)


def _dossier(world: World, _branch_id: str, publication_id: str) -> None:
    dossier.dossier(world.ledger, publication_id)


def _wait(world: World, _branch_id: str, publication_id: str) -> None:
    wait = Wait(Reason.CHECKS_PENDING, Owner.CI)
    record.record(world.ledger, world.look_at(publication_id), wait, next_look_at=world.clock.at)


@pytest.mark.parametrize("hot", [_claim, _heartbeat, _reclaim, _due, _due_branches, _deliver, _dossier, _wait])
def test_a_hot_path_reads_no_growing_table_from_end_to_end(world: World, hot: Hot) -> None:
    project = world.project()
    submitted = world.approved(project)
    world.task(project)
    with statements(world.ledger) as seen:
        hot(world, project.branch_id, submitted.publication_id)
    looked_up = [(said, given) for said, given in seen if said.startswith(("SELECT", "UPDATE"))]
    assert looked_up
    for said, given in looked_up:
        assert _whole_scans(world.ledger, said, given) == [], said


def _whole_scans(ledger: Ledger, said: str, given: Any = ()) -> list[str]:
    """The growing tables that are read from end to end; a partial index holds the few rows that matter, and may be."""
    with ledger.read() as tx:
        if is_sqlite(tx.connection):
            steps = [row[3] for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}", given)]
            found = [re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step) for step in steps]
        else:
            tx.connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # only where there is no other way
            steps = [row[0] for row in tx.connection.exec_driver_sql(f"EXPLAIN {said}", given)]
            found = [re.search(r"Seq Scan on (\w+)()", step) for step in steps]
    return [scan[1] for scan in found if scan and scan[1] in GROWING and scan[2] not in PARTIAL]


def test_the_eye_for_whole_scans_sees_one(world: World) -> None:
    assert _whole_scans(world.ledger, "SELECT * FROM tasks WHERE title = 'x'") == ["tasks"]


def test_a_dossier_takes_the_same_statements_whatever_the_history(world: World) -> None:
    project = world.project()
    first = world.approved(project)
    with statements(world.ledger) as few:
        dossier.dossier(world.ledger, first.publication_id)
    for number in range(1, 6):
        world.approved(project, head=str(number) * 40)
    with statements(world.ledger) as many:
        dossier.dossier(world.ledger, first.publication_id)
    assert len(few) == len(many) <= 16
