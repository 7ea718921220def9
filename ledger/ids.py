"""Identities: a prefix that says what it names, and eighty random bits."""

import secrets
from collections.abc import Callable
from typing import TypeAlias

Ids: TypeAlias = Callable[[str], str]


def random_id(prefix: str) -> str:
    """A new id such as `task_9f3c…`: unguessable, never used twice."""
    return f"{prefix}_{secrets.token_hex(10)}"
