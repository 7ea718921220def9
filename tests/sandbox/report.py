"""The report at the end of a test run: what was put before the referee, what never was, and what it cost."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.sandbox.description import Description
from tests.sandbox.tally import Tally


def operations_of(counts: Counter[str]) -> dict[str, Counter[str]]:
    """Answers by operation ("GET /app"), and by status in each."""
    found: dict[str, Counter[str]] = {}
    for words, count in counts.items():
        operation, _, status = words.rpartition(" ")
        found.setdefault(operation, Counter())[status] += count
    return found


def never_asked(tally: Tally, description: Description) -> list[str]:
    """The described operations that no test exercised."""
    seen = {_plain(name) for name in operations_of(tally.answers)}
    return [name for name in _described(description) if _plain(name) not in seen]


def never_answered(tally: Tally, description: Description) -> list[str]:
    """The described statuses that no test saw, of the operations that were exercised; errors of the service left out."""
    seen = {_plain(name): statuses for name, statuses in operations_of(tally.answers).items()}
    return [
        f"{name} {status}"
        for name, statuses in _described(description).items()
        for status in statuses
        if _plain(name) in seen and not status.startswith("5") and status not in seen[_plain(name)]
    ]


def lines(tally: Tally, description: Description | None, tests_s: float) -> Iterator[str]:
    """The report, line by line, for a terminal of 120 columns."""
    if description is None:
        yield "OFF: GitHub's description was not found, so nothing was judged (docs/sandbox.md says where it is looked for)"
        return
    described, answered = _described(description), operations_of(tally.answers)
    by_plain = {_plain(name): name for name in described}
    exercised = [name for name in answered if _plain(name) in by_plain]
    pairs = {(by_plain[_plain(name)], status) for name in exercised for status in answered[name]}
    named = {(name, status) for name, statuses in described.items() for status in statuses}
    yield f"{'operation':<84} {'asked':>6} {'by us':>6}  statuses"
    for name in sorted(answered, key=lambda one: one.split(" ")[1:] + one.split(" ")[:1]):
        statuses = " ".join(f"{status}×{count}" for status, count in sorted(answered[name].items()))
        mark = "" if _plain(name) in by_plain else " (not described)"
        yield f"{name + mark:<84} {tally.requests[name]:>6} {tally.ours[name]:>6}  {statuses}"
    yield f"operations exercised: {len(exercised)} of {len(described)}; statuses: {len(pairs & named)} of {len(named)}"
    yield f"events judged: {sum(tally.events.values())} of {len(tally.events)} kinds: {', '.join(sorted(tally.events))}"
    yield f"never asked: {', '.join(never_asked(tally, description)) or 'none'}"
    yield f"never answered: {', '.join(never_answered(tally, description)) or 'none'}"
    yield _cost(tally, tests_s)


def _cost(tally: Tally, tests_s: float) -> str:
    spent_s, share = tally.spent_ns / 1e9, tally.spent_ns / 1e7 / max(tests_s, 0.001)
    judged = sum(tally.requests.values()) + sum(tally.answers.values()) + sum(tally.events.values())
    return f"cost: {judged} judgements took {spent_s:.2f} s of {tests_s:.1f} s of tests ({share:.1f} %)"


def _described(description: Description) -> dict[str, tuple[str, ...]]:
    ordered = sorted(description.operations.items(), key=lambda one: (one[0][1], one[0][0]))
    return {f"{method} {path}": statuses for (method, path), statuses in ordered}


def _plain(name: str) -> str:
    """Without the names of the parameters: two sources may call them differently."""
    return re.sub(r"{.*?}", "{}", name)
