"""One schedule: drawn from a seed, played, healed, judged; and made small when it fails."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from ledger import orders, projects
from pipeline.states import State
from tests.sim.forge import MAIN
from tests.sim.laws import Laws
from tests.sim.steps import STEPS, Step, take
from tests.sim.world import Laboratory, Plan, World

STEPS_A_SCHEDULE: Final = (25, 110)
ROUNDS_MAX: Final = 90
# Some days one thing happens all the time.
MOODS: Final = (
    (), ("push", "rewind"), ("ambush",), ("stop", "hold", "pause", "start", "unhold", "resume"), ("head", "by_hand", "pull"),
    ("kill", "begun", "on"), ("slow_work", "clock", "reclaim"), ("ci", "flipped"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Schedule:
    """A plan and a list of steps."""

    seed: int
    plan: Plan
    steps: tuple[Step, ...]

    def kept(self, path: Path, why: str) -> None:
        """Keep it as a file, with a sentence that says what it once showed."""
        steps = [[step.word, step.number] for step in self.steps]
        path.write_text(
            json.dumps({"why": why, "seed": self.seed, "plan": asdict(self.plan), "steps": steps}, indent=1) + "\n"
        )

    @staticmethod
    def read(path: Path) -> "Schedule":
        """One that was kept."""
        found = json.loads(path.read_text())
        return Schedule(found["seed"], Plan(**found["plan"]), tuple(Step(*step) for step in found["steps"]))

    @staticmethod
    def drawn(seed: int) -> "Schedule":
        """The schedule of a seed; the same one always."""
        random = Random(seed)
        plan = Plan.drawn(random)
        words, mood = list(STEPS), random.choice(MOODS)
        weights = [weight * (5 if word in mood else 1) for word, (weight, _) in STEPS.items()]
        count = random.randint(*STEPS_A_SCHEDULE)
        chosen = random.choices(words, weights, k=count)
        return Schedule(seed, plan, tuple(Step(word, random.getrandbits(32)) for word in chosen))


@dataclass(slots=True)
class Outcome:
    """What came of a schedule. `broken`: the laws that it broke, in order; none is what we want."""

    schedule: Schedule
    broken: list[tuple[int, str]]
    told: list[str]
    landed: int
    ends: dict[str, int] = field(default_factory=dict)
    seams: int = 0


def play(laboratory: Laboratory, schedule: Schedule, *, trace: bool = False) -> Outcome:
    """Play it to the first breach, or to its healthy end."""
    world = World(laboratory, schedule.plan)
    if trace:
        world.baton.trace = world.told
    laws = Laws(world)
    with world.in_process():
        world.open()
        for step in schedule.steps:
            take(world, step)
            laws.hold()
            if world.broken:
                break
        if not world.broken:
            _heal(world, laws)
        broken = list(world.broken)
        for actor in list(world.actors):
            world.kill(actor)
    ends: dict[str, int] = {}
    for row in world.memory.rows("SELECT state FROM tasks"):
        ends[row["state"]] = ends.get(row["state"], 0) + 1
    return Outcome(schedule, broken, world.told, len(laws.effects), ends, world.baton.seams)


def _heal(world: World, laws: Laws) -> None:
    """The world gets well, and is left alone: everything that can finish does, in a bounded number of rounds."""
    world.told.append("== the world gets well")
    _mend(world)
    for _ in range(ROUNDS_MAX):
        _round(world, laws)
        if world.broken:
            return
        if not laws.finished() and not _claimable(world):
            laws.verify()
            return
        due = world.memory.rows("SELECT min(next_look_at) AS at FROM publications WHERE state <> 'closed'")[0]["at"]
        world.clock.at = max(world.clock() + 31_000, min(due or 0, world.clock() + 1_800_000))
    for left in laws.finished():
        laws.broken(7, f"left alone, it does not finish: {left}")


def _mend(world: World) -> None:
    """Who slept wakes up, what was done to the world is undone, who gave an order takes it back."""
    for actor in list(world.actors):
        actor.faults = []
        world.run(actor)
    while world.remote.asleep:
        world.remote.asleep.pop(0)()
    for pull in world.town.pulls.values():
        pull.base, pull.open = "main", pull.open or not pull.merged
    for ref, (before, put) in world.strangers.items():
        if ref != MAIN and world.refs.get(ref) == put and before is not None:
            world.refs[ref] = before
    with world.ledger.write() as tx:
        projects.resume(tx, world.project, actor="sim")
        for row in world.memory.rows("SELECT id, held, state FROM tasks"):
            if row["held"] and row["state"] not in ("completed", "failed", "cancelled"):
                orders.hold(tx, row["id"], False, actor="sim")


def _round(world: World, laws: Laws) -> None:
    """A tick of the sweep, the executors, and CI that likes everything."""
    world.run(world.hub(0, sweeps=True, faults=[]))
    query = "SELECT id, look_holder FROM publications WHERE next_look_at <= ? AND coalesce(look_expires_at, 0) <= ?"
    for late in world.memory.rows(query, world.clock(), world.clock()):
        laws.broken(5, f"{late['id']} was due and a whole tick did not look at it")
    laws.hold()
    with world.ledger.write() as tx:
        for row in world.memory.rows("SELECT id FROM tasks WHERE state = ?", State.STOPPED.value):
            orders.start(tx, row["id"], actor="sim")
    for worker in world.workers:
        world.work(worker, _Steady())
    for ref in world.heads():
        if not world.town.is_green(world.refs[ref]):
            world.town.check(world.refs[ref], "success")


class _Steady(Random):
    """An executor that does everything right."""

    def random(self) -> float:
        """Never below a small chance, and never above a large one."""
        return 0.5


def _claimable(world: World) -> bool:
    return bool(world.memory.rows("SELECT id FROM tasks WHERE state IN ('open', 'claimed', 'reviewing', 'landing')"))


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], *, plays_max: int = 400) -> Schedule:
    """The same failure with as few steps as can be found: parts are left out as long as it still fails."""
    steps: Sequence[Step] = schedule.steps
    plays, size = 0, max(1, len(steps) // 2)
    while plays < plays_max:
        at, dropped = 0, False
        while at < len(steps) and plays < plays_max:
            fewer = (*steps[:at], *steps[at + size :])
            plays += 1
            if fails(Schedule(schedule.seed, schedule.plan, fewer)):
                steps, dropped = fewer, True
            else:
                at += size
        if size == 1 and not dropped:
            break
        size = size if dropped and size == 1 else max(1, size // 2)
    return Schedule(schedule.seed, schedule.plan, tuple(steps))
