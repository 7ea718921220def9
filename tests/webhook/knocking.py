"""Requests as clients make them, for tests of the doors."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from ledger.access import Scope
from tests.webhook.conforming import conforms
from tests.webhook.serving import WEBHOOK_SECRET, Store


@dataclass(frozen=True)
class Knock:
    """A client with a token of whichever scope the test asks for. Every answer is held against its description."""

    client: FlaskClient
    store: Store

    def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        scope: Scope | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> TestResponse:
        sent = dict(headers or {})
        if scope is not None:
            sent["Authorization"] = f"Bearer {self.store.token(scope).secret}"
        body = data if document is None else json.dumps(document).encode()
        answer = self.client.open(path, method=method, data=body, headers=sent)
        conforms(self.client.application, method, path, answer)
        return answer


def signed(body: bytes, secret: bytes = WEBHOOK_SECRET) -> str:
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def problem(answer: TestResponse) -> tuple[int, str]:
    """Status and code of a refusal; it must be of the one media type."""
    assert answer.content_type == "application/problem+json", answer.data
    document = answer.get_json(force=True)
    assert set(document) == {"code", "title", "facts"}
    assert not re.search(r"(^| )\?($|[ .,:;])", document["title"]), "a fact of the sentence is missing"
    return answer.status_code, document["code"]
