"""One schedule's world: a ledger, a remote, a forge, hosts with hubs on them, and everybody who acts there."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog

from ledger import evidence, leases, projects, roster, tasks
from ledger.bounds import Bounds
from ledger.leases import LeasedTask
from ledger.slot import Holder
from pipeline.canonical import digest_bytes
from pipeline.errors import Rejected
from pipeline.facts import Deliverable
from pipeline.signing import SigningKey
from tests.ledger.world import START, VirtualClock
from tests.sim.baton import Actor, Baton, Fault
from tests.sim.forge import API, APP, CLONE, MAIN, Town, in_process
from tests.sim.git import RemoteRefs, SimGit
from tests.sim.memory import Bell, Memory, SimLedger
from tests.sim.objects import Repository, Sha, Store
from workers import publish, register, sweep
from workers.clone import Mirrors
from workers.forge import AppKey
from workers.place import Place

HOSTS: Final = 2
TEAM: Final = 2
WHOLE: Final = 1_000_000
RUN: Final = ["sh", "check.sh"]
KEY: Final = SigningKey(b"\x07" * 32)
CONTRACT: Final = """schema: mac.repository_contract.v1
project: demo
test:
  command: sh check.sh
land:
  method: {method}
"""


def quiet() -> None:
    """The product's log goes nowhere: thousands of schedules say the same."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)


class Laboratory:
    """What all schedules of a process share: objects that never change, an engine, a folder in memory."""

    def __init__(self) -> None:
        self.store = Store()
        self.memory = Memory()
        shared = Path("/dev/shm")
        self.folder = tempfile.TemporaryDirectory(prefix="mac-sim-", dir=shared if shared.is_dir() else None)
        self.numbers = itertools.count()

    def close(self) -> None:
        """Leave nothing behind."""
        self.memory.engine.dispose()
        self.memory.raw.close()
        self.folder.cleanup()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fixed for a whole schedule."""

    required: bool
    method: str
    tasks: int
    reports: int

    @staticmethod
    def drawn(random: Random) -> "Plan":
        """A plan by chance."""
        method = random.choice(("fast_forward", "merge", "squash"))
        return Plan(random.random() < 0.6, method, random.randint(1, 4), int(random.random() < 0.1))


@dataclass
class World:
    """Everything that a step can touch. `told` says in words what each step did."""

    laboratory: Laboratory
    plan: Plan
    clock: VirtualClock = field(default_factory=VirtualClock)
    baton: Baton = field(default_factory=Baton)
    actors: list[Actor] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    committed: Callable[[], None] = lambda: None
    workers: list[str] = field(default_factory=list)
    strangers: dict[str, tuple[Sha | None, Sha]] = field(default_factory=dict)
    branch: str = ""
    pids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    stirs: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        lab, store = self.laboratory, self.laboratory.store
        lab.memory.begin()
        self.store, self.memory, self.bounds = store, lab.memory, Bounds()
        files = {".mac/project.yaml": CONTRACT.format(method=self.plan.method), "check.sh": "exit 0\n", "a.txt": "a\n"}
        first = store.commit(store.tree({p: store.put("blob", t.encode()) for p, t in files.items()}), [], "Begin")
        self.remote = RemoteRefs(Repository(store))
        self.remote.repository.take(first)
        self.refs = self.remote.repository.refs
        self.refs[MAIN] = first
        self.town = Town(self.remote, self.plan.required, now=self.clock)
        self.bell = Bell(self.baton)
        self.ledger = SimLedger(
            lab.memory, self.clock, self.bounds, bell=self.bell, baton=self.baton, committed=self._committed
        )
        home = Path(lab.folder.name) / str(next(lab.numbers))
        git = SimGit.made(home, store, self.baton, {CLONE: self.remote})
        self.places = [self._place(home, git, host) for host in range(HOSTS)]

    def open(self) -> None:
        """Register the project and ask for the work."""
        with self.ledger.write() as tx:
            made = projects.register(tx, name="demo", owner="acme", repository="demo", actor="sim")
            self.branch = made.branch_id
            self.workers = [roster.worker(tx, f"worker-{n}").id for n in range(TEAM)]
        register.register_waiting(self.places[0])
        with self.ledger.write() as tx:
            project = projects.get(tx, "demo")
            self.project = project.id
            kinds = [Deliverable.CODE] * self.plan.tasks + [Deliverable.REPORT] * self.plan.reports
            for number, kind in enumerate(kinds):
                tasks.create(tx, project, title=f"Change {number}", body="Please.", deliverable=kind, actor="sim")

    def _committed(self) -> None:
        self.committed()

    # --- the hubs

    def _place(self, home: Path, git: SimGit, host: int) -> Place:
        jitter = itertools.cycle((0.1, 0.7, 0.4, 0.9))
        return Place(
            ledger=self.ledger,
            mirrors=Mirrors(home / f"host-{host}", git, max_bytes=1 << 40, lock_timeout_ms=0),
            github=AppKey(API, APP, "unused", timeout_ms=1_000),
            github_url="http://127.0.0.1:1",
            key=KEY,
            holder=Holder(f"host-{host}", f"boot-{host}", 0, 0),
            revision="simulated",
            bounds=self.bounds,
            now=self.ledger.now,
            jitter=lambda: next(jitter),
        )

    def hub(self, host: int, *, sweeps: bool, faults: list[Fault | None]) -> Actor:
        """A process of a hub that answers a ring, or a tick of a sweep."""
        pid = next(self.pids)
        place = self.places[host]
        place = replace(place, holder=replace(place.holder, pid=pid, started_at=pid))
        if sweeps:
            return self.actor(f"sweep-{pid}@{host}", lambda: sweep.tick(place), faults)
        if self.branch in self.bell.waiting:
            self.bell.waiting.remove(self.branch)
        return self.actor(f"job-{pid}@{host}", lambda: publish.advance_branch(place, self.branch), faults)

    def actor(self, name: str, work: Callable[[], object], faults: list[Fault | None]) -> Actor:
        """Somebody new, standing at the start."""
        made = Actor(name, work, faults=faults)
        self.actors.append(made)
        return made

    def run(self, actor: Actor, grant: int = WHOLE) -> None:
        """Let it go on, and see how it ended."""
        before = actor.at
        self.baton.run(actor, grant)
        self._ended(actor, before)

    def kill(self, actor: Actor) -> None:
        """It is gone."""
        before = actor.at
        self.baton.kill(actor)
        self._ended(actor, before)

    def _ended(self, actor: Actor, before: str) -> None:
        where = "gone" if actor.dead else "ended" if actor.ended else f"stands at {actor.at}"
        self.told.append(f"{actor.name}: from {before}, {where}")
        if actor.ended and actor in self.actors:
            self.actors.remove(actor)
            if actor.problem is not None and not (actor.struck and type(actor.problem).__name__ == "OperationalError"):
                self.broken.append((0, f"{actor.name} raised {type(actor.problem).__name__}: {actor.problem}"))

    # --- the executors

    def work(self, worker: str, drawn: Random) -> None:
        """Lease, change a file, hand it in. The lease may be long over by then; the hub must say so."""
        leased = leases.lease(self.ledger, worker)
        if leased is None:
            return
        if drawn.random() < 0.06:
            leases.release(
                self.ledger, leased.lease_id, leased.token, worker, failure_class=drawn.choice(("work", "environment"))
            )
            return
        if leased.task.deliverable is Deliverable.REPORT:
            words = {
                "schema": "mac.evidence.v1",
                "kind": "operator_result",
                "summary": "All five wait for one lock, in order.",
            }
            evidence.submit(self.ledger, leased.lease_id, leased.token, worker, words)
            return
        base = self.refs[MAIN]
        if drawn.random() < 0.2:
            leases.heartbeat(self.ledger, leased.lease_id, leased.token, worker)
        head = self._change(leased, base, drawn)
        bundle = self.store.bundle(head, base)
        evidence.store_bundle(self.ledger, leased.lease_id, leased.token, worker, bundle)
        document = self._document(base, head, bundle, passes=drawn.random() < 0.92)
        evidence.submit(self.ledger, leased.lease_id, leased.token, worker, document)

    def _change(self, leased: LeasedTask, base: Sha, drawn: Random) -> Sha:
        path = "a.txt" if drawn.random() < 0.3 else f"{leased.task.title[-1]}.txt"
        text = f"{leased.task.title} in attempt {leased.attempt}\n"
        return self.store.change(base, {path: text}, f"Work on {leased.task.title} {next(self.stirs)}")

    def _document(self, base: Sha, head: Sha, bundle: bytes, *, passes: bool) -> dict[str, Any]:
        old, new = (self.store.files(self.store.tree_of(sha)) for sha in (base, head))
        listed = [
            {"status": "M" if path in old else "A", "path": path} for path in sorted(new) if old.get(path) != new[path]
        ]
        run = {
            "argv": RUN, "exit": 0 if passes else 1, "started_at": self.clock() - 10, "ended_at": self.clock(),
            "output_sha256": digest_bytes(b""), "output_excerpt": "", "dirty": False,
        }  # fmt: skip
        return {
            "schema": "mac.evidence.v1", "kind": "repository_change", "head": head, "tree": self.store.tree_of(head),
            "verified_base": base, "bundle": digest_bytes(bundle), "files": listed, "runs": [run],
            "summary": "Changed as asked, and the check passes.",
            "usage": {"input_tokens": 1, "output_tokens": 1}, "executor": {"name": "sim", "version": "1"},
        }  # fmt: skip

    def executor(self, worker: str, seed: int, faults: list[Fault | None]) -> Actor:
        """An executor that can be stopped between any two of its calls."""

        def work() -> None:
            try:
                self.work(worker, Random(seed))
            except Rejected as refused:
                self.told.append(f"executor {worker} was refused: {refused.code}")

        return self.actor(f"executor-{next(self.pids)}", work, faults)

    # --- strangers

    def stranger(self, ref: str, new: Sha) -> None:
        """Somebody else moves a ref, by whatever means the forge gives to people."""
        before = self.strangers.get(ref)
        undone = before[0] if before is not None and before[1] == self.refs.get(ref) else self.refs.get(ref)
        self.strangers[ref] = (undone, new)
        self.remote.repository.take(new)
        self.refs[ref] = new
        self.told.append(f"a stranger moves {ref} to {new[:8]}")

    def heads(self) -> list[str]:
        """The refs of the tasks' branches."""
        return sorted(ref for ref in self.refs if ref.startswith("refs/heads/mac/"))

    def in_process(self) -> Any:
        """The forge is here as long as this lasts."""
        return in_process(lambda: self.town, self.baton)


def started() -> int:
    """The time at which every schedule begins."""
    return START
