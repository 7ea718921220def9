"""What can happen next: each step is a word and a number, and the number picks among what is there at that moment.

A step that finds nothing to do does nothing, so that any part of a schedule is a schedule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from ledger import leases, orders, projects, publication, review
from pipeline.errors import Rejected
from tests.sim.baton import Fault
from tests.sim.forge import MAIN
from tests.sim.world import WHOLE, World

T = TypeVar("T")
ACTORS_MAX: Final = 6
JUMPS_MS: Final = (500, 3_100, 3_100, 31_000, 31_000, 125_000, 125_000, 960_000, 2_000_000, 3_700_000)
BACK_MS: Final = (2_000, 20_000, 130_000, 1_000_000)
AMBUSH_SEAMS: Final = 150
AMBUSHES: Final = ("ledger write", "git push", "git push, sent", "git push, answered")
HOSTILE: Final = (
    ("stop",), ("hold",), ("pause",), ("cancel",), ("push",), ("rewind",), ("by_hand",), ("by_hand",), ("head",), ("head",),
    ("flipped",), ("expired", "other"), ("expired", "other"), ("expired", "other", "other"), ("kill",),
    ("expired", "cancel"),
    ("expired", "other", "rewind"),
    ("expired", "push", "other"), ("stop", "expired", "other"), ("kill", "by_hand"),
)  # fmt: skip
Act = Callable[[World, Random], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a schedule."""

    word: str
    number: int


def take(world: World, step: Step) -> None:
    """Do it."""
    world.told.append(f"-- {step.word} {step.number}")
    STEPS[step.word][1](world, Random(step.number))


def _one(random: Random, things: list[T]) -> T | None:
    return random.choice(things) if things else None


def _faults(random: Random, share: float) -> list[Fault | None]:
    if random.random() >= share:
        return []
    found: list[Fault | None] = []
    for _ in range(random.choice((1, 1, 2))):
        found += [*[None] * random.randint(0, 45), random.choice(list(Fault))]
    return found


# --- hubs and executors


def _job(world: World, random: Random) -> None:
    """A job runs to its end."""
    world.run(world.hub(random.randrange(2), sweeps=random.random() < 0.3, faults=_faults(random, 0.25)))


def _begun(world: World, random: Random) -> None:
    """A job begins, and stands somewhere."""
    if len(world.actors) < ACTORS_MAX:
        actor = world.hub(random.randrange(2), sweeps=random.random() < 0.2, faults=_faults(random, 0.25))
        world.run(actor, random.randint(1, 120))


def _ambush(world: World, random: Random) -> None:
    """A job comes to where it is about to move a ref, or has just done so; there the worst happens, and it goes on."""
    if len(world.actors) >= ACTORS_MAX:
        return
    if random.random() < 0.8:
        _to_the_brink(world, random)
    actor = world.hub(random.randrange(2), sweeps=False, faults=[])
    here, decided = random.choice(AMBUSHES), random.choice(("land", "land", "land", "update_branch", "propose"))
    for _ in range(AMBUSH_SEAMS):
        world.baton.run(actor, 0 if actor.thread is None else 1)
        if actor.ended or (actor.at == here and _decided(world, decided)):
            break
    world.run(actor, 0)
    if not actor.ended:
        for word in random.choice(HOSTILE):
            STEPS[word][1](world, Random(random.getrandbits(32)))
        if actor in world.actors and random.random() < 0.8:
            world.run(actor)


def _to_the_brink(world: World, random: Random) -> None:
    """Work is handed in, and CI likes it: what comes next moves a ref."""
    world.run(world.executor(random.choice(world.workers), random.getrandbits(32), []))
    if world.plan.required:
        world.run(world.hub(random.randrange(2), sweeps=False, faults=[]))
        for ref in world.heads():
            if not world.town.is_green(world.refs[ref]):
                world.town.check(world.refs[ref], "success")
    with world.ledger.write() as tx:
        publication.wake(tx, world.branch)


def _decided(world: World, word: str) -> bool:
    query = "SELECT 1 FROM publications WHERE state <> 'closed' AND look_holder IS NOT NULL AND decision = ?"
    return bool(world.memory.rows(query, word))


def _other(world: World, _random: Random) -> None:
    """Another hub, on each host, does what it can."""
    for host in range(2):
        world.run(world.hub(host, sweeps=False, faults=[]))


def _expired(world: World, _random: Random) -> None:
    """The slot and the look of whoever stands are over."""
    world.clock.advance(world.bounds.land_slot_ms + 1_000)


def _flipped(world: World, random: Random) -> None:
    """What was green is red."""
    if ref := _one(random, world.heads()):
        world.town.check(world.refs[ref], "failure")


def _on(world: World, random: Random) -> None:
    """One that stands goes on for a while."""
    if actor := _one(random, world.actors):
        world.run(actor, random.choice((1, 1, 2, 3, 5, 8, 13, 30)))


def _to_end(world: World, random: Random) -> None:
    """One that stands wakes up and goes on to its end."""
    if actor := _one(random, world.actors):
        actor.faults = _faults(random, 0.2)
        world.run(actor, WHOLE)


def _kill(world: World, random: Random) -> None:
    if actor := _one(random, world.actors):
        world.kill(actor)


def _work(world: World, random: Random) -> None:
    """An executor does a whole attempt."""
    world.run(world.executor(random.choice(world.workers), random.getrandbits(32), _faults(random, 0.1)))


def _slow_work(world: World, random: Random) -> None:
    if len(world.actors) < ACTORS_MAX:
        actor = world.executor(random.choice(world.workers), random.getrandbits(32), _faults(random, 0.1))
        world.run(actor, random.randint(1, 9))


def _reclaim(world: World, _random: Random) -> None:
    leases.reclaim(world.ledger)


# --- operators


def _order(name: str) -> Act:
    def act(world: World, random: Random) -> None:
        ids = [r["id"] for r in world.memory.rows("SELECT id FROM tasks ORDER BY id")]
        task = random.choice(ids)
        try:
            with world.ledger.write() as tx:
                match name:
                    case "stop":
                        orders.stop(tx, task, actor="sim")
                    case "start":
                        orders.start(tx, task, actor="sim")
                    case "hold" | "unhold":
                        orders.hold(tx, task, name == "hold", actor="sim")
                    case "cancel":
                        orders.cancel(tx, task, actor="sim")
                    case "retry":
                        orders.retry(tx, task, why="Once more.", actor="sim")
                    case "pause":
                        projects.pause(tx, world.project, actor="sim")
                    case _:
                        projects.resume(tx, world.project, actor="sim")
            world.told.append(f"an operator orders {name} of {task}")
        except Rejected as refused:
            world.told.append(f"an operator's {name} of {task} is refused: {refused.code}")

    return act


def _wave(world: World, random: Random) -> None:
    ids = [r["id"] for r in world.memory.rows("SELECT id FROM publications WHERE state <> 'closed'")]
    if found := _one(random, ids):
        with world.ledger.write() as tx:
            review.wave_through(tx, found, actor="sim")


# --- the world


def _push(world: World, random: Random) -> None:
    """A stranger's commit on the canonical branch."""
    path = random.choice(("z.txt", "z.txt", "a.txt", "0.txt"))
    commit = world.store.change(world.refs[MAIN], {path: f"stranger {next(world.stirs)}\n"}, "By a stranger")
    world.stranger(MAIN, commit)
    _tell(world, random)


def _rewind(world: World, random: Random) -> None:
    """Somebody takes commits off the canonical branch."""
    at = world.refs[MAIN]
    for _ in range(random.randint(1, 2)):
        parents = world.store.parents(at)
        at = parents[0] if parents else at
    if at != world.refs[MAIN]:
        world.stranger(MAIN, at)
        _tell(world, random)


def _by_hand(world: World, random: Random) -> None:
    """Somebody merges a change by hand, or pushes it as it is."""
    ref = _one(random, world.heads())
    if ref is None:
        return
    head, main = world.refs[ref], world.refs[MAIN]
    tree = world.store.merge(main, head)[0]
    if tree is not None and not world.store.is_ancestor(head, main):
        fast = world.store.is_ancestor(main, head) and random.random() < 0.4
        world.stranger(MAIN, head if fast else world.store.commit(tree, [main, head], f"By hand {next(world.stirs)}"))


def _head(world: World, random: Random) -> None:
    """Somebody pushes to a task's branch."""
    if ref := _one(random, world.heads()):
        world.stranger(ref, world.store.change(world.refs[ref], {"h.txt": f"{next(world.stirs)}\n"}, "On your branch"))


def _pull(world: World, random: Random) -> None:
    world.town.follow()
    pull = _one(random, [p for p in world.town.pulls.values() if not p.merged])
    if pull is None:
        return
    if random.random() < 0.5:
        pull.open = not pull.open
    else:
        pull.base = "main" if pull.base == "other" else "other"
    world.told.append(f"pull request {pull.number}: open {pull.open}, base {pull.base}")
    _tell(world, random)


def _ci(world: World, random: Random) -> None:
    """CI reports on a head: it begins, passes, fails; or once more after it had passed."""
    shas = sorted({world.refs[ref] for ref in world.heads()})
    fresh = [sha for sha in shas if sha not in world.town.green]
    sha = _one(random, fresh if fresh and random.random() < 0.8 else shas)
    if sha is not None:
        conclusion = random.choice((None, "success", "success", "success", "success", "success", "failure", "skipped"))
        world.town.check(sha, conclusion)
        world.told.append(f"CI says {conclusion} of {sha[:8]}")
        _tell(world, random, sha)


def _tell(world: World, random: Random, head: str | None = None) -> None:
    """The delivery that tells of it: lost, whole, or twice."""
    for _ in range(random.choice((0, 1, 1, 2))):
        with world.ledger.write() as tx:
            publication.wake(tx, world.branch, head=head)


def _hint(world: World, random: Random) -> None:
    """A delivery about anything, at any time."""
    with world.ledger.write() as tx:
        publication.wake(tx, world.branch, pull_request=random.choice((None, 1, 2)))


def _late(world: World, random: Random) -> None:
    """A push that had been asleep arrives."""
    if world.remote.asleep:
        arrived = world.remote.asleep.pop(random.randrange(len(world.remote.asleep)))()
        world.told.append(f"a push that was asleep arrives: {arrived or 'it moves'}")


def _clock(world: World, random: Random) -> None:
    world.clock.advance(random.choice(JUMPS_MS))


def _back(world: World, random: Random) -> None:
    world.clock.advance(-random.choice(BACK_MS))
    world.town.told_old = True  # from here on an instant says nothing of an order


STEPS: Final[Mapping[str, tuple[int, Act]]] = {
    "job": (26, _job), "ambush": (10, _ambush), "other": (1, _other), "expired": (2, _expired), "flipped": (1, _flipped),
    "begun": (10, _begun), "on": (14, _on), "to_end": (7, _to_end), "kill": (5, _kill),
    "work": (12, _work), "slow_work": (4, _slow_work), "reclaim": (1, _reclaim),
    "stop": (1, _order("stop")), "start": (1, _order("start")), "hold": (1, _order("hold")), "unhold": (2, _order("unhold")),
    "cancel": (1, _order("cancel")), "retry": (2, _order("retry")), "pause": (1, _order("pause")),
    "resume": (2, _order("resume")), "wave": (1, _wave), "push": (3, _push), "rewind": (2, _rewind),
    "by_hand": (1, _by_hand), "head": (1, _head), "pull": (2, _pull), "ci": (16, _ci), "hint": (3, _hint),
    "late": (3, _late), "clock": (20, _clock), "back": (1, _back),
}  # fmt: skip
