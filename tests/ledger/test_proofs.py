"""Completion: by a verified landing or an approved report, written as one whole, and by nothing else."""

import pytest
from sqlalchemy import event

from ledger import dossier, intents, orders, proofs, publication, reports, review
from ledger.proofs import Approved, ChainHead, Landed
from ledger.publication import Look
from pipeline.errors import InvariantBroken
from pipeline.facts import Deliverable, VerdictResult
from pipeline.refusals import Refusal
from tests.ledger.proving import land_intent, landed, proof_of
from tests.ledger.refusing import refused
from tests.ledger.world import CONTRACT, HEAD, World, contents, rows, verdict


@pytest.fixture
def look(world: World) -> Look:
    """A look at an approved change."""
    return world.look_at(world.approved(world.project()).publication_id)


def test_a_verified_landing_completes_everything_at_once(world: World, look: Look) -> None:
    intent = landed(world, look)
    assert world.state(look.task_id) == "completed"
    assert rows(world.ledger, "intents")[0]["state"] == "done"
    [row] = rows(world.ledger, "publications")
    assert (row["state"], row["closed_as"], row["landing"]) == ("closed", "landed", "proven")
    with world.ledger.read() as tx:
        proof = proofs.proof_of(tx, look.task_id)
        assert (proof.intent_id, proof.sequence, proof.previous) == (intent.id, 1, None)
        assert proofs.chain_head(tx, look.branch_id) == ChainHead(1, proof.digest)
        assert reports.outcome(tx, look.task_id)["publication"]["proof"]["facts"]["digest"] == proof.digest


def test_each_branch_has_one_chain(world: World) -> None:
    project, other = world.project(), world.project()
    for _ in range(3):
        landed(world, world.look_at(world.approved(project, head=HEAD).publication_id))
    landed(world, world.look_at(world.approved(other, head=HEAD).publication_id))
    with world.ledger.read() as tx:
        chain = proofs.chain(tx, project.branch_id)
        assert [proof.sequence for proof in chain] == [1, 2, 3]
        assert [proof.previous for proof in chain] == [None, chain[0].digest, chain[1].digest]
        head = proofs.chain_head(tx, other.branch_id)
        assert head is not None
        assert head.sequence == 1


def test_a_proof_out_of_the_chain_is_refused(world: World, look: Look) -> None:
    wrong = land_intent(world, look, world.slot(look.branch_id), after=ChainHead(4, "f" * 64))
    with refused(world.ledger, Refusal.PROOF_REFUSED):
        proofs.complete(world.ledger, look, Landed(proof_of(wrong)))


def test_a_proof_without_its_open_intent_is_refused(world: World, look: Look) -> None:
    intent = land_intent(world, look, world.slot(look.branch_id))
    proof = proof_of(intent)
    intents.void(world.ledger, intent.id, "it was asleep")
    with refused(world.ledger, Refusal.PROOF_REFUSED):
        proofs.complete(world.ledger, look, Landed(proof))


def test_a_proof_of_another_change_is_refused(world: World) -> None:
    project = world.project()
    first, second = world.approved(project, head=HEAD), world.approved(project, head=HEAD)
    intent = land_intent(world, world.look_at(first.publication_id), world.slot(project.branch_id))
    look = world.look_at(second.publication_id)
    with refused(world.ledger, Refusal.PROOF_REFUSED):
        proofs.complete(world.ledger, look, Landed(proof_of(intent)))


def test_an_overtaken_look_completes_nothing(world: World, look: Look) -> None:
    intent = land_intent(world, look, world.slot(look.branch_id))
    world.look_at(look.publication_id)
    with refused(world.ledger, Refusal.LEASE_STALE):
        proofs.complete(world.ledger, look, Landed(proof_of(intent)))


@pytest.mark.parametrize("outcome", [True, "pass", None, {"status": "pass"}, b"envelope"])
def test_nothing_but_the_two_outcomes_completes(world: World, look: Look, outcome: object) -> None:
    land_intent(world, look, world.slot(look.branch_id))
    before = contents(world.ledger)
    for given in (outcome, Landed(outcome)):  # type: ignore[arg-type]  # what no caller may give
        with pytest.raises(InvariantBroken):
            proofs.complete(world.ledger, look, given)  # type: ignore[arg-type]  # what no caller may give
    assert contents(world.ledger) == before


def test_an_approval_does_not_complete_code(world: World, look: Look) -> None:
    digest = str(rows(world.ledger, "verdicts")[0]["digest"])
    with refused(world.ledger, Refusal.FORCE_COMPLETE_REFUSED):
        proofs.complete(world.ledger, look, Approved(digest))


def test_a_report_is_completed_by_its_approved_verdict(world: World) -> None:
    world.task(world.project(), deliverable=Deliverable.REPORT)
    submitted = world.submitted()
    look = world.look_at(submitted.publication_id)
    with refused(world.ledger, Refusal.PROOF_REFUSED):
        proofs.complete(world.ledger, look, Approved(verdict(submitted).digest))
    review.record_verdict(world.ledger, look, verdict(submitted), CONTRACT)
    assert world.state(look.task_id) == "reviewing"
    proofs.complete(world.ledger, look, Approved(verdict(submitted).digest))
    assert world.state(look.task_id) == "completed"
    assert rows(world.ledger, "proofs") == []


def test_a_rejected_report_is_not_completed(world: World) -> None:
    world.task(world.project(), deliverable=Deliverable.REPORT)
    submitted = world.submitted()
    look = world.look_at(submitted.publication_id)
    rejected = verdict(submitted, VerdictResult.REJECTED)
    review.record_verdict(world.ledger, look, rejected, CONTRACT)
    with refused(world.ledger, Refusal.PROOF_REFUSED):
        proofs.complete(world.ledger, look, Approved(rejected.digest))


def test_a_completion_that_breaks_in_the_middle_leaves_nothing(world: World, look: Look) -> None:
    intent = land_intent(world, look, world.slot(look.branch_id))
    proof, before = proof_of(intent), contents(world.ledger)

    def break_down(_c: object, _x: object, statement: str, *_more: object) -> None:
        if statement.startswith("UPDATE publications SET state"):
            raise ConnectionError("the power failed")

    event.listen(world.ledger.engine, "before_cursor_execute", break_down)
    with pytest.raises(ConnectionError):
        proofs.complete(world.ledger, look, Landed(proof))
    event.remove(world.ledger.engine, "before_cursor_execute", break_down)
    assert contents(world.ledger) == before
    proofs.complete(world.ledger, look, Landed(proof))
    assert world.state(look.task_id) == "completed"


def test_a_landing_ahead_of_the_first_is_counted_against_it(world: World) -> None:
    project = world.project()
    first = world.approved(project, head=HEAD)
    world.clock.advance(1)
    second = world.approved(project, head=HEAD)
    landed(world, world.look_at(second.publication_id))
    assert dossier.dossier(world.ledger, first.publication_id).line.passed == 1
    assert publication.has_due(world.ledger, project.branch_id)


def test_a_landing_of_the_first_is_counted_against_nobody(world: World) -> None:
    project = world.project()
    first = world.approved(project, head=HEAD)
    world.clock.advance(1)
    second = world.approved(project, head=HEAD)
    landed(world, world.look_at(first.publication_id))
    found = dossier.dossier(world.ledger, second.publication_id).line
    assert (found.before, found.passed) == ((), 0)


def test_what_landed_while_a_stop_was_asked_for_is_completed(world: World, look: Look) -> None:
    intent = land_intent(world, look, world.slot(look.branch_id))
    with world.ledger.write() as tx:
        orders.stop(tx, look.task_id, actor="op")
    proofs.complete(world.ledger, look, Landed(proof_of(intent)))
    assert world.state(look.task_id) == "completed"
