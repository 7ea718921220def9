"""Deliveries: once each, waking what they concern, and nobody else."""

from dataclasses import replace

import pytest

from ledger import deliveries, record, reports
from ledger.bounds import Bounds
from ledger.deliveries import Hint
from ledger.publication import Look
from pipeline.decisions import Owner, Wait
from pipeline.reasons import Reason
from tests.ledger.world import HEAD, World, contents, rows

LATER_MS = 600_000


@pytest.fixture
def waiting(world: World) -> Look:
    """A publication that waits and is not due."""
    look = world.look_at(world.approved(world.project()).publication_id)
    pending = Wait(Reason.CHECKS_PENDING, Owner.CI, {"context": "ci"})
    record.record(world.ledger, look, pending, next_look_at=world.clock.at + LATER_MS)
    world.bell.rung.clear()
    return look


def _receive(world: World, hint: Hint | None, guid: str = "guid-1") -> bool:
    return deliveries.receive(
        world.ledger, guid=guid, event="check_run", action="completed", body_sha256="0" * 64, hint=hint
    )


def _repository(world: World) -> int:
    return int(str(rows(world.ledger, "projects")[0]["repository_id"]))


def _is_due(world: World, look: Look) -> bool:
    return rows(world.ledger, "publications", id=look.publication_id)[0]["next_look_at"] == world.clock.at


@pytest.mark.parametrize("hint", ["head", "branch", "canonical", "pull_request", "everything"])
def test_a_delivery_wakes_what_it_concerns(world: World, waiting: Look, hint: str) -> None:
    with world.ledger.write() as tx:
        tx.connection.exec_driver_sql("UPDATE tasks SET pull_request = 7")
    repository_id = _repository(world)
    hints = {
        "head": Hint(repository_id, head=HEAD),
        "branch": Hint(repository_id, branch=str(rows(world.ledger, "tasks")[0]["head_branch"]), head="9" * 40),
        "canonical": Hint(repository_id, branch="main", head="9" * 40),
        "pull_request": Hint(repository_id, pull_request=7),
        "everything": Hint(repository_id, everything=True),
    }
    assert _receive(world, hints[hint])
    assert _is_due(world, waiting)
    assert world.bell.rung == [waiting.branch_id]


ELSEWHERE = [Hint(head="9" * 40), Hint(branch="mac/other"), Hint(pull_request=8), Hint()]


@pytest.mark.parametrize("hint", ELSEWHERE)
def test_a_delivery_about_something_else_wakes_nobody(world: World, waiting: Look, hint: Hint) -> None:
    assert _receive(world, replace(hint, repository_id=_repository(world)))
    assert not _is_due(world, waiting)


def test_a_repeated_delivery_changes_and_rings_nothing(world: World, waiting: Look) -> None:
    assert _receive(world, Hint(_repository(world), head=HEAD))
    world.bell.rung.clear()
    world.clock.advance(1)
    before = contents(world.ledger)
    assert not _receive(world, Hint(_repository(world), head=HEAD))
    assert contents(world.ledger) == before
    assert world.bell.rung == []


def test_a_delivery_for_nobodys_repository_leaves_a_trace_and_wakes_nobody(world: World, waiting: Look) -> None:
    assert _receive(world, Hint(1, head=HEAD))
    assert len(rows(world.ledger, "history", event="delivery_unregistered")) == 1
    assert world.bell.rung == []
    assert not _is_due(world, waiting)


def test_deliveries_are_kept_for_their_retention(world: World) -> None:
    _receive(world, None)
    world.clock.advance(Bounds().event_retention_ms)
    with world.ledger.write() as tx:
        assert deliveries.prune(tx) == 0
    world.clock.advance(1)
    with world.ledger.write() as tx:
        assert deliveries.prune(tx) == 1
    assert rows(world.ledger, "deliveries") == []


def test_why_tells_the_stored_decision_with_all_its_parts(world: World, waiting: Look) -> None:
    with world.ledger.read() as tx:
        why = reports.why(tx, waiting.task_id)
    assert (why["decision"], why["reason"], why["owner"]) == ("wait", "checks_pending", "ci")
    assert (why["since"], why["next_look_at"]) == (world.clock.at, world.clock.at + LATER_MS)
    assert why["would_change"]
    assert why["sentence"]


def test_what_is_unknown_is_null_and_never_false(world: World) -> None:
    task = world.task(world.project())
    with world.ledger.read() as tx:
        why, outcome = reports.why(tx, task.id), reports.outcome(tx, task.id)
    assert {why[name] for name in ("decision", "reason", "since", "next_look_at", "deadline", "owner")} == {None}
    five = ("evidence", "review", "publication", "acceptance", "deployment")
    assert [outcome[name] for name in five] == [None] * 5


def test_an_outcome_shows_each_fact_beside_the_others(world: World, waiting: Look) -> None:
    with world.ledger.read() as tx:
        outcome = reports.outcome(tx, waiting.task_id)
    assert (outcome["evidence"]["state"], outcome["review"]["state"]) == ("taken", "approved")
    assert (outcome["publication"]["state"], outcome["publication"]["proof"]) == ("active", None)
    assert outcome["acceptance"] is None
