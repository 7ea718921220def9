"""The land slot: exclusive, expiring, fenced, and not to be forged."""

import pytest

from ledger import slot
from ledger.bounds import Bounds
from ledger.slot import Holder, LandSlot
from pipeline.errors import InvariantBroken
from pipeline.refusals import Refusal
from tests.ledger.refusing import refused
from tests.ledger.world import HERE, World, rows

LIVES_MS = Bounds().land_slot_ms
NEIGHBOUR = Holder("here", "boot-1", 200, 2)
ELSEWHERE = Holder("elsewhere", "boot-9", 100, 1)


@pytest.fixture
def branch(world: World) -> str:
    return world.project().branch_id


def test_only_one_holds_the_slot_of_a_branch(world: World, branch: str) -> None:
    world.slot(branch)
    assert slot.take_slot(world.ledger, branch, NEIGHBOUR) is None
    other = world.project().branch_id
    assert slot.take_slot(world.ledger, other, NEIGHBOUR) is not None


@pytest.mark.parametrize(("after_ms", "free"), [(LIVES_MS - 1, False), (LIVES_MS, True), (LIVES_MS + 1, True)])
def test_a_slot_is_followed_exactly_at_its_expiry(world: World, branch: str, after_ms: int, free: bool) -> None:
    first = world.slot(branch)
    world.clock.advance(after_ms)
    second = slot.take_slot(world.ledger, branch, ELSEWHERE)
    assert (second is not None) is free
    if second is not None:
        assert second.token > first.token


def test_a_released_slot_is_free_and_its_token_still_grows(world: World, branch: str) -> None:
    first = world.slot(branch)
    assert slot.release_slot(world.ledger, first)
    assert not slot.release_slot(world.ledger, first)
    second = slot.take_slot(world.ledger, branch, NEIGHBOUR)
    assert second is not None
    assert second.token > first.token


def test_a_holder_that_is_gone_is_followed_at_once_on_its_host_only(world: World, branch: str) -> None:
    first = world.slot(branch)
    asked: list[Holder] = []

    def gone(holder: Holder) -> bool:
        asked.append(holder)
        return True

    assert slot.take_slot(world.ledger, branch, ELSEWHERE, gone=gone) is None
    assert asked == []
    second = slot.take_slot(world.ledger, branch, NEIGHBOUR, gone=gone)
    assert second is not None
    assert (asked, second.token > first.token) == ([HERE], True)
    assert len(rows(world.ledger, "history", event="slot_followed")) == 1


def test_a_slot_that_was_followed_can_be_neither_renewed_nor_released(world: World, branch: str) -> None:
    first = world.slot(branch)
    world.clock.advance(LIVES_MS)
    second = slot.take_slot(world.ledger, branch, ELSEWHERE)
    assert second is not None
    with refused(world.ledger, Refusal.SLOT_LOST):
        slot.renew(world.ledger, first)
    assert not slot.release_slot(world.ledger, first)
    assert rows(world.ledger, "land_slots")[0]["token"] == second.token
    assert rows(world.ledger, "land_slots")[0]["held"]


@pytest.mark.parametrize(("after_ms", "kept"), [(LIVES_MS - 1, True), (LIVES_MS, False)])
def test_a_slot_is_renewed_only_while_it_is_held(world: World, branch: str, after_ms: int, kept: bool) -> None:
    held = world.slot(branch)
    world.clock.advance(after_ms)
    if kept:
        assert slot.renew(world.ledger, held).expires_at == world.clock.at + LIVES_MS
    else:
        with refused(world.ledger, Refusal.SLOT_LOST):
            slot.renew(world.ledger, held)


def test_a_slot_cannot_be_made_anywhere_else(branch: str) -> None:
    with pytest.raises(InvariantBroken):
        LandSlot(branch, 1, HERE, 2**60)
