"""Canonical bytes: one encoding for everything that is digested or signed.

JSON with sorted keys, no white space, UTF-8, integers only. Floats are refused, because two programs may print one
number in two ways, and a digest must not depend on who printed it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pipeline.errors import ensure

Json: TypeAlias = "str | int | bool | None | Sequence[Json] | Mapping[str, Json]"


def canonical_bytes(document: Json) -> bytes:
    """The one byte string for a document. Raises `InvariantBroken` when it holds a float or a key that is no text.

    A lone surrogate has bytes as well (they are then no UTF-8): what the remote says must never stop a decision.
    """
    _check(document)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def digest(document: Json) -> str:
    """SHA-256 of the canonical bytes, in lower-case hex."""
    return digest_bytes(canonical_bytes(document))


def digest_bytes(content: bytes) -> str:
    """SHA-256 of raw bytes, in lower-case hex."""
    return hashlib.sha256(content).hexdigest()


def _check(value: object) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            ensure(isinstance(key, str), "a canonical document has text keys only")
            _check(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner)
    else:
        ensure(value is None or isinstance(value, str | int | bool), "a canonical document holds no floats or objects")
