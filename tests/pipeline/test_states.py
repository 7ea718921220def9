"""One table of transitions: what it holds is reachable, what it ends is over."""

import pytest

from pipeline.errors import Rejected
from pipeline.states import PARKED, TERMINAL, TRANSITIONS, Event, State, after, mermaid


def reachable(start: State) -> set[State]:
    found, new = {start}, {start}
    while new:
        new = {target for (source, _), target in TRANSITIONS.items() if source in new} - found
        found |= new
    return found


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_has_no_way_out(state: State) -> None:
    assert reachable(state) == {state}
    for event in Event:
        with pytest.raises(Rejected) as caught:
            after(state, event)
        assert (caught.value.code, caught.value.facts) == (
            "transition_unknown", {"state": state.value, "event": event.value},
        )  # fmt: skip


def test_every_state_is_reached_and_every_event_is_used() -> None:
    assert reachable(State.OPEN) == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
def test_what_is_not_terminal_can_end_in_each_way_and_what_landed_completes(state: State) -> None:
    assert reachable(state) >= TERMINAL
    assert after(state, Event.COMPLETE) is State.COMPLETED
    assert after(state, Event.CANCEL) is State.CANCELLED


@pytest.mark.parametrize("state", sorted(PARKED))
def test_what_is_parked_can_go_on(state: State) -> None:
    assert State.OPEN in reachable(state)


def test_a_state_outside_the_review_cannot_approve() -> None:
    assert [state for state in State if (state, Event.APPROVE) in TRANSITIONS] == [State.REVIEWING]


def test_the_diagram_shows_every_transition_and_no_other() -> None:
    shown = set()
    for line in mermaid().splitlines()[1:]:
        arrow, _, events = line.strip().partition(": ")
        source, _, target = arrow.partition(" --> ")
        shown |= {(source, event, target) for event in events.split(", ") if event}
    assert shown == {(s.value, e.value, t.value) for (s, e), t in TRANSITIONS.items()}
    assert all(f"{state} --> [*]" in mermaid() for state in TERMINAL)
