"""The description of the API: whole, valid, and true of what the tests are answered."""

import jsonschema_rs
import pytest
from flask import Flask

from ledger.access import Scope
from pipeline.errors import InvariantBroken
from tests.webhook.conforming import conforms
from tests.webhook.knocking import Knock
from tests.webhook.test_routes import EVERYBODY, LETS_IN
from webhook import auth, openapi


def test_every_route_is_described_with_its_scope_and_nothing_else_is(knock: Knock) -> None:
    described = knock("GET", "/v1/openapi.json").get_json()
    assert described["openapi"] == "3.1.0"
    found = {(m.upper(), p): op for p, operations in described["paths"].items() for m, op in operations.items()}
    assert set(found) == {(method, rule.replace("<", "{").replace(">", "}")) for method, rule in LETS_IN}
    for (method, rule), who in LETS_IN.items():
        operation = found[method, rule.replace("<", "{").replace(">", "}")]
        assert ("security" in operation) is (who != EVERYBODY), rule
        if isinstance(who, set):
            assert who == {scope for scope in Scope if Scope(operation["x-scope"]) in auth.COVERS[scope]}
        assert operation["description"].endswith("."), rule


def test_every_schema_is_a_schema_and_every_reference_is_there(app: Flask) -> None:
    components = openapi.describe(app)["components"]
    for name, schema in components["schemas"].items():
        assert schema["type"] in {"object", "string"}, name
        jsonschema_rs.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})


def test_a_refused_field_is_refused_by_the_description_too(app: Flask, knock: Knock) -> None:
    components = openapi.describe(app)["components"]
    orders = jsonschema_rs.Draft202012Validator({"$ref": "#/components/schemas/Order", "components": components})
    assert orders.is_valid({"why": "a reason"})
    for wrong in ({}, {"why": ""}, {"why": 7}, {"why": "a reason", "force": True}):
        assert not orders.is_valid(wrong)


def test_a_route_that_is_not_in_the_table_cannot_be_described() -> None:
    app = Flask("forgetful", static_folder=None)
    app.add_url_rule("/open", view_func=lambda: "come in")
    with pytest.raises(InvariantBroken, match="GET /open is not described"):
        openapi.describe(app)


def test_an_answer_that_is_not_the_described_one_is_found(app: Flask, knock: Knock) -> None:
    project = knock.store.project()
    answer = knock("GET", f"/v1/projects/{project.id}", scope=Scope.READ)
    conforms(app, "GET", f"/v1/projects/{project.id}", answer)
    with pytest.raises(AssertionError, match="/v1/tasks/x"):
        conforms(app, "GET", "/v1/tasks/x", answer)
