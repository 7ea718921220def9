"""Tokens, workers, and answers that are given again."""

import pytest

from ledger import access, idempotency, roster
from ledger.access import Scope
from ledger.idempotency import Answer
from pipeline.refusals import Refusal
from tests.ledger.refusing import refused
from tests.ledger.world import World, rows


def test_the_first_token_is_made_once(world: World) -> None:
    with world.ledger.write() as tx:
        first = access.bootstrap(tx, actor="console")
    assert first.scope is Scope.ADMIN
    with refused(world.ledger, Refusal.BOOTSTRAP_DONE), world.ledger.write() as tx:
        access.bootstrap(tx, actor="console")


def test_a_revoked_first_token_does_not_open_the_door_again(world: World) -> None:
    with world.ledger.write() as tx:
        first = access.bootstrap(tx, actor="console")
        access.revoke(tx, first.token_id, actor="console")
    with refused(world.ledger, Refusal.BOOTSTRAP_DONE), world.ledger.write() as tx:
        access.bootstrap(tx, actor="console")


def test_a_secret_is_not_in_the_ledger(world: World) -> None:
    secret = world.token(Scope.OPERATOR)
    found = repr(rows(world.ledger, "tokens")) + repr(rows(world.ledger, "history"))
    assert secret not in found
    with world.ledger.read() as tx:
        assert access.who(tx, secret).scope is Scope.OPERATOR


@pytest.mark.parametrize("secret", ["", "guess", "0" * 43])
def test_an_unknown_secret_is_nobody(world: World, secret: str) -> None:
    world.token(Scope.ADMIN)
    with refused(world.ledger, Refusal.TOKEN_UNKNOWN), world.ledger.read() as tx:
        access.who(tx, secret)


def test_a_revoked_token_is_unknown_from_then_on(world: World) -> None:
    with world.ledger.write() as tx:
        issued = access.issue(tx, scope=Scope.READ, label="x", actor="test")
        access.revoke(tx, issued.token_id, actor="test")
        access.revoke(tx, issued.token_id, actor="test")
    assert len(rows(world.ledger, "history", event="token_revoked")) == 1
    with refused(world.ledger, Refusal.TOKEN_UNKNOWN), world.ledger.read() as tx:
        access.who(tx, issued.secret)


@pytest.mark.parametrize("scope", list(Scope))
def test_executor_and_batch_tokens_and_only_these_are_bound_to_a_worker(world: World, scope: Scope) -> None:
    bound = scope in (Scope.EXECUTOR, Scope.BATCH)
    with world.ledger.read() as tx:
        actor = access.who(tx, world.token(scope, "worker-1" if bound else None))
    assert (actor.worker_id is not None) is bound
    with refused(world.ledger, Refusal.FIELD_INVALID):
        world.token(scope, None if bound else "worker-1")


def test_a_worker_is_one_however_often_it_is_named(world: World) -> None:
    with world.ledger.write() as tx:
        assert roster.worker(tx, "a") == roster.worker(tx, "a")
        assert roster.worker(tx, "b") != roster.worker(tx, "a")


def _keep(world: World, *, request: str = "r1", body: str = "first", route: str = "POST /v1/tasks") -> Answer:
    with world.ledger.write() as tx:
        return idempotency.keep(tx, actor="a", key="k", route=route, request_sha256=request, answer=Answer(201, body))


def test_a_repeated_request_gets_the_first_answer(world: World) -> None:
    assert _keep(world) == Answer(201, "first")
    assert _keep(world, body="second") == Answer(201, "first")
    with world.ledger.read() as tx:
        again = idempotency.replay(tx, actor="a", key="k", route="POST /v1/tasks", request_sha256="r1")
        other = idempotency.replay(tx, actor="b", key="k", route="POST /v1/tasks", request_sha256="r1")
    assert (again, other) == (Answer(201, "first"), None)


@pytest.mark.parametrize("changed", [{"request": "r2"}, {"route": "POST /v1/leases"}])
def test_a_key_is_not_used_for_another_request(world: World, changed: dict[str, str]) -> None:
    _keep(world)
    with refused(world.ledger, Refusal.IDEMPOTENCY_KEY_REUSED):
        _keep(world, **changed)


def test_old_answers_are_forgotten_at_their_edge(world: World) -> None:
    _keep(world)
    with world.ledger.write() as tx:
        assert idempotency.prune(tx, older_than=world.clock.at) == 0
        assert idempotency.prune(tx, older_than=world.clock.at + 1) == 1
