"""An operator's word stands on the evidence and the attempt that were looked at, and on nothing later."""

import pytest

from ledger import acceptance, orders, tasks
from ledger.acceptance import Judgement
from ledger.evidence import Submitted
from pipeline.errors import Rejected
from pipeline.facts import Deliverable
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import Event
from tests.ledger.world import World, contents, rows


def handed_in(world: World) -> tuple[Submitted, str]:
    """The evidence of a report, and its attempt."""
    world.task(world.project(), deliverable=Deliverable.REPORT)
    held = world.leased()
    return world.submitted(held), held.attempt_id


def judge(world: World, seen: Submitted, attempt: str) -> None:
    with world.ledger.write() as tx:
        acceptance.judge(
            tx, seen.task_id, Judgement.ACCEPTED, evidence_digest=seen.digest, attempt_id=attempt, why="read", actor="op"
        )


def test_a_word_is_kept_and_moves_no_task(world: World) -> None:
    seen, attempt = handed_in(world)
    before = contents(world.ledger)
    judge(world, seen, attempt)
    after = contents(world.ledger)
    assert {name for name in after if after[name] != before[name]} == {"acceptances", "history"}
    with world.ledger.read() as tx:
        shown = acceptance.shown(tx, seen.task_id)
    assert shown is not None
    assert (shown["state"], shown["facts"]["why"], shown["facts"]["by"]) == ("accepted", "read", "op")


def test_a_word_is_refused_and_unwritten_once_an_attempt_was_begun_since(world: World) -> None:
    seen, attempt = handed_in(world)
    with world.ledger.write() as tx:
        tasks.move(tx, seen.task_id, Event.BLOCK, reason=Reason.PULL_REQUEST_CLOSED, actor="test")
        orders.retry(tx, seen.task_id, why="again", actor="op")
    world.clock.advance(world.ledger.bounds.returned_first_ms)
    world.leased()
    before = contents(world.ledger)
    with pytest.raises(Rejected) as refused:
        judge(world, seen, attempt)
    assert refused.value.refusal is Refusal.EVIDENCE_MOVED_ON
    assert contents(world.ledger) == before
    assert rows(world.ledger, "acceptances") == []
