"""Claims at the doors: one attempt for one key, expired leases taken back by whoever asks, and why nobody takes a task."""

import threading

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from ledger import orders, projects
from ledger.access import Scope
from pipeline.states import State
from tests.webhook import serving
from tests.webhook.knocking import Knock, problem

EXPIRED_MS = 900_000 + 30_000


def _take(knock: Knock, key: str | None = None) -> TestResponse:
    headers = {} if key is None else {"Idempotency-Key": key}
    return knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR, headers=headers)


def test_a_lease_whose_answer_was_lost_is_given_again_and_costs_one_attempt(knock: Knock) -> None:
    project = knock.store.project()
    made = [knock.store.task(project) for _ in range(2)]
    first, again = _take(knock, "k-1"), _take(knock, "k-1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.get_json() == again.get_json()
    assert knock.store.counts()["leases"] == 1
    assert sorted(knock.store.task_now(task).attempts for task in made) == [0, 1]


def test_nothing_to_do_is_not_remembered_under_the_key(knock: Knock) -> None:
    assert _take(knock, "k-1").status_code == 204
    knock.store.task(knock.store.project())
    assert _take(knock, "k-1").status_code == 201


def test_requests_at_the_same_moment_under_one_key_get_one_lease(app: Flask, store: serving.Store) -> None:
    project = store.project()
    for _ in range(4):
        store.task(project)
    store.token(Scope.EXECUTOR)
    barrier, answers = threading.Barrier(4), []

    def ask() -> None:
        knock = Knock(app.test_client(), store)
        barrier.wait(30)
        answers.append(_take(knock, "k-1"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.get_data() for answer in answers}) == 1
    assert store.counts()["leases"] == 1


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/{task}", "/v1/tasks/{task}/why-unclaimed", "/v1/projects"])
def test_whoever_reads_takes_expired_leases_back(knock: Knock, clock: serving.Hands, path: str) -> None:
    task = knock.store.task(knock.store.project())
    _take(knock)
    clock.at += EXPIRED_MS
    answer = knock("GET", path.format(task=task.id), scope=Scope.READ)
    assert answer.status_code == 200
    assert knock.store.task_now(task).state is State.OPEN
    if path == "/v1/tasks/{task}":
        assert answer.get_json()["state"] == "open", "what is shown is what is so"


def test_who_is_not_let_in_takes_nothing_back(knock: Knock, clock: serving.Hands) -> None:
    task = knock.store.task(knock.store.project())
    _take(knock)
    clock.at += EXPIRED_MS
    assert problem(knock("GET", "/v1/tasks")) == (401, "token_missing")
    assert knock.store.task_now(task).state is State.CLAIMED


def test_a_reclaim_that_fails_does_not_fail_the_read(knock: Knock, clock: serving.Hands) -> None:
    task = knock.store.task(knock.store.project())
    _take(knock)
    clock.at += EXPIRED_MS
    with knock.store.ledger.write() as tx:
        tx.connection.exec_driver_sql("DELETE FROM ticks")  # what the reclaim reads first is gone
    assert knock("GET", "/v1/tasks", scope=Scope.READ).status_code == 200
    assert knock.store.task_now(task).state is State.CLAIMED


def test_an_admin_takes_expired_leases_back_at_once(knock: Knock, clock: serving.Hands) -> None:
    task = knock.store.task(knock.store.project())
    _take(knock)
    clock.at += EXPIRED_MS - 1
    assert knock("POST", "/v1/admin/reclaim", scope=Scope.ADMIN).get_json() == {"ended": 0}
    clock.at += 1
    assert knock("POST", "/v1/admin/reclaim", scope=Scope.ADMIN).get_json() == {"ended": 1}
    assert knock("POST", "/v1/admin/reclaim", scope=Scope.ADMIN).get_json() == {"ended": 0}
    assert knock.store.task_now(task).state is State.OPEN


def test_why_nobody_takes_a_task_is_told_whole(knock: Knock) -> None:
    project = knock.store.project()
    task = knock.store.task(project)
    path = f"/v1/tasks/{task.id}/why-unclaimed"
    assert knock("GET", path, scope=Scope.READ).get_json() == {
        "task": task.id,
        "state": "open",
        "claimable": True,
        "conditions": [],
    }
    with knock.store.ledger.write() as tx:
        orders.hold(tx, task.id, True, actor="op")
        projects.pause(tx, project.id, actor="op")
    told = knock("GET", path, scope=Scope.READ).get_json()
    assert told["claimable"] is False
    assert [condition["code"] for condition in told["conditions"]] == ["held", "project_paused"]
    assert all(condition["would_change"] for condition in told["conditions"])


def test_tokens_are_asked_for_shown_and_spent(knock: Knock) -> None:
    project = knock.store.project()
    wanted = {"project": project.name, "title": "Dear", "token_budget": 100}
    made = knock("POST", "/v1/tasks", wanted, scope=Scope.OPERATOR).get_json()
    assert (made["tokens"], made["token_budget"]) == (0, 100)
    said = _take(knock).get_json()
    given_back = {
        "class": "work",
        "code": "no_change",
        "sentence": "The command left no change.",
        "usage": {"input_tokens": 90, "output_tokens": 10},
    }
    headers = {"Mac-Lease-Token": str(said["lease"]["token"])}
    path = f"/v1/leases/{said['lease']['id']}/release"
    assert knock("POST", path, given_back, scope=Scope.EXECUTOR, headers=headers).status_code == 200
    why = knock("GET", f"/v1/tasks/{made['id']}/why-unclaimed", scope=Scope.READ).get_json()
    assert [condition["code"] for condition in why["conditions"]] == ["tokens_spent", "backing_off"]
    assert knock("GET", f"/v1/tasks/{made['id']}", scope=Scope.READ).get_json()["tokens"] == 100
