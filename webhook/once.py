"""Requests that create or lease: answered once, and again with the same answer under the same `Idempotency-Key`.

A client that lost an answer repeats its request with its key and gets what it was told the first time; nothing is done
twice, and no attempt is charged for a broken connection. A refusal is not kept: nothing was done.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response, request

from ledger import idempotency
from ledger.idempotency import Answer
from ledger.session import Transaction
from pipeline.canonical import digest_bytes
from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from webhook import auth, hub

KEY_CHARS_MAX = 128


@dataclass(frozen=True, slots=True)
class Done:
    """What a request came to. Fields named in `shown_once` are answered now and are null when answered again."""

    status: int
    document: Mapping[str, Any]
    shown_once: tuple[str, ...] = ()

    def first(self) -> Answer:
        """The answer of this moment."""
        return Answer(self.status, json.dumps(self.document))

    def kept(self) -> Answer:
        """The answer as it is stored."""
        hidden = dict.fromkeys(self.shown_once)
        return Answer(self.status, json.dumps({**self.document, **hidden}))


def answer(done: Done) -> Response:
    """A plain JSON answer."""
    return _response(done.first())


def together(work: Callable[[Transaction], Done | None]) -> Response:
    """Do the work and keep its answer in one transaction: both stand or neither does. None answers 204, and is not
    kept: nothing was done. Of two requests at the same moment under one key, one works and both get its answer.

    Raises what the work raises, and `Rejected(idempotency_key_reused | field_invalid)` for the key.
    """
    key = _key()
    with hub.current().ledger.write() as tx:
        if key is not None:
            idempotency.reserve(tx, actor=key["actor"], key=key["key"])
        before = None if key is None else idempotency.replay(tx, **key)
        if before is not None:
            return _response(before)
        done = work(tx)
        if done is not None and key is not None:
            idempotency.keep(tx, **key, answer=done.kept())
    return Response(status=204) if done is None else _response(done.first())


def _key() -> dict[str, str] | None:
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return None
    if not 0 < len(given) <= KEY_CHARS_MAX:
        problem = f"it has 1 to {KEY_CHARS_MAX} characters"
        raise Rejected(Refusal.FIELD_INVALID, {"field": "Idempotency-Key", "problem": problem})
    return {
        "actor": auth.actor().token_id,
        "key": given,
        "route": f"{request.method} {request.path}",
        "request_sha256": digest_bytes(request.get_data()),
    }


def _response(given: Answer) -> Response:
    return Response(given.body + "\n", status=given.status, content_type="application/json")
