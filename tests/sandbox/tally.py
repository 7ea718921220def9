"""What was put before the referee, counted: over one process, and over all the processes of a test run.

Every process that has a referee writes its counts into the folder that `SANDBOX_TALLIES` names, if it is set; a test
run sets it, and adds them up at its end (`tests.sandbox.plugin`).
"""

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "SANDBOX_TALLIES"
OFF = "off"
PRODUCT = "mac-hub"
"""The User-Agent of the product, by which its requests are told from those of the tests."""


@dataclass
class Tally:
    """Counts by words: `METHOD route status`, `METHOD route` of requests, events. `spent_ns` is the referee's own time."""

    answers: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    referees: Counter[str] = field(default_factory=Counter)
    spent_ns: int = 0

    def add(self, other: "Tally") -> None:
        """Takes another's counts into this one."""
        for mine, theirs in zip(self._counters(), other._counters(), strict=True):
            mine.update(theirs)
        self.spent_ns += other.spent_ns

    def _counters(self) -> tuple[Counter[str], ...]:
        return (self.answers, self.requests, self.ours, self.events, self.referees)

    def words(self) -> str:
        """These counts as one line of JSON."""
        names = ("answers", "requests", "ours", "events", "referees", "spent_ns")
        return json.dumps({name: getattr(self, name) for name in names})

    @classmethod
    def of_words(cls, line: str) -> "Tally":
        """The counts that `words` told."""
        told = json.loads(line)
        spent = told.pop("spent_ns")
        return cls(**{name: Counter(counts) for name, counts in told.items()}, spent_ns=spent)


PROCESS = Tally()
"""All referees of this process together."""

_LOCK = threading.Lock()


@contextmanager
def counted(kind: str, what: str) -> Iterator[None]:
    """Counts one judgement of this process, and the processor time that it takes."""
    began_ns = time.thread_time_ns()
    try:
        yield
    finally:
        with _LOCK:
            getattr(PROCESS, kind)[what] += 1
            PROCESS.spent_ns += time.thread_time_ns() - began_ns


def note(kind: str, what: str) -> None:
    """Counts something that costs nothing."""
    with _LOCK:
        getattr(PROCESS, kind)[what] += 1


def keep() -> None:
    """Writes the counts of this process for the test run, if there is one, and begins anew."""
    folder = os.environ.get(FOLDER)
    if folder and Path(folder).is_dir():
        with _LOCK:
            line = PROCESS.words()
            PROCESS.__init__()  # type: ignore[misc]  # the one tally of the process is emptied where it stands
        (Path(folder) / f"{uuid.uuid4()}.json").write_text(line)


def collected(folder: Path) -> Tally:
    """The counts of all processes that wrote into this folder."""
    return _sum(Tally.of_words(file.read_text()) for file in sorted(folder.glob("*.json")))


def _sum(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole
