"""Many schedules one after the other, in a process of their own; and a failure made small and told."""

from collections import Counter

from tests.sim.schedule import Outcome, Schedule, play, shrink
from tests.sim.world import Laboratory, quiet

BATCH = 20


def batch(first: int, count: int) -> tuple[int, Counter[str], int, list[Outcome]]:
    """Play seeds one after the other: how many landed, how tasks ended, the seams passed, and what failed."""
    quiet()
    laboratory = Laboratory()
    landed, seams, ends, failed = 0, 0, Counter[str](), []
    try:
        for seed in range(first, first + count):
            outcome = play(laboratory, Schedule.drawn(seed))
            landed, seams = landed + outcome.landed, seams + outcome.seams
            ends.update(outcome.ends)
            if outcome.broken:
                failed.append(outcome)
    finally:
        laboratory.close()
    return landed, ends, seams, failed


def explain(outcome: Outcome) -> str:
    """The failure made small, with its trace."""
    laboratory = Laboratory()
    law = outcome.broken[0][0]
    try:
        small = shrink(outcome.schedule, lambda s: any(b[0] == law for b in play(laboratory, s).broken[:1]))
        told = play(laboratory, small, trace=True)
    finally:
        laboratory.close()
    steps = ", ".join(f"({s.word!r}, {s.number})" for s in small.steps)
    head = f"seed {small.seed} breaks law {told.broken[0][0]}: {told.broken[0][1]}\nplan {small.plan}\nsteps {steps}"
    return "\n".join([head, *told.told])
