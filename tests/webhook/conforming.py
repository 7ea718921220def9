"""Real answers, held against the description of the API that the application itself serves."""

import json
from functools import cache
from typing import Any

import jsonschema_rs
from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from webhook import openapi, problems


def conforms(app: Flask, method: str, path: str, answer: TestResponse) -> None:
    """Fail unless the answer is one that its route's description admits. What is no route is refused in the one shape."""
    described = _described(app)
    try:
        rule, _ = app.url_map.bind("").match(path.partition("?")[0], method=method, return_rule=True)
    except HTTPException:
        assert answer.content_type == problems.MEDIA_TYPE
        return
    door = openapi.DOORS[method, rule.rule]
    responses = described["paths"][rule.rule.replace("<", "{").replace(">", "}")][method.lower()]["responses"]
    chosen = responses.get(str(answer.status_code), responses["default"])
    if "content" not in chosen:
        assert answer.data == b""
        return
    assert answer.content_type in chosen["content"], (method, path, answer.status_code, answer.content_type)
    schema = chosen["content"][answer.content_type]["schema"]
    problem = next(_validator(json.dumps(schema), app).iter_errors(answer.get_json(force=True)), None)
    assert problem is None, f"{method} {path} ({door.status}): {problem}"


@cache
def _described(app: Flask) -> dict[str, Any]:
    return openapi.describe(app)


@cache
def _validator(schema: str, app: Flask) -> Any:
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": _described(app)["components"]})
