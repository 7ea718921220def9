"""The line of a branch, and whose turn it is to be looked at."""

from collections.abc import Sequence

import pytest

from ledger import dossier, publication, record
from ledger.bounds import Bounds
from ledger.evidence import Submitted
from ledger.projects import Project
from pipeline.decisions import Block, Owner, RunGate, SendBack, Wait
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from tests.ledger.refusing import refused
from tests.ledger.world import HEAD, World, rows

BOUNDS = Bounds()
PENDING = Wait(Reason.CHECKS_PENDING, Owner.CI)


@pytest.fixture
def project(world: World) -> Project:
    return world.project()


def _three(world: World, project: Project, priorities: Sequence[int] = (0, 0, 0)) -> list[Submitted]:
    made = []
    for number, priority in enumerate(priorities):
        made.append(world.approved(project, priority=priority, head=str(number) * 40))
        world.clock.advance(1_000)
    return made


def _before(world: World, submitted: Submitted) -> tuple[str, ...]:
    return dossier.dossier(world.ledger, submitted.publication_id).line.before


def test_the_line_is_ordered_by_priority_and_then_by_first_approval(world: World, project: Project) -> None:
    first, second, urgent = _three(world, project, (0, 0, 5))
    assert _before(world, urgent) == ()
    assert _before(world, first) == (urgent.publication_id,)
    assert _before(world, second) == (urgent.publication_id, first.publication_id)


def test_what_is_blocked_or_waits_for_a_person_stands_beside_the_line(world: World, project: Project) -> None:
    first, second, third = _three(world, project)
    look = world.look_at(first.publication_id)
    record.record(world.ledger, look, Block(Reason.CHECK_FAILED, sticky=False), next_look_at=world.clock.at)
    look = world.look_at(second.publication_id)
    person = Wait(Reason.APPROVALS_MISSING, Owner.PERSON)
    record.record(world.ledger, look, person, next_look_at=world.clock.at)
    assert _before(world, third) == ()


def test_the_place_survives_a_block(world: World, project: Project) -> None:
    first, second, _ = _three(world, project)
    look = world.look_at(first.publication_id)
    record.record(world.ledger, look, Block(Reason.CHECK_FAILED, sticky=False), next_look_at=world.clock.at)
    look = world.look_at(first.publication_id)
    record.record(world.ledger, look, PENDING, next_look_at=world.clock.at)
    assert _before(world, second) == (first.publication_id,)


def test_the_branch_is_kept_for_the_first_that_was_sent_back_for_one_lease(world: World, project: Project) -> None:
    first, second, _ = _three(world, project)
    look = world.look_at(first.publication_id)
    back = SendBack(Reason.CANONICAL_MOVED, "rebase_onto_tip")
    record.record(world.ledger, look, back, next_look_at=world.clock.at)
    assert _before(world, second) == (first.publication_id,)
    world.clock.advance(BOUNDS.task_lease_ms - 1)
    assert _before(world, second) == (first.publication_id,)
    world.clock.advance(1)
    assert _before(world, second) == ()


def test_the_place_and_the_time_at_the_front_survive_a_send_back(world: World, project: Project) -> None:
    first, second, _ = _three(world, project)
    world.clock.advance(5_000)
    look = world.look_at(first.publication_id)
    back = SendBack(Reason.CANONICAL_MOVED, "rebase_onto_tip")
    record.record(world.ledger, look, back, next_look_at=world.clock.at)
    at_front_ms = 8_000
    world.clock.advance(1_000)
    again = world.submitted(world.leased(), head="9" * 40)
    assert again.task_id == first.task_id
    found = dossier.dossier(world.ledger, again.publication_id).line
    assert (found.front_ms, found.passed) == (at_front_ms + 1_000, 0)
    assert _before(world, second) == (first.publication_id,)


def test_time_runs_only_at_the_front(world: World, project: Project) -> None:
    first, second, _ = _three(world, project)
    world.clock.advance(60_000)
    assert dossier.dossier(world.ledger, first.publication_id).line.front_ms == 63_000
    assert dossier.dossier(world.ledger, second.publication_id).line.front_ms == 0


def test_going_behind_gives_up_the_front_whatever_the_priority(world: World, project: Project) -> None:
    urgent, second, third = _three(world, project, (5, 0, 0))
    look = world.look_at(urgent.publication_id)
    overdue = Wait(Reason.CHECKS_OVERDUE, Owner.CI, go_behind=True)
    record.record(world.ledger, look, overdue, next_look_at=world.clock.at)
    assert _before(world, urgent) == (second.publication_id, third.publication_id)
    assert dossier.dossier(world.ledger, urgent.publication_id).line.yielded == 1


def test_a_look_moves_the_next_look_on_before_anything_is_looked_at(world: World, project: Project) -> None:
    world.approved(project)
    world.look(project.branch_id)
    [row] = rows(world.ledger, "publications")
    assert row["next_look_at"] == world.clock.at + BOUNDS.backoff_min_ms
    assert publication.due(world.ledger, project.branch_id, "process-2") is None


@pytest.mark.parametrize(("after_ms", "free"), [(BOUNDS.land_slot_ms - 1, False), (BOUNDS.land_slot_ms, True)])
def test_the_look_of_a_dead_process_is_followed_at_its_expiry(
    world: World, project: Project, after_ms: int, free: bool
) -> None:
    world.approved(project)
    first = world.look(project.branch_id)
    world.clock.advance(after_ms)
    second = publication.due(world.ledger, project.branch_id, "process-2")
    assert (second is not None) is free
    assert second is None or second.token > first.token


def test_a_process_that_asks_again_has_ended_its_earlier_look(world: World, project: Project) -> None:
    submitted = world.approved(project)
    first = world.look(project.branch_id)
    record.record(world.ledger, first, RunGate(), next_look_at=world.clock.at)
    assert publication.due(world.ledger, project.branch_id, "process-2") is None
    second = world.look(project.branch_id)
    assert (second.publication_id, second.token) == (submitted.publication_id, first.token + 1)


def test_the_look_of_a_process_that_is_gone_is_free_at_once(world: World, project: Project) -> None:
    world.approved(project)
    abandoned = world.look(project.branch_id)
    world.bell.rung.clear()
    assert publication.free_abandoned(world.ledger, lambda holder: holder == "process-2") == []
    assert publication.free_abandoned(world.ledger, lambda holder: holder == "process-1") == [project.branch_id]
    assert world.bell.rung == [project.branch_id]
    with refused(world.ledger, Refusal.LEASE_STALE):
        record.record(world.ledger, abandoned, PENDING, next_look_at=world.clock.at)
    assert publication.due(world.ledger, project.branch_id, "process-2") is not None


def test_the_open_intent_is_looked_at_first(world: World, project: Project) -> None:
    _first, second, _ = _three(world, project)
    world.intent(world.look_at(second.publication_id), world.slot(project.branch_id))
    world.clock.advance(BOUNDS.land_slot_ms)
    assert world.look(project.branch_id).publication_id == second.publication_id


def test_an_event_wakes_those_it_concerns_and_nobody_else(world: World, project: Project) -> None:
    first, second, _ = _three(world, project)
    for submitted in (first, second):
        look = world.look_at(submitted.publication_id)
        record.record(world.ledger, look, PENDING, next_look_at=world.clock.at + 30_000)
    world.bell.rung.clear()
    with world.ledger.write() as tx:
        assert publication.wake(tx, project.branch_id, head="1" * 40) == 1
    assert world.bell.rung == [project.branch_id]
    assert rows(world.ledger, "publications", id=second.publication_id)[0]["next_look_at"] == world.clock.at
    assert rows(world.ledger, "publications", id=first.publication_id)[0]["next_look_at"] != world.clock.at


def test_a_transaction_that_fails_rings_nothing(world: World, project: Project) -> None:
    world.approved(project)
    world.bell.rung.clear()
    with pytest.raises(RuntimeError):
        _wake_and_fail(world, project.branch_id)
    assert world.bell.rung == []


def _wake_and_fail(world: World, branch_id: str) -> None:
    with world.ledger.write() as tx:
        publication.wake(tx, branch_id)
        raise RuntimeError


def test_fresh_branches_come_first_and_parked_ones_take_half_at_most(world: World) -> None:
    parked, active = [], []
    for _ in range(4):
        project = world.project()
        look = world.look_at(world.approved(project).publication_id)
        record.record(world.ledger, look, Block(Reason.CHECK_FAILED, sticky=False), next_look_at=world.clock.at)
        parked.append(project.branch_id)
    world.clock.advance(1_000)
    for _ in range(4):
        project = world.project()
        world.approved(project)
        active.append(project.branch_id)
    chosen = publication.due_branches(world.ledger, 4)
    assert len(chosen) == 4
    assert len(set(chosen) & set(parked)) == 2
    assert len(set(publication.due_branches(world.ledger, 50))) == 8


def test_nothing_that_is_closed_is_ever_due(world: World, project: Project) -> None:
    look = world.look_at(world.approved(project, head=HEAD).publication_id)
    back = SendBack(Reason.CONFLICT, "rebase_onto_tip")
    record.record(world.ledger, look, back, next_look_at=world.clock.at)
    world.clock.advance(BOUNDS.backoff_max_ms)
    assert publication.due_branches(world.ledger, 50) == []
    assert not publication.has_due(world.ledger, project.branch_id)
