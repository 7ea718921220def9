"""The laws hold under a few fixed seeds, and under everything that once broke them; and a failure can be played again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.sim.__main__ import main
from tests.sim.mutants import MUTANTS, ROOT
from tests.sim.schedule import Schedule, play, shrink
from tests.sim.steps import STEPS
from tests.sim.world import Laboratory, quiet

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))
FIXED = range(20)


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    before = structlog.get_config()
    quiet()
    made = Laboratory()
    yield made
    made.close()
    structlog.configure(**before)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_what_once_broke_a_law_breaks_none_any_more(laboratory: Laboratory, path: Path) -> None:
    assert play(laboratory, Schedule.read(path)).broken == []


def test_a_few_fixed_seeds_break_no_law_and_changes_land_in_them(laboratory: Laboratory) -> None:
    outcomes = [play(laboratory, Schedule.drawn(seed)) for seed in FIXED]
    assert [(o.schedule.seed, o.broken) for o in outcomes if o.broken] == []
    assert sum(o.landed for o in outcomes) > len(FIXED)
    assert {word for o in outcomes for word in (s.word for s in o.schedule.steps)} == set(STEPS), "every step is taken"


def test_a_seed_is_played_again_exactly(laboratory: Laboratory) -> None:
    first, second = (play(laboratory, Schedule.drawn(4), trace=True) for _ in range(2))
    assert first.told == second.told
    assert first.seams == second.seams > 100


def test_a_failure_is_made_as_small_as_its_cause(laboratory: Laboratory) -> None:
    drawn = Schedule.drawn(3)
    wanted = {step for step in drawn.steps if step.word == "clock"}
    small = shrink(drawn, lambda schedule: wanted <= set(schedule.steps))
    assert set(small.steps) == wanted


def test_a_kept_schedule_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    drawn = Schedule.drawn(5)
    drawn.kept(tmp_path / "one.json", "It showed nothing.")
    assert Schedule.read(tmp_path / "one.json") == drawn


def test_every_mistake_that_must_be_caught_can_still_be_made() -> None:
    gone = [m.name for m in MUTANTS for path, old, _ in m.changes if old not in (ROOT / path).read_text()]
    assert gone == []
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 25


@pytest.mark.fresh
@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_minutes_of_fresh_seeds_break_no_law() -> None:
    assert main(["--minutes", "3", "--processes", "2"]) == 0
