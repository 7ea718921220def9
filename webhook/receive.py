"""GitHub's door: one signed delivery in, one durable row, a ring, and 202.

Nothing is worked on inside the request and GitHub is not called: the row and the ring make a worker look. A delivery
that was doubled or lost costs latency only, so the answer is the same 202 whether the hint was new, known or of no use.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn
from urllib.parse import parse_qs

from flask import Flask, Response, jsonify, request
from github_webhook import Webhook

from ledger import deliveries
from ledger.session import Ledger
from pipeline.canonical import digest_bytes
from pipeline.errors import InvariantBroken, Rejected, ensure
from pipeline.refusals import Refusal
from webhook import events, hints
from webhook.auth import open_to_all

ROUTE = "/github/webhook"
HEADER_CHARS_MAX = 64
FORM = "application/x-www-form-urlencoded"


class Receiver(Webhook):  # type: ignore[misc]  # the package has no types
    """The webhook endpoint of `github_webhook`, with its check replaced by one that cannot be left out.

    The package knows SHA-1 only, lets everything in without a secret, and hands out neither the raw bytes nor the
    delivery's id. What stays of it is the endpoint. Its subscribers are refused: what a delivery says is never acted
    upon, it only tells where to look.
    """

    def __init__(self, ledger: Ledger, secrets: Sequence[bytes], body_bytes_max: int) -> None:
        """Raises `InvariantBroken` without a secret, or with an empty one: an open door is not a setting."""
        ensure(bool(secrets) and all(secrets), "a webhook door needs a secret")
        super().__init__()
        self._ledger = ledger
        self._secrets = tuple(secrets)
        self._body_bytes_max = body_bytes_max

    def install(self, app: Flask) -> None:
        """Serve the door at `ROUTE`."""
        self.init_app(app, endpoint=ROUTE)

    def hook(self, event_type: str = "push") -> Callable[[object], NoReturn]:
        """Refused, see the class."""
        raise InvariantBroken(f"no subscriber is run inside the request, not even for {event_type}")

    @open_to_all("GitHub has no token of ours: its signature over the raw body lets it in")
    def _postreceive(self) -> tuple[Response, int]:
        """202: the signed delivery is kept as a hint, or was known already, or is of no use."""
        raw = self._raw_body()
        check_signature(raw, request.headers.get("X-Hub-Signature-256"), self._secrets)
        name, guid = _header("X-GitHub-Event"), _header("X-GitHub-Delivery")
        event = events.parse(name, _payload(raw))
        hint = hints.hint(event)
        new = deliveries.receive(
            self._ledger,
            guid=guid,
            event=name,
            action=getattr(event, "action", None),
            body_sha256=digest_bytes(raw),
            hint=hint,
        )
        return jsonify({"delivery": guid, "duplicate": not new, "ignored": hint is None}), 202

    def _raw_body(self) -> bytes:
        """The body as it was sent. One byte more than is allowed is read at most, whatever the sender announced."""
        limit = self._body_bytes_max
        request.max_content_length = limit + 1
        announced = request.content_length or 0
        raw = b"" if announced > limit else request.get_data()
        if announced > limit or len(raw) > limit:
            raise Rejected(Refusal.BODY_TOO_LARGE, {"limit": limit})
        return raw


def check_signature(raw: bytes, signature: str | None, secrets: Sequence[bytes]) -> None:
    """Returns only if `signature` is the SHA-256 one of exactly these bytes under one of the secrets.

    Every secret is tried whatever the others gave, and each comparison takes constant time. Raises
    `Rejected(signature_missing | signature_wrong)`.
    """
    if not signature:
        raise Rejected(Refusal.SIGNATURE_MISSING)
    given = signature.encode("utf-8", "surrogateescape")
    expected = [b"sha256=" + hmac.new(secret, raw, hashlib.sha256).hexdigest().encode() for secret in secrets]
    if not any([hmac.compare_digest(given, one) for one in expected]):  # noqa: C419 - no short cut: constant time
        raise Rejected(Refusal.SIGNATURE_WRONG)


def _header(name: str) -> str:
    value = request.headers.get(name, "")
    if not 0 < len(value) <= HEADER_CHARS_MAX:
        raise Rejected(Refusal.DELIVERY_HEADERS_MISSING)
    return value


def _payload(raw: bytes) -> Mapping[str, object]:
    """The JSON object of either content type that GitHub can be set to; the signature covers the bytes of both."""
    try:
        text = raw.decode()
        if request.mimetype == FORM:
            text = parse_qs(text, strict_parsing=True, max_num_fields=8)["payload"][0]
        payload = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        raise Rejected(Refusal.BODY_NOT_JSON) from None
    if not isinstance(payload, dict):
        raise Rejected(Refusal.BODY_NOT_JSON)
    return payload
