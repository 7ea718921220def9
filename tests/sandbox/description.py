"""GitHub's published description, loaded: what is wrong with a request, an answer or an event by its word.

The description is data of GitHub's and no part of this project; `tests.sandbox.fetched` says where it is found.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.sandbox.world import Json

UNDESCRIBED_STATUSES = {301, 304, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 502, 503}
"""Errors and redirects exist on every operation, whether or not it describes them; their bodies are then not judged."""

UNDESCRIBED_OPERATIONS = {
    ("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission"),
    ("GET", "/repos/{owner}/{repo}/rulesets/{ruleset_id}"),
    ("POST", "/repos/{owner}/{repo}/rulesets"),
    ("POST", "/repos/{owner}/{repo}/check-runs/{check_run_id}/rerequest"),
}
"""Served and documented by GitHub, but outside of the part of the description that tests may have."""

UNDESCRIBED_EVENTS = {"issue_comment"}
"""Sent, and heard by Apps, but outside of the part of the description that tests have."""

DEFECTS = {("GET", "/app/installations", "account"), ("GET", "/app/installations", "client_id")}
"""Members that the description has wrong: it wants an account to be a person and an enterprise at once."""

ON_RECORD_IN_ERRORS = "/status: unknown member"
"""Public recordings have `status` in every error; the description knows it in some."""


@functools.cache
def load(folder: Path) -> "Description":
    """The description in this folder, loaded once in a process."""
    return Description(folder)


class Description:
    """The loaded description, with validators made on first use."""

    def __init__(self, folder: Path) -> None:
        rest = _without_nullable(json.loads((folder / "rest.json").read_text()))
        self._operations: dict[tuple[str, str], Json] = {
            (method.upper(), re.sub(r"{.*?}", "{}", path)): entry
            for path, methods in rest["paths"].items()
            for method, entry in methods.items()
        }
        self._schemas: Json = rest["components"]["schemas"]
        self._responses: Json = rest["components"].get("responses", {})
        self._parameters: Json = rest["components"].get("parameters", {})
        self.operations: dict[tuple[str, str], tuple[str, ...]] = {
            (method.upper(), path): tuple(sorted(entry["responses"]))
            for path, methods in rest["paths"].items()
            for method, entry in methods.items()
        }
        """Every operation that is described, by method and path, with the statuses that it names."""
        hooks = json.loads((folder / "webhooks.json").read_text())
        self._hooks: dict[str, Json] = {
            name: entry["post"]["requestBody"]["content"]["application/json"]["schema"]
            for name, entry in hooks["webhooks"].items()
        }
        self._hook_schemas: Json = hooks["components"]["schemas"]
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def _operation(self, method: str, route: str) -> Json | None:
        return self._operations.get((method, re.sub(r"{.*?}", "{}", route)))

    def request_faults(self, method: str, route: str, body: Json) -> Iterator[str]:
        """What is wrong with a request's body: types, and members that GitHub would ignore."""
        entry = self._operation(method, route) or {}
        content = entry.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            yield from (f"unknown member {name}" for name in body if entry and method != "GET")
            return
        yield from self._faults(f"> {method} {route}", content["schema"], self._schemas, body)

    def query_faults(self, method: str, route: str, query: Mapping[str, str]) -> Iterator[str]:
        """What is wrong with a query: names that GitHub would ignore, words outside a closed list, numbers that are none."""
        entry = self._operation(method, route)
        if entry is None:
            return
        listed = [self._parameters[_name(one)] if "$ref" in one else one for one in entry.get("parameters", [])]
        known = {one["name"]: one["schema"] for one in listed if one["in"] == "query"}
        for name, value in query.items():
            if name not in known:
                yield f"unknown parameter {name}"
            elif value not in known[name].get("enum", [value]):
                yield f"parameter {name}: {value!r} is none of {known[name]['enum']}"
            elif known[name].get("type") == "integer" and not value.isdigit():
                yield f"parameter {name}: {value!r} is no number"

    def answer_faults(self, method: str, route: str, status: int, body: Any) -> Iterator[str]:
        """What is wrong with an answer: an operation or status that is not described, wrong types, unknown members."""
        entry = self._operation(method, route)
        if entry is None:
            if (method, route) not in UNDESCRIBED_OPERATIONS:
                yield "the operation is not described"
            return
        described = entry["responses"].get(str(status))
        if described is None:
            if status not in UNDESCRIBED_STATUSES:
                yield "the status is not described"
            return
        if "$ref" in described:
            described = self._responses[_name(described)]
        content = described.get("content", {}).get("application/json")
        if content is None or status == 304:
            return
        for fault in self._faults(f"< {method} {route} {status}", content["schema"], self._schemas, body):
            member = fault.partition(":")[0].rpartition("/")[2]
            if (method, route, member) in DEFECTS or (status >= 400 and fault == ON_RECORD_IN_ERRORS):
                continue
            yield fault

    def event_faults(self, event: str, payload: Json) -> Iterator[str]:
        """What is wrong with an event's payload, by the schema of its name and action."""
        name = "-".join([event, payload.get("action", "")]).replace("_", "-").strip("-")
        if name not in self._hooks:
            if event in UNDESCRIBED_EVENTS:
                return
            yield "the event is not described"
            return
        yield from self._faults(f"! {name}", self._hooks[name], self._hook_schemas, payload)

    def _faults(self, key: str, schema: Json, schemas: Json, value: Any) -> Iterator[str]:
        if key not in self._validators:
            whole = {**schema, "components": {"schemas": schemas}}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=False)
        for error in self._validators[key].iter_errors(value):
            yield f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}"
        yield from unknown_members(schema, schemas, value, "")


def _name(reference: Json) -> str:
    return str(reference["$ref"]).rsplit("/", 1)[-1]


def _without_nullable(node: Any) -> Any:
    """OpenAPI 3.0's `nullable`, told in the words of JSON Schema."""
    if isinstance(node, list):
        return [_without_nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _without_nullable(value) for key, value in node.items() if key != "nullable"}
    if node.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _resolved(schema: Json, schemas: Json) -> Iterator[Json]:
    """A schema and all parts that it is put together from."""
    if "$ref" in schema:
        yield from _resolved(schemas[_name(schema)], schemas)
        return
    yield schema
    for word in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(word, []):
            yield from _resolved(part, schemas)


def unknown_members(schema: Json, schemas: Json, value: Any, where: str) -> Iterator[str]:
    """Members that no part of the schema knows; places that are open by their own word are left alone."""
    parts = list(_resolved(schema, schemas))
    if isinstance(value, list):
        kinds = [part["items"] for part in parts if isinstance(part.get("items"), dict)]
        for index, item in enumerate(value):
            yield from unknown_members({"anyOf": kinds}, schemas, item, f"{where}/{index}")
        return
    if not isinstance(value, dict):
        return
    known: dict[str, list[Json]] = {}
    for part in parts:
        for name, inner in part.get("properties", {}).items():
            known.setdefault(name, []).append(inner)
    open_here = not known or any(part.get("additionalProperties") for part in parts)
    for name, item in value.items():
        if name in known:
            yield from unknown_members({"anyOf": known[name]}, schemas, item, f"{where}/{name}")
        elif not open_here:
            yield f"{where}/{name}: unknown member"
