"""Claimability: whether a task may be leased, and, where it may not, every condition that keeps it.

One function evaluates all conditions. The claim asks it for each candidate, and the explanation shows what it answers,
so that nobody is told another reason than the one that counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.errors import FactValue
from pipeline.states import State


class Unclaimable(StrEnum):
    """Why a task cannot be leased now. The value is the stable code."""

    NOT_OPEN = "not_open"
    HELD = "held"
    STOP_REQUESTED = "stop_requested"
    PROJECT_NOT_READY = "project_not_ready"
    PROJECT_PAUSED = "project_paused"
    ATTEMPTS_SPENT = "attempts_spent"
    TOKENS_SPENT = "tokens_spent"
    BACKING_OFF = "backing_off"
    LANDED = "landed"
    INTENT_OPEN = "intent_open"
    KEPT_FOR_ANOTHER = "kept_for_another"
    PROJECT_NOT_COVERED = "project_not_covered"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the ledger holds about one task and its project that a lease depends on. Instants are milliseconds.

    `token_budget` None: no limit. `kept_for`: the worker that the task is offered to first, until `kept_until`.
    """

    state: State
    held: bool
    stop_requested: bool
    project: str
    project_ready: bool
    project_paused: bool
    attempts: int
    attempts_allowed: int
    tokens: int
    token_budget: int | None
    not_before: int
    landed: bool
    intent_open: bool
    kept_for: str | None
    kept_until: int


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who asks. `projects` None: it takes work of any."""

    worker: str
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Failing:
    """One condition that does not hold, with what was found."""

    code: Unclaimable
    facts: Mapping[str, FactValue] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What is the matter, for people."""
        return _WORDS[self.code][0].format_map(dict(self.facts))

    @property
    def would_change(self) -> str:
        """What would free the task of this condition."""
        return _WORDS[self.code][1].format_map(dict(self.facts))


def failing(claim: Claim, now: int, claimant: Claimant | None = None) -> tuple[Failing, ...]:
    """Every condition that does not hold, in a fixed order; none: the task may be leased.

    Without a claimant, what depends on who asks is left out: the task would be leased by whoever comes, except that one
    kept for its last worker names that worker.
    """
    waiting = now < claim.kept_until and claim.kept_for is not None
    stranger = claimant is None or claimant.worker != claim.kept_for
    uncovered = claimant is not None and claimant.projects is not None and claim.project not in claimant.projects
    over_budget = claim.token_budget is not None and claim.tokens >= claim.token_budget
    attempts: dict[str, FactValue] = {"attempts": claim.attempts, "allowed": claim.attempts_allowed}
    tokens: dict[str, FactValue] = {"tokens": claim.tokens, "budget": claim.token_budget}
    kept: dict[str, FactValue] = {"worker": claim.kept_for, "for_ms": claim.kept_until - now}
    conditions: tuple[tuple[bool, Unclaimable, Mapping[str, FactValue]], ...] = (
        (claim.state is not State.OPEN, Unclaimable.NOT_OPEN, {"state": claim.state.value}),
        (claim.held, Unclaimable.HELD, {}),
        (claim.stop_requested, Unclaimable.STOP_REQUESTED, {}),
        (not claim.project_ready, Unclaimable.PROJECT_NOT_READY, {}),
        (claim.project_paused, Unclaimable.PROJECT_PAUSED, {}),
        (claim.attempts >= claim.attempts_allowed, Unclaimable.ATTEMPTS_SPENT, attempts),
        (over_budget, Unclaimable.TOKENS_SPENT, tokens),
        (now < claim.not_before, Unclaimable.BACKING_OFF, {"for_ms": claim.not_before - now}),
        (claim.landed, Unclaimable.LANDED, {}),
        (claim.intent_open, Unclaimable.INTENT_OPEN, {}),
        (waiting and stranger, Unclaimable.KEPT_FOR_ANOTHER, kept),
        (uncovered, Unclaimable.PROJECT_NOT_COVERED, {"project": claim.project}),
    )
    return tuple(Failing(code, facts) for holds_back, code, facts in conditions if holds_back)


_WORDS: Mapping[Unclaimable, tuple[str, str]] = {
    Unclaimable.NOT_OPEN: ("The task is {state}.", "It is open again."),
    Unclaimable.HELD: ("The task is held.", "An operator releases it."),
    Unclaimable.STOP_REQUESTED: ("Somebody asked for the task to stop.", "It is stopped, and an operator starts it."),
    Unclaimable.PROJECT_NOT_READY: ("The project's repository was not read yet.", "A worker registers it."),
    Unclaimable.PROJECT_PAUSED: ("The project is paused.", "An operator resumes it."),
    Unclaimable.ATTEMPTS_SPENT: ("All {allowed} attempts were made.", "An operator grants a retry."),
    Unclaimable.TOKENS_SPENT: ("The task used {tokens} tokens of {budget}.", "An operator raises its budget."),
    Unclaimable.BACKING_OFF: ("The last attempt failed; the next waits {for_ms} ms.", "That time passes."),
    Unclaimable.LANDED: ("The task has landed.", "Nothing; work on top is a new task."),
    Unclaimable.INTENT_OPEN: ("A landing of this task is not settled yet.", "The hub settles it."),
    Unclaimable.KEPT_FOR_ANOTHER: (
        "The task is offered to its last worker first, for {for_ms} ms.",
        "That worker takes it, or the time passes.",
    ),
    Unclaimable.PROJECT_NOT_COVERED: ("The worker does not take work of the project.", "Another worker asks."),
}
