"""A whole hub in one process against the sandbox: real ledger, real git, real HTTP; only the clock can be pushed on."""

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger import evidence, leases, migrate, projects, publication, reports, roster, tasks
from ledger.bounds import Bounds
from ledger.engine import connect
from ledger.leases import LeasedTask
from ledger.session import Ledger
from pipeline.canonical import digest_bytes
from pipeline.decisions import Decision, name
from pipeline.facts import Deliverable
from pipeline.signing import SigningKey
from pipeline.states import State
from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from workers import publish, register
from workers.clone import Mirrors
from workers.forge import AppKey
from workers.git import Git
from workers.place import Place, this_process

PERMISSIONS = {
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
CONTRACT = """schema: mac.repository_contract.v1
project: demo
test:
  command: sh check.sh
land:
  method: {method}
"""
RUN = ("sh", "check.sh")


@dataclass
class PushedClock:
    """The wall clock, pushed on by hand: real programs sign with the real time, and waits need no sleep."""

    ahead_ms: int = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


@dataclass
class Scene:
    """One project on one branch. Steps are named as a reader would say them."""

    github: Sandbox
    repo: Repo
    hub: AppHandle
    ci: AppHandle
    place: Place
    clock: PushedClock
    folder: Path
    project: str = "demo"
    worker: str = ""
    told: list[Decision] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return self.place.ledger

    @staticmethod
    def set_up(github: Sandbox, folder: Path, *, method: str = "fast_forward", **bounds: Any) -> "Scene":
        """A registered-to-be project whose contract runs `sh check.sh`; rules are the test's to add, then `register`."""
        files = {".mac/project.yaml": CONTRACT.format(method=method), "check.sh": "exit 0\n", "a.txt": "a\n"}
        repo = github.repository("acme/demo", files=files)
        hub = github.app("mac-hub", permissions=PERMISSIONS)
        ci = github.app("ci-app", permissions={"checks": "write", "contents": "read", "metadata": "read"})
        clock = PushedClock()
        place = _place(github, hub, folder, clock, Bounds(**bounds))
        return Scene(github, repo, hub, ci, place, clock, folder)

    def register(self) -> projects.Project:
        with self.ledger.write() as tx:
            projects.register(tx, name=self.project, owner="acme", repository="demo", actor="test")
            self.worker = roster.worker(tx, "worker-1").id
        register.register_waiting(self.place)
        with self.ledger.read() as tx:
            return projects.get(tx, self.project)

    def task(self, title: str = "Change a", deliverable: Deliverable = Deliverable.CODE) -> str:
        with self.ledger.write() as tx:
            project = projects.get(tx, self.project)
            made = tasks.create(tx, project, title=title, body="Please.", deliverable=deliverable, priority=0, actor="test")
            return made.id

    def lease(self) -> LeasedTask:
        leased = leases.lease(self.ledger, self.worker)
        assert leased is not None, "there was nothing to lease"
        return leased

    def hands_in(self, leased: LeasedTask, files: dict[str, str], **changed: Any) -> str:
        """Work on the present tip and hand it in as a bundle; `changed` replaces fields of the evidence."""
        base = self.repo.tip()
        clone = self.folder / f"work-{leased.lease_id}"
        _git(self.folder, "clone", "-q", str(self.repo.path), str(clone))
        for path, text in files.items():
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text(text)
        _git(clone, "add", "-A")
        _git(clone, "commit", "-q", "-m", "Work")
        head = _git(clone, "rev-parse", "HEAD")
        _git(clone, "branch", "mac/work", head)
        _git(clone, "bundle", "create", "-q", "out.bundle", f"{base}..mac/work")
        token = leased.token
        evidence.store_bundle(self.ledger, leased.lease_id, token, self.worker, (clone / "out.bundle").read_bytes())
        document = self._document(clone, base, head) | changed
        evidence.submit(self.ledger, leased.lease_id, token, self.worker, document)
        return head

    def _document(self, clone: Path, base: str, head: str) -> dict[str, Any]:
        now = self.clock()
        listed = _git(clone, "diff", "--no-renames", "--name-status", base, head).splitlines()
        run = {
            "argv": list(RUN),
            "exit": 0,
            "started_at": now - 10,
            "ended_at": now,
            "output_sha256": digest_bytes(b""),
            "output_excerpt": "",
            "dirty": False,
        }
        return {
            "schema": "mac.evidence.v1",
            "kind": "repository_change",
            "head": head,
            "tree": _git(clone, "rev-parse", "HEAD^{tree}"),
            "verified_base": base,
            "bundle": digest_bytes((clone / "out.bundle").read_bytes()),
            "files": [{"status": s, "path": p} for s, p in (line.split("\t") for line in listed)],
            "runs": [run],
            "summary": "Changed a as asked, and the check passes.",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "executor": {"name": "test", "version": "1"},
        }

    def advance(self) -> list[str]:
        """Look until nothing is due; what was decided, as words."""
        branch = self.branch
        decided: list[str] = []
        for _ in range(30):
            look = publication.due(self.ledger, branch, self.place.name)
            if look is None:
                return decided
            decision = publish.look_at(self.place, look)
            if decision is not None:
                self.told.append(decision)
                decided.append(f"{name(decision)}:{decision.reason.value}")
        raise AssertionError(f"it does not come to rest: {decided}")

    def wake(self, **what: Any) -> None:
        with self.ledger.write() as tx:
            publication.wake(tx, self.branch, **what)

    def later(self, ms: int) -> None:
        self.clock.ahead_ms += ms

    def state(self, task: str) -> State:
        with self.ledger.read() as tx:
            return tasks.get(tx, task).state

    def why(self, task: str) -> dict[str, Any]:
        with self.ledger.read() as tx:
            return dict(reports.why(tx, task))

    @property
    def branch(self) -> str:
        """The id of the canonical branch in the ledger."""
        with self.ledger.read() as tx:
            return projects.get(tx, self.project).branch_id


def place_at(folder: Path, key: AppKey, clock: PushedClock, bounds: Bounds) -> Place:
    """The hands in this folder, in whatever process asks: a second one sees the same ledger and the same mirrors."""
    git = Git.prepared(folder / "git", os.environ, timeout_ms=20_000)
    return Place(
        ledger=Ledger.open(ledger_url(folder), clock=clock, bounds=bounds),
        mirrors=Mirrors(folder / "mirrors", git, max_bytes=10**9),
        github=key,
        github_url=key.api_url,
        key=SigningKey(b"\x07" * 32),
        holder=this_process(),
        revision="test",
        bounds=bounds,
        now=clock,
        jitter=lambda: 0.5,
    )


def ledger_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.sqlite'}"


def _place(github: Sandbox, hub: AppHandle, folder: Path, clock: PushedClock, bounds: Bounds) -> Place:
    engine = connect(ledger_url(folder))
    migrate.apply(engine, applied_by="test")
    engine.dispose()
    return place_at(folder, AppKey(github.url, hub.id, hub.private_key, timeout_ms=5_000), clock, bounds)


def _git(folder: Path, *argv: str) -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "w",
        "GIT_AUTHOR_EMAIL": "w@example.invalid",
        "GIT_COMMITTER_NAME": "w",
        "GIT_COMMITTER_EMAIL": "w@example.invalid",
    }
    done = subprocess.run(["git", *argv], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
