"""A green world for the ledger's tests: a ready project, and each further step of one change; tests change one thing."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from ledger import evidence, intents, leases, projects, publication, review, roster, slot, tasks
from ledger.access import Scope, issue
from ledger.evidence import Submitted
from ledger.intents import Intent, IntentKind
from ledger.leases import LeasedTask
from ledger.projects import Project, Registered
from ledger.publication import Look
from ledger.session import Ledger
from ledger.slot import Holder, LandSlot
from ledger.tables import metadata
from ledger.tasks import Task
from pipeline.canonical import Json, digest, digest_bytes
from pipeline.facts import Deliverable, VerdictResult
from pipeline.verdicts import Finding, Verdict

START = 1_800_000_000_000
HEAD, TREE, BASE = "a" * 40, "b" * 40, "c" * 40
CONTRACT = digest({"contract": 1})
HERE = Holder("here", "boot-1", 100, 1)


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def advance(self, ms: int) -> None:
        """Let that many milliseconds pass."""
        self.at += ms


class CountingIds:
    """Ids that say in which order they were made."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):06d}"


class HeardBell:
    """A broker that remembers what was rung."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def ring(self, branch_id: str) -> None:
        self.rung.append(branch_id)

    def answer(self, branch_id: str) -> None:
        self.rung = [one for one in self.rung if one != branch_id]


def contents(ledger: Ledger) -> dict[str, str]:
    """For each table, a digest of all its rows: equal before and after means that nothing at all was written."""
    found = {}
    with ledger.read() as tx:
        for table in metadata.sorted_tables:
            rows = sorted(repr(row) for row in tx.connection.execute(select(table)).all())
            found[table.name] = digest_bytes("\n".join(rows).encode())
    return found


def rows(ledger: Ledger, table: str, **where: object) -> list[Mapping[str, object]]:
    """The rows of a table that have these values, as mappings."""
    chosen = metadata.tables[table]
    query = select(chosen)
    for name, value in where.items():
        query = query.where(chosen.c[name] == value)
    with ledger.read() as tx:
        return [dict(row) for row in tx.connection.execute(query).mappings()]


def bundle(head: str = HEAD) -> bytes:
    """The bytes of a bundle with this head; the ledger reads its header only."""
    return f"# v2 git bundle\n-{BASE} base\n{head} refs/heads/work\n\nPACK".encode()


def change_document(head: str = HEAD, *, content: bytes | None = None) -> dict[str, Json]:
    """Evidence for a code task."""
    return {
        "schema": "mac.evidence.v1",
        "kind": "repository_change",
        "head": head,
        "tree": TREE,
        "verified_base": BASE,
        "bundle": digest_bytes(bundle(head) if content is None else content),
        "files": [{"path": "a.txt", "status": "M"}],
        "runs": [],
        "summary": "It does what was asked.",
    }


def report_document() -> dict[str, Json]:
    """Evidence for a report task."""
    summary = "The five slowest tests all wait for the same lock."
    return {"schema": "mac.evidence.v1", "kind": "operator_result", "summary": summary}


def verdict(submitted: Submitted, result: VerdictResult = VerdictResult.APPROVED, *findings: Finding) -> Verdict:
    """A verdict on that evidence."""
    return Verdict(result, submitted.digest, CONTRACT, findings)


@dataclass
class World:
    """The builder. Each step does the whole way up to it through the ledger's own functions."""

    ledger: Ledger
    clock: VirtualClock
    bell: HeardBell
    names: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def project(self, name: str | None = None) -> Project:
        """A ready project."""
        name = name or f"project-{next(self.names)}"
        with self.ledger.write() as tx:
            made = projects.register(tx, name=name, owner="acme", repository=name, actor="test")
            found = Registered(
                repository_id=1000 + next(self.names),
                installation_id=7,
                clone_url=f"http://127.0.0.1/acme/{name}.git",
                default_branch="main",
                contract="schema: mac.repository_contract.v1\n",
                contract_digest=CONTRACT,
                contract_blob="d" * 40,
                method="merge",
                markers_admitted=True,
                permissions={"contents": "write"},
            )
            return projects.settle_registration(tx, made.id, found)

    def task(
        self,
        project: Project,
        *,
        deliverable: Deliverable = Deliverable.CODE,
        priority: int = 0,
        max_attempts: int | None = None,
    ) -> Task:
        """An open task."""
        with self.ledger.write() as tx:
            title = f"Task {next(self.names)}"
            return tasks.create(
                tx,
                project,
                title=title,
                body="Do it.",
                deliverable=deliverable,
                priority=priority,
                max_attempts=max_attempts,
                actor="test",
            )

    def worker(self, name: str = "worker-1") -> str:
        """The id of a worker."""
        with self.ledger.write() as tx:
            return roster.worker(tx, name).id

    def token(self, scope: Scope, worker_name: str | None = None) -> str:
        """The secret of a new token."""
        with self.ledger.write() as tx:
            return issue(tx, scope=scope, label="test", actor="test", worker_name=worker_name).secret

    def leased(self, worker: str = "worker-1") -> LeasedTask:
        """The next task, leased."""
        found = leases.lease(self.ledger, self.worker(worker))
        assert found is not None
        return found

    def submitted(self, held: LeasedTask | None = None, *, head: str = HEAD) -> Submitted:
        """The evidence of a leased task, taken in."""
        held = held or self.leased()
        if held.task.deliverable is Deliverable.REPORT:
            return evidence.submit(self.ledger, held.lease_id, held.token, held.worker_id, report_document())
        evidence.store_bundle(self.ledger, held.lease_id, held.token, held.worker_id, bundle(head))
        return evidence.submit(self.ledger, held.lease_id, held.token, held.worker_id, change_document(head))

    def look(self, branch_id: str) -> Look:
        """The next look at the branch; there must be one."""
        found = publication.due(self.ledger, branch_id, "process-1")
        assert found is not None
        return found

    def look_at(self, publication_id: str) -> Look:
        """A look at this very publication, whatever else is due."""
        with self.ledger.write() as tx:
            row = tx.connection.execute(select(metadata.tables["publications"]).filter_by(id=publication_id)).one()
            publications = metadata.tables["publications"]
            first = publications.update().where(publications.c.id == publication_id)
            tx.connection.execute(first.values(next_look_at=0, look_holder=None, look_expires_at=None))
        found = self.look(row.branch_id)
        assert found.publication_id == publication_id
        return found

    def approved(self, project: Project, *, priority: int = 0, head: str = HEAD) -> Submitted:
        """A change that is approved and stands in the line."""
        self.task(project, priority=priority)
        submitted = self.submitted(self.leased(), head=head)
        look = self.look_at(submitted.publication_id)
        review.record_verdict(self.ledger, look, verdict(submitted), CONTRACT, verifier_green=True)
        return submitted

    def slot(self, branch_id: str) -> LandSlot:
        """The land slot, held here."""
        found = slot.take_slot(self.ledger, branch_id, HERE)
        assert found is not None
        return found

    def intent(self, look: Look, held: LandSlot, kind: IntentKind = IntentKind.LAND) -> Intent:
        """An open intent."""
        return intents.commit_intent(
            self.ledger,
            look,
            held,
            kind,
            lambda intent, token, at: {"intent": intent, "slot_token": token, "committed_at": at},
        )

    def offered(self, worker: str) -> LeasedTask | None:
        """What that worker gets when it asks."""
        return leases.lease(self.ledger, self.worker(worker))

    def attempts_left(self, task_id: str) -> int:
        """How many attempts the task has left."""
        with self.ledger.read() as tx:
            return tasks.get(tx, task_id).attempts_left

    def state(self, task_id: str) -> str:
        """The state of the task."""
        with self.ledger.read() as tx:
            return tasks.get(tx, task_id).state.value
