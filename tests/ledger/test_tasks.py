"""Projects and tasks, and the one writer of a task's state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import exc
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from ledger import history, leases, orders, projects, review, tasks
from ledger.columns import Document
from ledger.projects import Unfit
from ledger.session import Ledger
from pipeline.errors import InvariantBroken, Rejected
from pipeline.facts import Deliverable
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import TRANSITIONS, Event, State
from tests.ledger.refusing import refused
from tests.ledger.world import World, contents, rows

DIALECT = SQLiteDialect_pysqlite()


def _register(ledger: Ledger, name: str = "hub", repository: str = "hub") -> projects.Project:
    with ledger.write() as tx:
        return projects.register(tx, name=name, owner="acme", repository=repository, actor="op")


def test_a_new_project_is_read_before_it_takes_tasks(world: World) -> None:
    project = _register(world.ledger)
    assert project.state == "registering"
    with world.ledger.read() as tx:
        assert [one.id for one in projects.registering(tx)] == [project.id]
    with refused(world.ledger, Refusal.PROJECT_NOT_READY):
        world.task(project)


@pytest.mark.parametrize(("name", "repository"), [("hub", "other"), ("other", "hub")])
def test_a_name_and_a_repositorys_branch_are_registered_once(world: World, name: str, repository: str) -> None:
    _register(world.ledger)
    with refused(world.ledger, Refusal.PROJECT_EXISTS):
        _register(world.ledger, name, repository)


def test_a_refused_project_says_why_and_can_be_tried_again(world: World) -> None:
    project = _register(world.ledger)
    with world.ledger.write() as tx:
        found = projects.settle_registration(tx, project.id, Unfit("no_guarded_method", {"branch": "main"}))
    assert (found.state, found.refusal, found.refusal_facts) == ("refused", "no_guarded_method", {"branch": "main"})
    again = _register(world.ledger)
    assert (again.id, again.state, again.refusal) == (project.id, "registering", None)


def test_a_ready_project_is_not_refused_afterwards(world: World) -> None:
    project = world.project()
    with world.ledger.write() as tx:
        assert projects.settle_registration(tx, project.id, Unfit("gone", {})).state == "ready"


def test_an_unknown_project_is_refused(world: World) -> None:
    with refused(world.ledger, Refusal.PROJECT_UNKNOWN), world.ledger.read() as tx:
        projects.get(tx, "nobody")


def test_a_task_is_found_by_any_prefix_that_is_its_own(world: World) -> None:
    project = world.project()
    one = world.task(project)
    with world.ledger.read() as tx:
        assert tasks.get(tx, one.id) == tasks.get(tx, one.id.removeprefix("task_")) == tasks.get(tx, one.id[:-1])
    world.task(project)
    with refused(world.ledger, Refusal.ID_AMBIGUOUS), world.ledger.read() as tx:
        tasks.get(tx, "task_0")


@pytest.mark.parametrize("given", ["", "task_zzz", "%", "task_%", "_", "x'; DROP TABLE tasks; --"])
def test_what_names_no_task_is_refused(world: World, given: str) -> None:
    world.task(world.project())
    with refused(world.ledger, Refusal.TASK_UNKNOWN), world.ledger.read() as tx:
        tasks.get(tx, given)


def test_pages_show_every_task_once_and_none_is_larger_than_the_bound(world: World) -> None:
    project = world.project()
    made = [world.task(project).id for _ in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(4):
        with world.ledger.read() as tx:
            page = tasks.list_page(tx, cursor=cursor, limit=2)
        assert len(page.rows) <= 2
        seen += [task.id for task in page.rows]
        cursor = page.next_cursor
    assert (seen, cursor) == (made, None)


@pytest.mark.parametrize("cursor", ["x", "1", ".", "1.", "a.b"])
def test_a_cursor_of_somebody_else_is_refused(world: World, cursor: str) -> None:
    with refused(world.ledger, Refusal.FIELD_INVALID), world.ledger.read() as tx:
        tasks.list_page(tx, cursor=cursor)


def test_a_move_and_its_history_row_are_written_together(world: World) -> None:
    task = world.task(world.project())
    with world.ledger.write() as tx:
        tasks.move(tx, task.id, Event.CANCEL, actor="op", facts={"why": "done elsewhere"})
        entry = history.timeline(tx, task.id)[-1]
    assert (entry.event, entry.from_state, entry.to_state) == ("cancel", "open", "cancelled")
    assert (entry.at, entry.facts, entry.actor) == (world.clock.at, {"why": "done elsewhere"}, "op")


@pytest.mark.parametrize("event", [event for event in Event if (State.OPEN, event) not in TRANSITIONS])
def test_a_move_that_the_table_does_not_hold_writes_nothing(world: World, event: Event) -> None:
    task = world.task(world.project())
    with refused(world.ledger, Refusal.TRANSITION_UNKNOWN), world.ledger.write() as tx:
        tasks.move(tx, task.id, event, actor="op", reason=Reason.CHECK_FAILED)


def test_no_task_is_blocked_without_a_reason(world: World) -> None:
    world.task(world.project())
    submitted = world.submitted()
    before = contents(world.ledger)
    with pytest.raises(InvariantBroken), world.ledger.write() as tx:
        tasks.move(tx, submitted.task_id, Event.BLOCK, actor="op")
    with pytest.raises(exc.IntegrityError), world.ledger.write() as tx:
        tx.connection.exec_driver_sql("UPDATE tasks SET state = 'blocked'")
    assert contents(world.ledger) == before


def test_a_state_cannot_be_written_by_the_way(world: World) -> None:
    task = world.task(world.project())
    with pytest.raises(InvariantBroken), world.ledger.write() as tx:
        tasks.change(tx, task.id, state="completed")
    with pytest.raises(InvariantBroken), world.ledger.write() as tx:
        tasks.move(tx, task.id, Event.CANCEL, actor="op", changes={"state": "completed"})
    assert world.state(task.id) == "open"


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_what_is_over_takes_no_orders(world: World, state: State) -> None:
    task = world.task(world.project())
    with world.ledger.write() as tx:
        tx.connection.exec_driver_sql(f"UPDATE tasks SET state = '{state.value}'")
    for order in (orders.stop, orders.start, orders.cancel):
        with refused(world.ledger, Refusal.TRANSITION_UNKNOWN), world.ledger.write() as tx:
            order(tx, task.id, actor="op")


def test_a_stopped_task_starts_again(world: World) -> None:
    task = world.task(world.project())
    with world.ledger.write() as tx:
        assert orders.stop(tx, task.id, actor="op").state is State.STOPPED
        assert orders.stop(tx, task.id, actor="op").state is State.STOPPED
        assert orders.start(tx, task.id, actor="op").stop_requested_at is None
    assert len(rows(world.ledger, "history", event="stop_requested")) == 1
    assert world.leased().task.id == task.id


def test_a_pull_request_belongs_to_one_task(world: World) -> None:
    project = world.project()
    first, second = world.approved(project), world.approved(project)
    review.record_pull_request(world.ledger, world.look_at(first.publication_id), 7, "http://127.0.0.1/7")
    look = world.look_at(second.publication_id)
    with refused(world.ledger, Refusal.FIELD_INVALID):
        review.record_pull_request(world.ledger, look, 7, "http://127.0.0.1/7")
    elsewhere = world.look_at(world.approved(world.project()).publication_id)
    review.record_pull_request(world.ledger, elsewhere, 7, "http://127.0.0.1/7")


@given(title=st.text(max_size=40), body=st.text(max_size=200))
def test_any_text_is_read_back_as_it_was_written(title: str, body: str) -> None:
    column = Document()
    written = column.process_bind_param({"title": title, "body": body}, DIALECT)
    assert column.process_result_value(written, DIALECT) == {"title": title, "body": body}


def test_a_report_task_and_a_code_task_keep_what_they_ask_for(world: World) -> None:
    task = world.task(world.project(), deliverable=Deliverable.REPORT)
    with world.ledger.read() as tx:
        assert tasks.get(tx, task.id).deliverable is Deliverable.REPORT
    with pytest.raises(Rejected), world.ledger.read() as tx:
        tasks.locked(tx, "task_none")


def test_a_task_that_was_stopped_in_its_last_attempt_has_one_more_when_it_is_started(world: World) -> None:
    task = world.task(world.project(), max_attempts=1)
    held = world.leased()
    with world.ledger.write() as tx:
        orders.stop(tx, task.id, actor="op")
    leases.release(world.ledger, held.lease_id, held.token, held.worker_id)
    with world.ledger.write() as tx:
        orders.start(tx, task.id, actor="op")
    assert world.attempts_left(task.id) == 1
    assert world.offered("worker-2") is not None
