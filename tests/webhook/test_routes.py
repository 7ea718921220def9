"""Every route, and whom it lets in."""

import re

import pytest
from flask import Flask

from ledger.access import Scope
from ledger.migrate import migrations
from pipeline.errors import InvariantBroken
from tests.webhook.knocking import Knock, problem
from webhook import auth

READERS = {Scope.READ, Scope.OPERATOR, Scope.ADMIN}
OPERATORS = {Scope.OPERATOR, Scope.ADMIN}
ADMINS = {Scope.ADMIN}
EXECUTORS = {Scope.EXECUTOR}
EVERYBODY = "everybody"
OF_FLASK = {"HEAD", "OPTIONS"}

LETS_IN: dict[tuple[str, str], set[Scope] | str] = {
    ("POST", "/github/webhook"): EVERYBODY,  # by its signature, see test_receive
    ("GET", "/healthz"): EVERYBODY,
    ("GET", "/readyz"): EVERYBODY,
    ("GET", "/v1/keys"): EVERYBODY,
    ("GET", "/v1/openapi.json"): EVERYBODY,
    ("POST", "/v1/projects"): ADMINS,
    ("GET", "/v1/projects"): READERS,
    ("GET", "/v1/projects/<project>"): READERS,
    ("POST", "/v1/tasks"): OPERATORS,
    ("GET", "/v1/tasks"): READERS,
    ("GET", "/v1/tasks/<task>"): READERS,
    ("GET", "/v1/tasks/<task>/outcome"): READERS,
    ("GET", "/v1/tasks/<task>/why"): READERS,
    ("GET", "/v1/tasks/<task>/why-unclaimed"): READERS,
    ("GET", "/v1/tasks/<task>/timeline"): READERS,
    ("GET", "/v1/tasks/<task>/proof"): READERS,
    ("POST", "/v1/tasks/<task>/force-complete"): OPERATORS,
    ("POST", "/v1/projects/<project>/pause"): OPERATORS,
    ("POST", "/v1/projects/<project>/resume"): OPERATORS,
    ("POST", "/v1/tasks/<task>/stop"): OPERATORS,
    ("POST", "/v1/tasks/<task>/start"): OPERATORS,
    ("POST", "/v1/tasks/<task>/hold"): OPERATORS,
    ("POST", "/v1/tasks/<task>/release"): OPERATORS,
    ("POST", "/v1/tasks/<task>/retry"): OPERATORS,
    ("POST", "/v1/tasks/<task>/cancel"): OPERATORS,
    ("POST", "/v1/tasks/<task>/wave"): OPERATORS,
    ("POST", "/v1/tasks/<task>/accept"): OPERATORS,
    ("POST", "/v1/leases"): EXECUTORS,
    ("POST", "/v1/leases/<lease>/heartbeat"): EXECUTORS,
    ("GET", "/v1/leases/<lease>/read-token"): EXECUTORS,
    ("POST", "/v1/leases/<lease>/bundle"): EXECUTORS,
    ("POST", "/v1/leases/<lease>/evidence"): EXECUTORS,
    ("POST", "/v1/leases/<lease>/release"): EXECUTORS,
    ("POST", "/v1/tokens"): ADMINS,
    ("POST", "/v1/admin/reclaim"): ADMINS,
    ("GET", "/v1/proofs/<task>"): READERS,
}


def path(rule: str) -> str:
    return re.sub(r"<[^>]+>", "absent", rule)


def test_no_route_is_missing_from_the_table(app: Flask) -> None:
    rules = list(app.url_map.iter_rules())
    served = {(method, rule.rule) for rule in rules for method in rule.methods or () if method not in OF_FLASK}
    assert served == set(LETS_IN)


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(("method", "rule"), [route for route, who in LETS_IN.items() if who != EVERYBODY])
def test_a_token_opens_what_its_scope_covers_and_nothing_else(
    method: str, rule: str, scope: Scope, knock: Knock
) -> None:
    knock.store.token(scope)
    before = knock.store.counts()
    answer = knock(method, path(rule), scope=scope)
    if scope in LETS_IN[method, rule]:
        assert answer.status_code not in {401, 403}
    else:
        assert problem(answer) == (403, "scope_missing")
        assert knock.store.counts() == before


@pytest.mark.parametrize(("method", "rule"), [route for route, who in LETS_IN.items() if who != EVERYBODY])
def test_without_a_token_every_other_door_is_closed(method: str, rule: str, knock: Knock) -> None:
    before = knock.store.counts()
    assert problem(knock(method, path(rule))) == (401, "token_missing")
    wrong = {"Authorization": "Bearer not-a-token"}
    assert problem(knock(method, path(rule), headers=wrong)) == (401, "token_unknown")
    basic = {"Authorization": f"Basic {knock.store.token(Scope.ADMIN).secret}"}
    assert problem(knock(method, path(rule), headers=basic)) == (401, "token_missing")
    assert {**knock.store.counts(), "tokens": 0, "history": 0} == {**before, "tokens": 0, "history": 0}


def test_a_revoked_token_opens_nothing(knock: Knock) -> None:
    from ledger import access

    token = knock.store.token(Scope.READ)
    assert knock("GET", "/v1/tasks", scope=Scope.READ).status_code == 200
    with knock.store.ledger.write() as tx:
        access.revoke(tx, token.token_id, actor="test")
    assert problem(knock("GET", "/v1/tasks", scope=Scope.READ)) == (401, "token_unknown")


def test_a_path_that_is_no_route_is_refused_in_the_same_shape(knock: Knock) -> None:
    assert problem(knock("GET", "/v1/nothing")) == (404, "route_unknown")
    wrong = knock("DELETE", "/v1/tasks", scope=Scope.ADMIN)
    assert problem(wrong) == (405, "method_not_allowed")
    assert "POST" in wrong.headers["Allow"]


def test_a_view_that_declares_no_scope_keeps_the_application_from_being_built() -> None:
    app = Flask("forgetful", static_folder=None)
    app.add_url_rule("/open", view_func=lambda: "come in")
    with pytest.raises(InvariantBroken, match="/open declares no scope"):
        auth.close_doors(app)


def test_the_web_process_says_what_it_is(knock: Knock) -> None:
    said = knock("GET", "/healthz").get_json()
    assert said["schema"] == len(migrations("sqlite"))
    assert re.fullmatch(r"[0-9a-f]{40}", said["revision"])
    assert knock("GET", "/readyz").status_code == 200
