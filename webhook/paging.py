"""Lists over HTTP: `?cursor=` and `?limit=`, answered with rows and the cursor of the next page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import Response, jsonify, request

from ledger.pages import Page
from pipeline.errors import Rejected
from pipeline.refusals import Refusal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a list goes on, and how many rows at most (None: as many as a page holds)."""

    cursor: str | None
    limit: int | None


def asked() -> Asked:
    """The page that this request asks for. Raises `Rejected(field_invalid)` for a limit that is no count."""
    limit = request.args.get("limit")
    if limit is not None and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:9]) < 10**8):
        raise Rejected(Refusal.FIELD_INVALID, {"field": "limit", "problem": "it is a count above zero"})
    return Asked(request.args.get("cursor"), None if limit is None else int(limit))


def answer(page: Page[T], show: Callable[[T], dict[str, Any]]) -> Response:
    """The rows as `show` shows them."""
    return jsonify({"rows": [show(row) for row in page.rows], "next_cursor": page.next_cursor})
