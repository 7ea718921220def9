"""Required checks against observed checks: is the gate of this head green?

One table maps a conclusion to pass, wait or fail; it is the only one. GitHub itself lets *neutral* and *skipped*
satisfy a required check; here they wait, unless the contract on the canonical tip names that check with that
conclusion. Nothing is green by absence: an empty set of requirements is its own answer, and never a pass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pipeline.decisions import GateCheck
from pipeline.facts import Check, CheckKind, RequiredCheck


class Standing(StrEnum):
    """What one conclusion means for a required check."""

    PASS = "pass"
    WAIT = "wait"
    FAIL = "fail"


CONCLUSIONS: Mapping[str, Standing] = {
    # check runs
    "success": Standing.PASS,
    "failure": Standing.FAIL,
    "timed_out": Standing.FAIL,
    "startup_failure": Standing.FAIL,
    "action_required": Standing.WAIT,
    "cancelled": Standing.WAIT,
    "neutral": Standing.WAIT,
    "skipped": Standing.WAIT,
    "stale": Standing.WAIT,
    # commit statuses
    "error": Standing.FAIL,
    "pending": Standing.WAIT,
}

# What a contract may let count for a check that it names: an end that is neither a pass nor a failure, never a run
# that has not ended.
ACCEPTABLE = frozenset(word for word, means in CONCLUSIONS.items() if means is Standing.WAIT) - {"pending"}


def standing(check: Check, accepted: frozenset[tuple[str, str]] = frozenset()) -> Standing:
    """What this check says now. A run that is not completed waits; a conclusion that this version does not know
    waits."""
    if check.kind is CheckKind.RUN and check.status != "completed":
        return Standing.WAIT
    conclusion = check.conclusion or ""
    if conclusion in ACCEPTABLE and (check.context, conclusion) in accepted:
        return Standing.PASS
    return CONCLUSIONS.get(conclusion, Standing.WAIT)


@dataclass(frozen=True, slots=True)
class Green:
    """Every required check passed at this head; `checks` are the runs that say so, one for each producer."""

    checks: tuple[GateCheck, ...]


@dataclass(frozen=True, slots=True)
class Red:
    """A required check failed: the first by name, with the run that says so."""

    context: str
    run_id: int
    conclusion: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A required check is absent, runs, or ended in a word that is neither pass nor fail.

    `state` is `absent`, `wrong_app` (reported, but by another App than the one it is pinned to) or the remote's word.
    """

    context: str
    state: str
    expected_app: int | None = None
    found_app: int | None = None


@dataclass(frozen=True, slots=True)
class NotRequired:
    """No check is required, read completely. This is never a pass; another gate must be found."""


Judgement: TypeAlias = Green | Red | Pending | NotRequired


def newest(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The newest check of each producer (kind, App, context), by id: the order in which an API lists them says
    nothing."""
    found: dict[tuple[CheckKind, int | None, str], Check] = {}
    for check in checks:
        key = (check.kind, check.app_id, check.context)
        if key not in found or found[key].id < check.id:
            found[key] = check
    return tuple(found[key] for key in sorted(found, key=lambda k: (k[2], k[0].value, k[1] or 0)))


def judge(
    required: Iterable[RequiredCheck],
    observed: Iterable[Check],
    accepted: frozenset[tuple[str, str]] = frozenset(),
) -> Judgement:
    """Judge all requirements at once. A failure outranks a wait, a wait outranks a pass; every producer must agree.

    A requirement pinned to an App counts that App's check runs only; a commit status carries no App, so it cannot
    satisfy a pinned one. Unpinned, any red producer of that name is red, whoever else is green.
    """
    wanted = tuple(sorted(set(required), key=lambda r: (r.context, r.app_id or 0, r.source)))
    if not wanted:
        return NotRequired()
    latest = newest(observed)
    answers = [_judge_one(requirement, latest, accepted) for requirement in wanted]
    for answer in answers:
        if isinstance(answer, Red):
            return answer
    for answer in answers:
        if isinstance(answer, Pending):
            return answer
    passed = {c for answer in answers if isinstance(answer, Green) for c in answer.checks}
    return Green(tuple(sorted(passed, key=lambda c: (c.context, c.kind, c.run_id))))


def _judge_one(
    requirement: RequiredCheck, latest: tuple[Check, ...], accepted: frozenset[tuple[str, str]]
) -> Green | Red | Pending:
    named = [c for c in latest if c.context == requirement.context]
    pinned = requirement.app_id
    counted = [c for c in named if pinned is None or (c.kind is CheckKind.RUN and c.app_id == pinned)]
    if not counted:
        if named:
            return Pending(requirement.context, "wrong_app", pinned, named[0].app_id)
        return Pending(requirement.context, "absent", pinned)
    for check in counted:
        if standing(check, accepted) is Standing.FAIL:
            return Red(check.context, check.id, check.conclusion or check.status)
    for check in counted:
        if standing(check, accepted) is Standing.WAIT:
            return Pending(check.context, check.conclusion or check.status, pinned, check.app_id)
    return Green(tuple(_gate_check(c) for c in counted))


def _gate_check(check: Check) -> GateCheck:
    return GateCheck(
        check.kind.value, check.context, check.app_id, check.id, check.conclusion or "", check.started_at,
        check.completed_at,
    )  # fmt: skip
