"""The back-off at its edges: never at once, never for ever, and never all together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decisions import Block, Decision, Nothing, Owner, RunGate, Wait
from pipeline.reasons import Reason
from pipeline.retry import BackOff, after_unavailable, delay_ms, next_look

BOUNDS = BackOff()


@pytest.mark.parametrize(
    ("looks", "jitter", "delay"),
    [(0, 0.0, 15_000), (0, 0.5, 22_500), (1, 0.0, 30_000), (5, 0.0, 480_000), (6, 0.0, 900_000), (-1, 0.0, 15_000),
     (10**9, 0.0, 900_000), (10**9, 0.999999, 1_799_999)],
)  # fmt: skip
def test_the_wait_doubles_up_to_its_cap(looks: int, jitter: float, delay: int) -> None:
    assert delay_ms(looks, jitter, BOUNDS) == delay


@given(st.integers(-5, 10**6), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_always_within_its_bounds(looks: int, jitter: float) -> None:
    assert BOUNDS.min_ms // 2 <= delay_ms(looks, jitter, BOUNDS) < BOUNDS.max_ms
    assert delay_ms(looks, jitter, BOUNDS) <= delay_ms(looks + 1, jitter, BOUNDS)


@pytest.mark.parametrize(
    ("decision", "moment"),
    [(RunGate(), 100), (Nothing(Reason.STOPPED), 100), (Block(Reason.NO_GATE, sticky=False), 15_100),
     (Wait(Reason.UNKNOWN, Owner.HUB), 15_100), (Wait(Reason.UNKNOWN, Owner.HUB, next_look_at=50), 100),
     (Wait(Reason.UNKNOWN, Owner.HUB, next_look_at=150), 150),
     (Wait(Reason.UNKNOWN, Owner.HUB, next_look_at=10**15), 1_800_100)],
)  # fmt: skip
def test_the_next_look_is_at_once_at_the_named_moment_or_backed_off(decision: Decision, moment: int) -> None:
    assert next_look(decision, 100, 0, 0.0, BOUNDS) == moment


def test_a_world_that_is_away_is_asked_again_by_back_off_unless_it_named_a_time_or_an_intent_is_open() -> None:
    assert after_unavailable(1_000, None, intent_open=False, soon_ms=3) is None
    assert after_unavailable(1_000, None, intent_open=True, soon_ms=3) == 1_003
    assert after_unavailable(1_000, 60_000, intent_open=True, soon_ms=3) == 61_000
    assert after_unavailable(1_000, 0, intent_open=False, soon_ms=3) == 1_000
