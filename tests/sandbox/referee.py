"""Holds every request, every answer and every event against GitHub's own published description.

Without the description (`tests.sandbox.fetched`) the referee is off: it says so once, aloud, and the report of a test
run says so again. What was judged is counted (`tests.sandbox.tally`).
"""

import functools
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tests.sandbox import tally
from tests.sandbox.description import load
from tests.sandbox.fetched import description_folder
from tests.sandbox.world import Json

SWITCHED_OFF = os.environ.get("SANDBOX_REFEREE") == tally.OFF
"""For measuring what the referee costs, and for nothing else."""


class Referee:
    """Collects violations; a test ends with `assert_clean()`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        folder = None if SWITCHED_OFF else description_folder()
        self.description = load(folder) if folder is not None else None
        tally.note("referees", "on" if folder is not None else tally.OFF)
        if folder is None:
            _say_off()

    def judge_request(self, method: str, route: str, body: Any, query: Mapping[str, str], agent: str = "") -> None:
        """A request, whether or not it will be let in. A member or a parameter that GitHub would ignore is a breach."""
        if agent == tally.PRODUCT:
            tally.note("ours", f"{method} {route}")
        if self.description is not None:
            with tally.counted("requests", f"{method} {route}"):
                self._note(f"{method} {route}: request", self.description.request_faults(method, route, body))
                self._note(f"{method} {route}: request", self.description.query_faults(method, route, query))

    def judge_unserved(self, method: str, path: str) -> None:
        """A request for something that the sandbox does not have: whoever sent it believes in another GitHub."""
        if self.description is not None:
            self._note(f"{method} {path}", iter(["nothing is served here"]))

    def judge_answer(self, method: str, route: str, status: int, body: Any) -> None:
        """An answer, as it is about to be sent."""
        if self.description is not None:
            with tally.counted("answers", f"{method} {route} {status}"):
                self._note(f"{method} {route}: {status}", self.description.answer_faults(method, route, status, body))

    def judge_event(self, event: str, payload: Json) -> None:
        """The payload of a webhook, before it is sent to anybody."""
        if self.description is not None:
            name = f"{event} {payload.get('action') or ''}".strip()
            with tally.counted("events", name):
                self._note(f"event {name}", self.description.event_faults(event, payload))

    def assert_clean(self) -> None:
        """Raises AssertionError with every violation seen so far, and forgets them."""
        seen, self.violations = self.violations, []
        assert not seen, "against GitHub's description:\n" + "\n".join(dict.fromkeys(seen))

    def expect_breach(self, words: str) -> None:
        """A test broke the description on purpose: takes those violations away; raises AssertionError if none was."""
        if self.description is not None:
            kept = [violation for violation in self.violations if words not in violation]
            assert len(kept) < len(self.violations), f"no violation says {words!r}: {self.violations}"
            self.violations = kept

    def _note(self, where: str, faults: Iterator[str]) -> None:
        self.violations += [f"{where}: {fault}" for fault in faults]


@functools.cache
def _say_off() -> None:
    sys.stderr.write("referee off: GitHub's description was not found; set MAC_GITHUB_DESCRIPTION\n")
