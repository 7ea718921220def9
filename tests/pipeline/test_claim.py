"""Claimability: one green task, one thing changed, and exactly that thing named."""

from dataclasses import replace

import pytest

from pipeline.claim import Claim, Claimant, Unclaimable, failing
from pipeline.states import State

NOW = 1_000
GREEN = Claim(
    state=State.OPEN,
    held=False,
    stop_requested=False,
    project="project_1",
    project_ready=True,
    project_paused=False,
    attempts=1,
    attempts_allowed=3,
    tokens=10,
    token_budget=100,
    not_before=NOW,
    landed=False,
    intent_open=False,
    kept_for="worker_1",
    kept_until=NOW,
)
ANYBODY, LAST = Claimant("worker_2"), Claimant("worker_1")

ONE_THING = {
    Unclaimable.NOT_OPEN: replace(GREEN, state=State.REVIEWING),
    Unclaimable.HELD: replace(GREEN, held=True),
    Unclaimable.STOP_REQUESTED: replace(GREEN, stop_requested=True),
    Unclaimable.PROJECT_NOT_READY: replace(GREEN, project_ready=False),
    Unclaimable.PROJECT_PAUSED: replace(GREEN, project_paused=True),
    Unclaimable.ATTEMPTS_SPENT: replace(GREEN, attempts=3),
    Unclaimable.TOKENS_SPENT: replace(GREEN, tokens=100),
    Unclaimable.BACKING_OFF: replace(GREEN, not_before=NOW + 1),
    Unclaimable.LANDED: replace(GREEN, landed=True),
    Unclaimable.INTENT_OPEN: replace(GREEN, intent_open=True),
    Unclaimable.KEPT_FOR_ANOTHER: replace(GREEN, kept_until=NOW + 1),
}


def codes(claim: Claim, claimant: Claimant | None = ANYBODY) -> list[Unclaimable]:
    return [found.code for found in failing(claim, NOW, claimant)]


def test_a_task_of_which_nothing_is_wrong_may_be_leased_by_anybody() -> None:
    assert codes(GREEN) == codes(GREEN, LAST) == codes(GREEN, None) == []
    assert codes(replace(GREEN, tokens=10**9, token_budget=None)) == []


@pytest.mark.parametrize("code", ONE_THING)
def test_one_thing_that_is_wrong_is_named_and_nothing_else(code: Unclaimable) -> None:
    assert codes(ONE_THING[code]) == codes(ONE_THING[code], None) == [code]


@pytest.mark.parametrize("state", [state for state in State if state is not State.OPEN])
def test_no_state_but_open_is_claimable(state: State) -> None:
    assert codes(replace(GREEN, state=state)) == [Unclaimable.NOT_OPEN]


def test_everything_that_is_wrong_is_named_at_once() -> None:
    worst = Claim(
        state=State.BLOCKED,
        held=True,
        stop_requested=True,
        project="project_1",
        project_ready=False,
        project_paused=True,
        attempts=3,
        attempts_allowed=3,
        tokens=1,
        token_budget=1,
        not_before=NOW + 1,
        landed=True,
        intent_open=True,
        kept_for="worker_1",
        kept_until=NOW + 1,
    )
    found = failing(worst, NOW, Claimant("worker_2", frozenset({"project_2"})))
    assert {one.code for one in found} == set(Unclaimable)


def test_a_task_that_is_kept_is_kept_for_its_last_worker_only() -> None:
    kept = replace(GREEN, kept_until=NOW + 1)
    assert codes(kept, LAST) == []
    assert codes(replace(kept, kept_for=None)) == []


def test_who_names_projects_gets_no_other_ones() -> None:
    assert codes(GREEN, Claimant("worker_2", frozenset({"project_1"}))) == []
    assert codes(GREEN, Claimant("worker_2", frozenset())) == [Unclaimable.PROJECT_NOT_COVERED]


@pytest.mark.parametrize("code", ONE_THING)
def test_every_condition_says_what_is_the_matter_and_what_would_change_it(code: Unclaimable) -> None:
    [found] = failing(ONE_THING[code], NOW, ANYBODY)
    for sentence in (found.sentence, found.would_change):
        assert sentence.endswith(".")
        assert "{" not in sentence
