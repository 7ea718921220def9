"""Cutting lists into pages, with the Link header in GitHub's form, and answering what has not changed with 304."""

import hashlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tests.sandbox.endpoints import Collection
from tests.sandbox.reply import Answer

DEFAULT_SIZE = 30
LARGEST_SIZE = 100


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    given = query.get(name, "")
    return max(int(given), 1) if given.isdigit() else default


def page_of(collection: Collection, url: str, query: Mapping[str, str]) -> Answer:
    """The page that was asked for. `url` is the numeric form that following pages are addressed by."""
    size = min(_number(query, "per_page", DEFAULT_SIZE), LARGEST_SIZE)
    number = _number(query, "page", 1)
    last = max(-(-len(collection.items) // size), 1)
    shown = [collection.shape(item) for item in collection.items[(number - 1) * size : number * size]]
    body: Any = shown
    if collection.wrap is not None:
        body = {"total_count": len(collection.items), **(collection.extra or {}), collection.wrap: shown}
    links = _links(url, query, number, last)
    return Answer(200, body, {"Link": links} if links else {})


def _links(url: str, query: Mapping[str, str], number: int, last: int) -> str:
    targets: list[tuple[str, int]] = []
    if number > 1:
        targets.append(("prev", min(number - 1, last)))
    if number < last:
        targets += [("next", number + 1), ("last", last)]
    if number > 1:
        targets.append(("first", 1))
    rest = [(name, value) for name, value in query.items() if name != "page"]

    def link(rel: str, page: int) -> str:
        return f'<{url}?{urllib.parse.urlencode([*rest, ("page", str(page))])}>; rel="{rel}"'

    return ", ".join(link(rel, page) for rel, page in targets)


def etag_of(raw: bytes) -> str:
    return f'W/"{hashlib.sha256(raw).hexdigest()}"'
