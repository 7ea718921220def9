"""The clock of a single machine. Everything else in the ledger is handed its time."""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]


def wall_clock() -> int:
    """Whole milliseconds since the epoch, UTC, as this machine sees them."""
    return time.time_ns() // 1_000_000
