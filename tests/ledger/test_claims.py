"""The statement that finds candidates and the function that decides agree, on whatever the ledger holds."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from ledger import claims, evidence, leases, orders, projects, reports, tasks
from ledger.tables import projects as projects_table
from ledger.tables import tasks as tasks_table
from pipeline.claim import Claimant, Unclaimable
from pipeline.facts import Deliverable
from pipeline.refusals import Refusal
from pipeline.states import State
from tests.ledger.refusing import refused
from tests.ledger.world import START, World, report_document, rows

NEAR = st.sampled_from([START - 1, START, START + 1])
ROWS = st.fixed_dictionaries(
    {
        "state": st.sampled_from([State.OPEN, State.OPEN, State.OPEN, State.CLAIMED, State.FAILED]),
        "held": st.sampled_from([False, False, False, True]),
        "stop_requested_at": st.sampled_from([None, None, None, START]),
        "not_before": NEAR,
        "attempts": st.integers(0, 4),
        "max_attempts": st.integers(1, 3),
        "credits": st.integers(0, 1),
        "tokens": st.integers(0, 2),
        "token_budget": st.sampled_from([None, None, 1, 2]),
        "last_worker_id": st.sampled_from([None, "one", "other"]),
        "kept_for_worker_until": NEAR,
        "project": st.sampled_from(["ready", "ready", "ready", "paused", "registering"]),
        "wanted": st.booleans(),
    }
)


def _write(world: World, given_rows: list[dict[str, Any]], workers: dict[str, str]) -> tuple[list[str], set[str]]:
    """Those tasks, each in a project of its own; their ids, and the projects that the claimant asks for."""
    ids, wanted = [], set()
    for row in given_rows:
        project = world.project()
        task = world.task(project)
        values = {name: value for name, value in row.items() if name not in ("project", "wanted")}
        values["last_worker_id"] = workers.get(row["last_worker_id"])
        with world.ledger.write() as tx:
            change = update(tasks_table).where(tasks_table.c.id == task.id)
            tx.connection.execute(change.values(**values | {"state": row["state"].value}))
            of = update(projects_table).where(projects_table.c.id == project.id)
            state = "registering" if row["project"] == "registering" else "ready"
            tx.connection.execute(of.values(paused=row["project"] == "paused", state=state))
        ids.append(task.id)
        wanted |= {project.id} if row["wanted"] else set()
    return ids, wanted


def test_statement_and_function_agree_on_random_ledgers(world: World) -> None:
    workers = {name: world.worker(name) for name in ("one", "other")}

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(ROWS, min_size=1, max_size=12), st.booleans())
    def agree(given_rows: list[dict[str, Any]], only: bool) -> None:
        ids, wanted = _write(world, given_rows, workers)
        claimant = Claimant(workers["one"], frozenset(wanted) if only else None)
        with world.ledger.read() as tx:
            found = {row.id for row in tx.connection.execute(claims.candidates(START, claimant))} & set(ids)
            admitted = {task_id for task_id in ids if not claims.why_not(tx, task_id, claimant)}
        assert found == admitted

    agree()


def test_a_landed_task_and_one_with_an_open_intent_are_offered_to_nobody(world: World) -> None:
    project = world.project()
    submitted = world.approved(project)
    world.intent(world.look_at(submitted.publication_id), world.slot(project.branch_id))
    with world.ledger.write() as tx:
        opened = update(tasks_table).where(tasks_table.c.id == submitted.task_id).values(state="open", not_before=0)
        tx.connection.execute(opened)
        [found] = claims.why_not(tx, submitted.task_id)
        assert tx.connection.execute(claims.candidates(world.clock.at, Claimant("nobody"))).all() == []
    assert found.code is Unclaimable.INTENT_OPEN
    assert world.offered("worker-2") is None


def test_why_unclaimed_tells_everything_at_once_and_nothing_of_a_task_that_waits_its_turn(world: World) -> None:
    project = world.project()
    task = world.task(project)
    with world.ledger.read() as tx:
        assert reports.why_unclaimed(tx, task.id)["claimable"] is True
    with world.ledger.write() as tx:
        orders.hold(tx, task.id, True, actor="op")
        projects.pause(tx, project.id, actor="op")
    with world.ledger.read() as tx:
        told = reports.why_unclaimed(tx, task.id)
    assert (told["claimable"], [one["code"] for one in told["conditions"]]) == (False, ["held", "project_paused"])
    assert all(one["sentence"] and one["would_change"] for one in told["conditions"])


# --- tokens


def _with_usage(document: dict[str, Any], used: int) -> dict[str, Any]:
    return {**document, "usage": {"input_tokens": used - 1, "output_tokens": 1}}


def test_the_tokens_of_all_attempts_are_summed_and_end_at_the_budget(world: World) -> None:
    project = world.project()
    with world.ledger.write() as tx:
        task = tasks.create(
            tx, project, title="Dear", body="", deliverable=Deliverable.REPORT, actor="test", token_budget=1_000
        )
    first = world.leased()
    leases.release(world.ledger, first.lease_id, first.token, first.worker_id, failure_class="work", tokens=400)
    world.clock.advance(world.ledger.bounds.backoff_max_ms)
    second = world.leased()
    assert second.task.tokens == 400
    document = _with_usage(report_document(), 600)
    evidence.submit(world.ledger, second.lease_id, second.token, second.worker_id, document)
    assert [row["tokens"] for row in rows(world.ledger, "attempts")] == [400, 600]
    with world.ledger.write() as tx:
        assert tasks.get(tx, task.id).tokens == 1_000
        tx.connection.execute(update(tasks_table).values(state="open"))
    with world.ledger.read() as tx:
        assert [found.code for found in claims.why_not(tx, task.id)] == [Unclaimable.TOKENS_SPENT]
    assert world.offered("worker-2") is None


def test_evidence_without_usage_uses_nothing(world: World) -> None:
    world.task(world.project())
    submitted = world.submitted()
    assert rows(world.ledger, "tasks", id=submitted.task_id)[0]["tokens"] == 0


@pytest.mark.parametrize("usage", [{"input_tokens": -1}, {"output_tokens": "5"}, {"input_tokens": True}, [], 7])
def test_usage_that_is_no_number_of_tokens_is_refused(world: World, usage: object) -> None:
    world.task(world.project(), deliverable=Deliverable.REPORT)
    held = world.leased()
    document: dict[str, Any] = {**report_document(), "usage": usage}
    with refused(world.ledger, Refusal.EVIDENCE_INVALID):
        evidence.submit(world.ledger, held.lease_id, held.token, held.worker_id, document)
