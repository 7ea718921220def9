"""Intents: admitted under every condition at once, one open for each branch, settled once, kept for ever."""

from collections.abc import Callable

import pytest

from ledger import dossier, intents, orders, projects, publication, record, slot
from ledger.bounds import Bounds
from ledger.intents import IntentKind
from ledger.publication import Look
from ledger.session import Transaction
from pipeline.canonical import Json, canonical_bytes, digest_bytes
from pipeline.decisions import Block
from pipeline.facts import LandingRecord
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from tests.ledger.refusing import refused
from tests.ledger.world import HEAD, HERE, World, rows

BOUNDS = Bounds()


@pytest.fixture
def look(world: World) -> Look:
    """A look at an approved change."""
    return world.look_at(world.approved(world.project()).publication_id)


def test_an_intent_carries_its_own_identity_and_the_slots_token(world: World, look: Look) -> None:
    held = world.slot(look.branch_id)
    intent = world.intent(look, held)
    expected: dict[str, Json] = {"intent": intent.id, "slot_token": held.token, "committed_at": world.clock.at}
    assert intent.document == canonical_bytes(expected)
    assert intent.digest == digest_bytes(intent.document)
    with world.ledger.read() as tx:
        assert intents.open_intent(tx, look.branch_id) == intent


def _stop(tx: Transaction, look: Look) -> None:
    orders.stop(tx, look.task_id, actor="op")


def _hold(tx: Transaction, look: Look) -> None:
    orders.hold(tx, look.task_id, True, actor="op")


def _pause(tx: Transaction, look: Look) -> None:
    [project] = projects.list_page(tx).rows
    projects.pause(tx, project.id, actor="op")


@pytest.mark.parametrize("order", [_stop, _hold, _pause])
def test_an_order_that_came_before_the_intent_keeps_it_out(
    world: World, look: Look, order: Callable[[Transaction, Look], None]
) -> None:
    held = world.slot(look.branch_id)
    with world.ledger.write() as tx:
        order(tx, look)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(look, held)


def test_a_task_that_is_not_landing_has_no_intent(world: World) -> None:
    world.task(world.project())
    look = world.look_at(world.submitted().publication_id)
    held = world.slot(look.branch_id)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(look, held)


def test_a_blocked_task_has_no_intent(world: World, look: Look) -> None:
    record.record(world.ledger, look, Block(Reason.CHECK_FAILED, sticky=False), next_look_at=world.clock.at)
    look = world.look_at(look.publication_id)
    held = world.slot(look.branch_id)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(look, held)


def test_a_branch_has_one_open_intent(world: World) -> None:
    project = world.project()
    first, second = world.approved(project, head=HEAD), world.approved(project, head="e" * 40)
    held = world.slot(project.branch_id)
    world.intent(world.look_at(first.publication_id), held)
    other = world.look_at(second.publication_id)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(other, held)


def test_another_branchs_slot_does_not_count(world: World, look: Look) -> None:
    elsewhere = world.slot(world.project().branch_id)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(look, elsewhere)


@pytest.mark.parametrize(("after_ms", "good"), [(BOUNDS.land_slot_ms - 1, True), (BOUNDS.land_slot_ms, False)])
def test_an_intent_needs_a_slot_that_has_not_expired(world: World, look: Look, after_ms: int, good: bool) -> None:
    held = world.slot(look.branch_id)
    world.clock.advance(after_ms)
    if good:
        assert world.intent(look, held).slot_token == held.token
    else:
        with refused(world.ledger, Refusal.SLOT_LOST):
            world.intent(look, held)


def test_a_slot_that_was_given_on_admits_nothing(world: World, look: Look) -> None:
    old = world.slot(look.branch_id)
    slot.release_slot(world.ledger, old)
    slot.take_slot(world.ledger, look.branch_id, HERE)
    with refused(world.ledger, Refusal.SLOT_LOST):
        world.intent(look, old)


def test_an_overtaken_look_commits_no_intent(world: World, look: Look) -> None:
    held = world.slot(look.branch_id)
    world.look_at(look.publication_id)
    with refused(world.ledger, Refusal.LEASE_STALE):
        world.intent(look, held)


def test_a_void_intent_is_kept_and_counts_as_a_refused_landing(world: World, look: Look) -> None:
    intent = world.intent(look, world.slot(look.branch_id))
    intents.observe(world.ledger, intent.id, "push_refused", {"why": "stale"})
    assert intents.void(world.ledger, intent.id, "the tip moved")
    assert not intents.void(world.ledger, intent.id, "again")
    [row] = rows(world.ledger, "intents")
    assert (row["state"], row["why"]) == ("void", "the tip moved")
    assert dossier.dossier(world.ledger, look.publication_id).publication.refused_landings == 1
    assert publication.has_due(world.ledger, look.branch_id)
    assert len(rows(world.ledger, "observations")) == 1


def test_after_a_void_intent_another_one_is_admitted(world: World, look: Look) -> None:
    held = world.slot(look.branch_id)
    intents.void(world.ledger, world.intent(look, held).id, "the tip moved")
    assert world.intent(look, held).slot_token == held.token


@pytest.mark.parametrize(
    ("settle", "landing"),
    [(intents.unattributed, LandingRecord.UNATTRIBUTED), (intents.unproven, LandingRecord.UNPROVEN)],
)
def test_a_landing_without_proof_completes_nothing_and_admits_nothing_more(
    world: World, look: Look, settle: Callable[..., bool], landing: LandingRecord
) -> None:
    held = world.slot(look.branch_id)
    intent = world.intent(look, held)
    assert settle(world.ledger, intent.id, {"found": "f" * 40})
    assert not settle(world.ledger, intent.id, {})
    assert dossier.dossier(world.ledger, look.publication_id).publication.landing is landing
    assert world.state(look.task_id) == "landing"
    assert rows(world.ledger, "proofs") == []
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        world.intent(look, held)


def test_landed_work_is_not_opened_again_by_a_retry(world: World, look: Look) -> None:
    intents.unproven(world.ledger, world.intent(look, world.slot(look.branch_id)).id, {})
    look = world.look_at(look.publication_id)
    record.record(world.ledger, look, Block(Reason.LANDED_UNPROVEN, sticky=True), next_look_at=world.clock.at)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED), world.ledger.write() as tx:
        orders.retry(tx, look.task_id, why="please", actor="op")


def test_what_is_being_landed_is_not_cancelled(world: World, look: Look) -> None:
    world.intent(look, world.slot(look.branch_id))
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED), world.ledger.write() as tx:
        orders.cancel(tx, look.task_id, actor="op")


def test_an_update_moves_the_head_on_and_starts_its_checks_anew(world: World, look: Look) -> None:
    intent = world.intent(look, world.slot(look.branch_id), IntentKind.UPDATE)
    new = {"previous_head": HEAD, "tip": "e" * 40, "tree": "f" * 40, "head": "9" * 40}
    intents.record_update(world.ledger, look, intent.id, **new)
    found = dossier.dossier(world.ledger, look.publication_id)
    assert found.head == found.publication.pushed_head == "9" * 40
    assert [(u.commit, u.head, u.tip, u.tree) for u in found.updates] == [("9" * 40, HEAD, "e" * 40, "f" * 40)]
    assert (found.open_intent, found.publication.refused_landings) == (None, 0)
    with refused(world.ledger, Refusal.INTENT_NOT_ADMITTED):
        intents.record_update(world.ledger, look, intent.id, **new)
