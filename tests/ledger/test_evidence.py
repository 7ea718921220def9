"""Evidence: taken in with everything that follows from it, or refused by name with nothing written."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger import evidence, leases, orders, review
from ledger.bounds import Bounds
from ledger.leases import LeasedTask
from pipeline.canonical import digest, digest_bytes
from pipeline.facts import Deliverable
from pipeline.refusals import Refusal
from tests.ledger.refusing import refused
from tests.ledger.world import BASE, HEAD, World, bundle, change_document, report_document, rows


@pytest.fixture
def held(world: World) -> LeasedTask:
    world.task(world.project())
    return world.leased()


def _submit(world: World, held: LeasedTask, document: dict[str, Any]) -> evidence.Submitted:
    return evidence.submit(world.ledger, held.lease_id, held.token, held.worker_id, document)


def _store(world: World, held: LeasedTask, content: bytes) -> evidence.Stored:
    return evidence.store_bundle(world.ledger, held.lease_id, held.token, held.worker_id, content)


def test_evidence_ends_the_lease_and_begins_the_publication(world: World, held: LeasedTask) -> None:
    _store(world, held, bundle())
    world.bell.rung.clear()
    taken = _submit(world, held, change_document())
    assert taken.digest == digest(change_document())
    assert world.state(held.task.id) == "reviewing"
    assert rows(world.ledger, "leases")[0]["released_at"] == world.clock.at
    [publication] = rows(world.ledger, "publications")
    assert (publication["id"], publication["head"], publication["next_look_at"]) == (
        taken.publication_id,
        HEAD,
        world.clock.at,
    )
    [branch] = rows(world.ledger, "branches")
    assert (branch["generation"], world.bell.rung) == (1, [branch["id"]])


def test_the_same_lease_takes_no_second_evidence(world: World, held: LeasedTask) -> None:
    _store(world, held, bundle())
    _submit(world, held, change_document())
    with refused(world.ledger, Refusal.LEASE_STALE):
        _submit(world, held, change_document())


def test_a_bundle_is_read_back_byte_for_byte(world: World, held: LeasedTask) -> None:
    stored = _store(world, held, bundle())
    with world.ledger.read() as tx:
        assert evidence.read_bundle(tx, stored.bundle_id) == bundle()


def test_a_later_bundle_of_the_lease_replaces_the_first(world: World, held: LeasedTask) -> None:
    _store(world, held, bundle("e" * 40))
    _store(world, held, bundle())
    assert [row["sha256"] for row in rows(world.ledger, "bundles")] == [digest_bytes(bundle())]
    _submit(world, held, change_document())


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name)


def _with(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update({name: value})


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (_with("head", "e" * 40), Refusal.HEAD_NOT_IN_BUNDLE),
        (_with("head", BASE), Refusal.HEAD_NOT_IN_BUNDLE),
        (_with("bundle", "0" * 64), Refusal.BUNDLE_MISSING),
        (_without("bundle"), Refusal.BUNDLE_MISSING),
        (_with("head", "HEAD"), Refusal.EVIDENCE_INVALID),
        (_with("tree", 7), Refusal.EVIDENCE_INVALID),
        (_without("verified_base"), Refusal.EVIDENCE_INVALID),
        (_with("kind", "trust_me"), Refusal.EVIDENCE_INVALID),
        (_with("usage", {"input_tokens": 1.5}), Refusal.EVIDENCE_INVALID),
        (_with("padding", "x" * Bounds().request_body_bytes_max), Refusal.EVIDENCE_TOO_LARGE),
    ],
)
def test_wrong_evidence_is_refused_by_name(
    world: World, held: LeasedTask, change: Callable[[dict[str, Any]], None], refusal: Refusal
) -> None:
    _store(world, held, bundle())
    document = change_document()
    change(document)
    with refused(world.ledger, refusal):
        _submit(world, held, document)
    assert world.state(held.task.id) == "claimed"


def test_evidence_that_names_a_bundle_of_nobody_is_refused(world: World, held: LeasedTask) -> None:
    with refused(world.ledger, Refusal.BUNDLE_MISSING):
        _submit(world, held, change_document())


def test_a_report_cannot_close_a_code_task(world: World, held: LeasedTask) -> None:
    with refused(world.ledger, Refusal.DELIVERABLE_MISMATCH):
        _submit(world, held, report_document())


def test_a_diff_cannot_close_a_report_task(world: World) -> None:
    world.task(world.project(), deliverable=Deliverable.REPORT)
    held = world.leased()
    _store(world, held, bundle())
    with refused(world.ledger, Refusal.DELIVERABLE_MISMATCH):
        _submit(world, held, change_document())
    assert world.submitted(held).task_id == held.task.id


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"", Refusal.BUNDLE_INVALID),
        (b"# v2 git bundle\nnonsense\n\nPACK", Refusal.BUNDLE_INVALID),
        (b"PK\x03\x04", Refusal.BUNDLE_INVALID),
        (bundle() + b"x" * Bounds().bundle_bytes_max, Refusal.BUNDLE_TOO_LARGE),
    ],
)
def test_what_is_no_bundle_is_not_kept(world: World, held: LeasedTask, content: bytes, refusal: Refusal) -> None:
    with refused(world.ledger, refusal):
        _store(world, held, content)


def test_evidence_under_a_stop_still_comes_in_and_is_stopped_at_its_look(world: World, held: LeasedTask) -> None:
    with world.ledger.write() as tx:
        orders.stop(tx, held.task.id, actor="op")
    taken = world.submitted(held)
    assert world.state(held.task.id) == "reviewing"
    assert rows(world.ledger, "tasks", id=taken.task_id)[0]["stop_requested_at"] == world.clock.at


def test_each_attempt_has_its_own_publication_and_one_only_lives(world: World, held: LeasedTask) -> None:
    taken = world.submitted(held)
    look = world.look_at(taken.publication_id)
    review.record_push(world.ledger, look, HEAD)
    assert leases.lease(world.ledger, held.worker_id) is None
    assert [row["attempt_id"] for row in rows(world.ledger, "publications")] == [held.attempt_id]
