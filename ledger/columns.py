"""The kinds of column that the ledger's tables are made of: one for each kind of fact, alike on every database."""

import json
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, LargeBinary, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from pipeline.canonical import canonical_bytes


class Document(TypeDecorator[Any]):
    """Canonical JSON in a text column; what is read back is equal to what was written, key by key."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 - the framework's signature
        """The canonical text. Raises `InvariantBroken` for what has none (a float, an object)."""
        return None if value is None else canonical_bytes(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002 - the framework's signature
        """The document as plain values."""
        return None if value is None else json.loads(value)


class Flag(TypeDecorator[bool]):
    """A truth value as 0 or 1, the same on every database (a strict SQLite table has no boolean)."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - the framework's signature
        """0 or 1."""
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> bool | None:  # noqa: ARG002 - the framework's signature
        """The truth value."""
        return None if value is None else bool(value)


def _column(name: str, kind: Any, *, key: bool, null: bool, of: str | None) -> Column[Any]:
    references = () if of is None else (ForeignKey(of),)
    return Column(name, kind, *references, primary_key=key, nullable=null)


def text(name: str, *, key: bool = False, null: bool = False, of: str | None = None) -> Column[Any]:
    """Text: an id, a word of a closed vocabulary, or what somebody wrote."""
    return _column(name, Text(), key=key, null=null, of=of)


def whole(name: str, *, key: bool = False, null: bool = False, of: str | None = None) -> Column[Any]:
    """A whole number: a count, a token, or milliseconds since the epoch."""
    return _column(name, BigInteger(), key=key, null=null, of=of)


def flag(name: str, *, null: bool = False) -> Column[Any]:
    """A truth value."""
    return _column(name, Flag(), key=False, null=null, of=None)


def document(name: str, *, null: bool = False) -> Column[Any]:
    """Canonical JSON."""
    return _column(name, Document(), key=False, null=null, of=None)


def content(name: str) -> Column[Any]:
    """Opaque bytes."""
    return _column(name, LargeBinary(), key=False, null=False, of=None)
