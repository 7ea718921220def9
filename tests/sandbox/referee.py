"""Holds every request and every answer against GitHub's own published description.

The description is data of GitHub's and is not part of this project: `MAC_GITHUB_DESCRIPTION` names the folder with
`rest.json` and `webhooks.json`, else `../shared/github` beside the project is taken. Without it the referee is off, and
says so once, aloud.
"""

import functools
import json
import os
import re
import sys
from collections.abc import Iterator
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
"""Served and documented by GitHub, but outside of the part of the description that tests have."""


UNDESCRIBED_EVENTS = {"issue_comment"}
"""Sent, and heard by Apps, but outside of the part of the description that tests have."""

DEFECTS = {("GET", "/app/installations", "account"), ("GET", "/app/installations", "client_id")}
"""Members that the description has wrong: it wants an account to be a person and an enterprise at once."""

ON_RECORD_IN_ERRORS = "/status: unknown member"
"""Public recordings have `status` in every error; the description knows it in some."""

NAMED_FOLDER = os.environ.get("MAC_GITHUB_DESCRIPTION")
"""Read when the process starts: tests run without any setting from outside."""


def description_folder() -> Path | None:
    """Where the description is on this machine, if anywhere."""
    folder = Path(NAMED_FOLDER) if NAMED_FOLDER else Path(__file__).resolve().parents[3] / "shared" / "github"
    return folder if (folder / "rest.json").is_file() else None


@functools.cache
def load(folder: Path) -> "Description":
    return Description(folder)


class Referee:
    """Collects violations; a test ends with `assert_clean()`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        folder = description_folder()
        self.description = load(folder) if folder is not None else None
        if folder is None:
            _say_off()

    def judge_request(self, method: str, route: str, body: Json) -> None:
        if self.description is not None:
            self._note(f"{method} {route}: request", self.description.request_faults(method, route, body))

    def judge_answer(self, method: str, route: str, status: int, body: Any) -> None:
        if self.description is not None:
            self._note(f"{method} {route}: {status}", self.description.answer_faults(method, route, status, body))

    def judge_event(self, event: str, payload: Json) -> None:
        if self.description is not None:
            name = f"{event} {payload.get('action', '')}".strip()
            self._note(f"event {name}", self.description.event_faults(event, payload))

    def assert_clean(self) -> None:
        """Raises AssertionError with every violation seen so far, and forgets them."""
        seen, self.violations = self.violations, []
        assert not seen, "against GitHub's description:\n" + "\n".join(dict.fromkeys(seen))

    def expect_breach(self, words: str) -> None:
        """A test broke the description on purpose: takes those violations away; raises AssertionError if none was."""
        if self.description is not None:
            kept = [violation for violation in self.violations if words not in violation]
            assert len(kept) < len(self.violations), f"no violation says {words!r}: {self.violations}"
            self.violations = kept

    def _note(self, where: str, faults: Iterator[str]) -> None:
        self.violations += [f"{where}: {fault}" for fault in faults]


@functools.cache
def _say_off() -> None:
    sys.stderr.write("referee off: GitHub's description was not found; set MAC_GITHUB_DESCRIPTION\n")


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

    def answer_faults(self, method: str, route: str, status: int, body: Any) -> Iterator[str]:
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
            described = self._responses[described["$ref"].rsplit("/", 1)[-1]]
        content = described.get("content", {}).get("application/json")
        if content is None or status == 304:
            return
        for fault in self._faults(f"< {method} {route} {status}", content["schema"], self._schemas, body):
            member = fault.partition(":")[0].rpartition("/")[2]
            if (method, route, member) in DEFECTS or (status >= 400 and fault == ON_RECORD_IN_ERRORS):
                continue
            yield fault

    def event_faults(self, event: str, payload: Json) -> Iterator[str]:
        name = "-".join([event, payload.get("action", "")]).replace("_", "-").strip("-")
        if event in UNDESCRIBED_EVENTS:
            return
        if name not in self._hooks:
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
        yield from _resolved(schemas[schema["$ref"].rsplit("/", 1)[-1]], schemas)
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
