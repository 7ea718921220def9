"""`/v1/openapi.json`: the API described in OpenAPI 3.1, from the models that validate and the views that serve.

Which door takes and answers what stands in one table; the rest (summary, scope, parameters) is asked of the views
themselves. A route that is not in the table keeps the description, and with it the tests, from being made.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from flask import Blueprint, Flask, Response, current_app, jsonify
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ledger.access import Scope
from pipeline.errors import ensure
from webhook import answers, api_proofs, auth, problems, schemas

blueprint = Blueprint("openapi", __name__, url_prefix="/v1")

PATH = "/v1/openapi.json"
_OF_FLASK = frozenset({"HEAD", "OPTIONS"})
_COMPONENT = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Door:
    """What one route takes and answers. `answer` None: a document of its own media type. `takes` None with `raw`: bytes
    as they are. `nothing`: 204 is an answer too. `refuses`: nobody is ever granted it. `query`: the names that it knows
    behind the question mark."""

    answer: type[BaseModel] | None
    takes: type[BaseModel] | None = None
    status: int = 200
    media_type: str = "application/json"
    nothing: bool = False
    refuses: bool = False
    once: bool = False
    fenced: bool = False
    raw: str | None = None
    query: tuple[str, ...] = ()


_PAGE = ("cursor", "limit")
_DSSE = api_proofs.MEDIA_TYPE


def _order(takes: type[BaseModel]) -> Door:
    return Door(answers.Task, takes, once=True)


DOORS: Mapping[tuple[str, str], Door] = MappingProxyType(
    {
        ("POST", "/github/webhook"): Door(answers.Delivery, status=202, raw="application/json"),
        ("GET", "/healthz"): Door(answers.Alive),
        ("GET", "/readyz"): Door(answers.Ready),
        ("GET", PATH): Door(None),
        ("GET", "/v1/keys"): Door(answers.Keys),
        ("POST", "/v1/projects"): Door(answers.Project, schemas.NewProject, status=201, once=True),
        ("GET", "/v1/projects"): Door(answers.Projects, query=_PAGE),
        ("GET", "/v1/projects/<project>"): Door(answers.Project),
        ("POST", "/v1/projects/<project>/pause"): Door(answers.Project, schemas.Order, once=True),
        ("POST", "/v1/projects/<project>/resume"): Door(answers.Project, schemas.PlainOrder, once=True),
        ("POST", "/v1/tasks"): Door(answers.Task, schemas.NewTask, status=201, once=True),
        ("GET", "/v1/tasks"): Door(answers.Tasks, query=(*_PAGE, "project", "state")),
        ("GET", "/v1/tasks/<task>"): Door(answers.Task),
        ("GET", "/v1/tasks/<task>/outcome"): Door(answers.Outcome),
        ("GET", "/v1/tasks/<task>/why"): Door(answers.Why),
        ("GET", "/v1/tasks/<task>/why-unclaimed"): Door(answers.WhyUnclaimed),
        ("GET", "/v1/tasks/<task>/timeline"): Door(answers.Timeline, query=("cursor",)),
        ("GET", "/v1/tasks/<task>/proof"): Door(None, media_type=_DSSE),
        ("POST", "/v1/tasks/<task>/force-complete"): Door(None, refuses=True),
        ("POST", "/v1/tasks/<task>/stop"): _order(schemas.Order),
        ("POST", "/v1/tasks/<task>/start"): _order(schemas.PlainOrder),
        ("POST", "/v1/tasks/<task>/hold"): _order(schemas.Order),
        ("POST", "/v1/tasks/<task>/release"): _order(schemas.PlainOrder),
        ("POST", "/v1/tasks/<task>/retry"): _order(schemas.Order),
        ("POST", "/v1/tasks/<task>/cancel"): _order(schemas.Order),
        ("POST", "/v1/tasks/<task>/wave"): _order(schemas.Wave),
        ("POST", "/v1/tasks/<task>/accept"): Door(answers.Outcome, schemas.Judgement, once=True),
        ("POST", "/v1/leases"): Door(answers.Lease, schemas.LeaseRequest, status=201, nothing=True, once=True),
        ("POST", "/v1/leases/<lease>/heartbeat"): Door(answers.Beat, fenced=True),
        ("GET", "/v1/leases/<lease>/read-token"): Door(answers.ReadToken, fenced=True),
        ("POST", "/v1/leases/<lease>/bundle"): Door(
            answers.StoredBundle, status=201, fenced=True, raw="application/octet-stream"
        ),
        ("POST", "/v1/leases/<lease>/evidence"): Door(
            answers.TakenEvidence, schemas.Evidence, status=201, once=True, fenced=True
        ),
        ("POST", "/v1/leases/<lease>/release"): Door(answers.Released, schemas.Release, fenced=True),
        ("POST", "/v1/tokens"): Door(answers.Token, schemas.NewToken, status=201, once=True),
        ("POST", "/v1/admin/reclaim"): Door(answers.Ended),
        ("GET", "/v1/proofs/<task>"): Door(None, media_type=_DSSE),
    }
)


@blueprint.get("/openapi.json")
@auth.open_to_all("the description is the same for everybody, and says nothing about the work")
def show() -> Response:
    """This description."""
    return jsonify(describe(current_app))


def describe(app: Flask) -> dict[str, Any]:
    """The description of every route that the application serves. Raises `InvariantBroken` for one that the table does
    not know."""
    paths: dict[str, dict[str, Any]] = {}
    for rule in app.url_map.iter_rules():
        for method in sorted((rule.methods or set()) - _OF_FLASK):
            door = DOORS.get((method, rule.rule))
            ensure(door is not None, f"{method} {rule.rule} is not described")
            assert door is not None
            view = app.view_functions[rule.endpoint]
            path = re.sub(r"<([^>]+)>", r"{\1}", rule.rule)
            paths.setdefault(path, {})[method.lower()] = _operation(door, rule.endpoint, view, sorted(rule.arguments))
    return {
        "openapi": "3.1.0",
        "info": {"title": "mac hub", "version": "1", "summary": "Reviews work, lands it, and proves that it landed."},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(door: Door, endpoint: str, view: Any, names: list[str]) -> dict[str, Any]:
    needed = auth.declared(view)
    said = " ".join((view.__doc__ or "").split())
    described: dict[str, Any] = {"operationId": endpoint, "description": said, "responses": _responses(door)}
    described["parameters"] = [_parameter("path", name) for name in names] + _asked(door)
    if isinstance(needed, Scope):
        described |= {"security": [{"token": []}], "x-scope": needed.value}
    if door.takes is not None:
        described["requestBody"] = {"content": {"application/json": {"schema": _ref(door.takes)}}}
    elif door.raw is not None:
        described["requestBody"] = {"required": True, "content": {door.raw: {}}}
    return described


def _asked(door: Door) -> list[dict[str, Any]]:
    found = [_parameter("query", name) for name in door.query]
    if door.once:
        found.append(_parameter("header", "Idempotency-Key"))
    if door.fenced:
        found.append(_parameter("header", "Mac-Lease-Token", required=True))
    return found


def _parameter(where: str, name: str, *, required: bool = False) -> dict[str, Any]:
    return {"in": where, "name": name, "required": required or where == "path", "schema": {"type": "string"}}


def _responses(door: Door) -> dict[str, Any]:
    schema = {"type": "object"} if door.answer is None else _ref(door.answer)
    good = {"description": "Done.", "content": {door.media_type: {"schema": schema}}}
    refused = {"description": "Refused by name.", "content": {problems.MEDIA_TYPE: {"schema": _ref(answers.Problem)}}}
    found = {"default": refused} if door.refuses else {str(door.status): good, "default": refused}
    if door.answer is answers.Ready:
        found["503"] = good | {"description": "Not ready."}
    if door.nothing:
        found["204"] = {"description": "Nothing to do."}
    return found


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _COMPONENT.format(model=model.__name__)}


def _schemas() -> dict[str, Any]:
    taken = [door.takes for door in DOORS.values() if door.takes is not None]
    said: list[type[BaseModel]] = [answers.Problem, *(door.answer for door in DOORS.values() if door.answer is not None)]
    models: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = []
    models += [(model, "validation") for model in set(taken)]
    models += [(model, "serialization") for model in set(said)]
    _, found = models_json_schema(models, by_alias=True, ref_template=_COMPONENT)
    return dict(sorted(found["$defs"].items()))
