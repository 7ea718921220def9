"""`/v1` over a real ledger: what is granted, what is refused by name, and that a refusal changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.access import Scope
from pipeline.facts import Deliverable
from pipeline.refusals import Refusal
from pipeline.states import State
from tests.webhook.knocking import Knock, problem
from webhook.problems import STATUS

NEW_PROJECT = {"name": "widgets", "owner": "acme", "repository": "widgets"}


def new_task(**changes: Any) -> dict[str, Any]:
    return {"project": "widgets", "title": "Do it", **changes}


def test_every_refusal_has_a_status_of_its_own_class() -> None:
    assert set(STATUS) == set(Refusal)
    assert all(400 <= status < 500 for status in STATUS.values())


# --- projects


def test_a_project_is_registered_and_then_read_by_a_worker(knock: Knock) -> None:
    answer = knock("POST", "/v1/projects", NEW_PROJECT, scope=Scope.ADMIN)
    assert answer.status_code == 201
    made = answer.get_json()
    assert (made["state"], made["canonical_branch"]) == ("registering", "main")
    assert made["method"] is None
    assert made["markers_admitted"] is None
    assert made["created_at"] == "2030-03-17T17:46:40.000Z"
    for name in ("widgets", made["id"]):
        assert knock("GET", f"/v1/projects/{name}", scope=Scope.READ).get_json() == made


def test_a_project_is_registered_once(knock: Knock) -> None:
    knock("POST", "/v1/projects", NEW_PROJECT, scope=Scope.ADMIN)
    before = knock.store.counts()
    assert problem(knock("POST", "/v1/projects", NEW_PROJECT, scope=Scope.ADMIN)) == (409, "project_exists")
    assert knock.store.counts() == before


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Widgets"}, "name"),
        ({"name": "../etc"}, "name"),
        ({"owner": "-x"}, "owner"),
        ({"repository": "a/b"}, "repository"),
        ({"canonical_branch": "--upload-pack=x"}, "canonical_branch"),
        ({"canonical_branch": "a..b"}, "the document"),
        ({"canonical_branch": "x.lock"}, "the document"),
        ({"canonical_branch": "main\n"}, "canonical_branch"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_project_with_a_hostile_name_is_refused_by_field(knock: Knock, changes: dict[str, Any], field: str) -> None:
    knock.store.token(Scope.ADMIN)
    before = knock.store.counts()
    answer = knock("POST", "/v1/projects", NEW_PROJECT | changes, scope=Scope.ADMIN)
    assert problem(answer) == (400, "field_invalid")
    assert answer.get_json(force=True)["facts"]["field"] == field
    assert knock.store.counts() == before


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"name": '])
def test_a_body_that_is_no_json_is_refused(knock: Knock, body: bytes) -> None:
    answer = knock("POST", "/v1/projects", data=body, scope=Scope.ADMIN)
    assert problem(answer) == (400, "body_not_json")


# --- tasks


def test_a_task_needs_a_project_that_is_ready(knock: Knock) -> None:
    assert problem(knock("POST", "/v1/tasks", new_task(), scope=Scope.OPERATOR)) == (404, "project_unknown")
    knock("POST", "/v1/projects", NEW_PROJECT, scope=Scope.ADMIN)
    assert problem(knock("POST", "/v1/tasks", new_task(), scope=Scope.OPERATOR)) == (409, "project_not_ready")


def test_a_task_is_open_and_found_by_a_prefix_of_its_id(knock: Knock) -> None:
    knock.store.project()
    made = knock("POST", "/v1/tasks", new_task(priority=5), scope=Scope.OPERATOR).get_json()
    assert (made["state"], made["deliverable"], made["attempts_left"]) == ("open", "code", 3)
    assert made["branch"] == f"mac/{made['id'].removeprefix('task_')}"
    found = knock("GET", f"/v1/tasks/{made['id'][:12]}", scope=Scope.READ)
    assert found.get_json() == made


def test_a_prefix_of_two_ids_is_refused(knock: Knock) -> None:
    project = knock.store.project()
    knock.store.task(project)
    knock.store.task(project)
    assert problem(knock("GET", "/v1/tasks/task_", scope=Scope.READ))[1] in {"id_ambiguous", "task_unknown"}
    assert problem(knock("GET", "/v1/tasks/task_zzzz", scope=Scope.READ)) == (404, "task_unknown")


@pytest.mark.parametrize(
    "changes",
    [
        {"title": ""},
        {"title": "two\nlines"},
        {"title": 7},
        {"deliverable": "prose"},
        {"priority": 1.5},
        {"priority": "1"},
        {"max_attempts": 0},
        {"body": "x" * 65_537},
    ],
)
def test_a_task_that_is_malformed_is_refused_and_not_made(knock: Knock, changes: dict[str, Any]) -> None:
    knock.store.project()
    knock.store.token(Scope.OPERATOR)
    before = knock.store.counts()
    assert problem(knock("POST", "/v1/tasks", new_task(**changes), scope=Scope.OPERATOR)) == (400, "field_invalid")
    assert knock.store.counts() == before


def test_a_list_is_paged_and_no_page_is_larger_than_the_bound(knock: Knock) -> None:
    project = knock.store.project()
    made = [knock.store.task(project).id for _ in range(5)]
    first = knock("GET", "/v1/tasks?limit=2", scope=Scope.READ).get_json()
    assert len(first["rows"]) == 2
    seen, cursor = [row["id"] for row in first["rows"]], first["next_cursor"]
    while cursor is not None:
        page = knock("GET", f"/v1/tasks?limit=2&cursor={cursor}", scope=Scope.READ).get_json()
        seen += [row["id"] for row in page["rows"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted(made)
    whole = knock("GET", "/v1/tasks?limit=100000", scope=Scope.READ)
    assert whole.status_code == 200


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=x", "cursor=x", "state=nearly"])
def test_a_page_that_cannot_be_is_refused(knock: Knock, query: str) -> None:
    assert problem(knock("GET", f"/v1/tasks?{query}", scope=Scope.READ)) == (400, "field_invalid")


def test_tasks_are_narrowed_by_state_and_project(knock: Knock) -> None:
    task = knock.store.task(knock.store.project())
    assert knock("GET", "/v1/tasks?state=landing", scope=Scope.READ).get_json()["rows"] == []
    (row,) = knock("GET", "/v1/tasks?state=open&project=widgets", scope=Scope.READ).get_json()["rows"]
    assert row["id"] == task.id


@pytest.mark.parametrize("deliverable", list(Deliverable))
def test_nobody_completes_a_task_by_force(knock: Knock, deliverable: Deliverable) -> None:
    task = knock.store.task(knock.store.project(), deliverable)
    knock.store.token(Scope.ADMIN)
    before = knock.store.counts()
    answer = knock("POST", f"/v1/tasks/{task.id}/force-complete", {"reason": "now"}, scope=Scope.ADMIN)
    assert problem(answer) == (409, "force_complete_refused")
    assert knock.store.task_now(task).state is State.OPEN
    assert knock.store.counts() == before


def test_what_is_not_known_is_null_and_never_false(knock: Knock) -> None:
    task = knock.store.task(knock.store.project())
    outcome = knock("GET", f"/v1/tasks/{task.id}/outcome", scope=Scope.READ).get_json()
    facts = ("evidence", "review", "publication", "acceptance", "deployment")
    assert {name: outcome[name] for name in facts} == dict.fromkeys(facts)
    why = knock("GET", f"/v1/tasks/{task.id}/why", scope=Scope.READ).get_json()
    assert (why["decision"], why["since"], why["would_change"]) == (None, None, [])


def test_the_timeline_begins_with_the_creation(knock: Knock) -> None:
    task = knock.store.task(knock.store.project())
    said = knock("GET", f"/v1/tasks/{task.id}/timeline", scope=Scope.READ).get_json()
    assert (said["rows"][0]["event"], said["rows"][0]["at"]) == ("created", "2030-03-17T17:46:40.000Z")
    assert said["next_cursor"] is None


@pytest.mark.parametrize("path", ["/v1/tasks/{task}/proof", "/v1/proofs/{task}"])
def test_a_task_that_has_not_landed_has_no_proof(knock: Knock, path: str) -> None:
    task = knock.store.task(knock.store.project())
    assert problem(knock("GET", path.format(task=task.id), scope=Scope.READ)) == (404, "proof_unknown")


# --- the same request again


CREATIONS: list[tuple[str, Scope, Callable[[], dict[str, Any]]]] = [
    ("/v1/projects", Scope.ADMIN, lambda: NEW_PROJECT | {"name": "another", "repository": "another"}),
    ("/v1/tasks", Scope.OPERATOR, new_task),
    ("/v1/leases", Scope.EXECUTOR, lambda: {"projects": ["widgets"]}),
    ("/v1/tokens", Scope.ADMIN, lambda: {"scope": "read", "label": "for a page"}),
]


@pytest.mark.parametrize(("path", "scope", "document"), CREATIONS)
def test_a_request_under_its_key_is_done_once(
    knock: Knock, path: str, scope: Scope, document: Callable[[], dict[str, Any]]
) -> None:
    knock.store.task(knock.store.project())
    key = {"Idempotency-Key": "k-1"}
    first = knock("POST", path, document(), scope=scope, headers=key)
    assert first.status_code == 201
    before = knock.store.counts()
    again = knock("POST", path, document(), scope=scope, headers=key)
    assert again.status_code == 201
    assert again.get_json() | {"token": None} == first.get_json() | {"token": None}
    assert knock.store.counts() == before


@pytest.mark.parametrize(("path", "scope", "document"), CREATIONS)
def test_a_key_that_was_used_for_another_request_is_refused(
    knock: Knock, path: str, scope: Scope, document: Callable[[], dict[str, Any]]
) -> None:
    knock.store.task(knock.store.project())
    key = {"Idempotency-Key": "k-1"}
    assert knock("POST", path, document(), scope=scope, headers=key).status_code == 201
    before = knock.store.counts()
    other = document() | {"surprise": None} if path == "/v1/leases" else document() | {"label": "x", "title": "y"}
    answer = knock("POST", path, other, scope=scope, headers=key)
    # a document that is malformed is refused for that first: it could never have been granted under any key
    assert problem(answer)[1] in {"idempotency_key_reused", "field_invalid"}
    assert knock.store.counts() == before


def test_a_key_belongs_to_its_request_and_to_its_caller(knock: Knock) -> None:
    knock.store.project()
    key = {"Idempotency-Key": "k-1"}
    first = knock("POST", "/v1/tasks", new_task(), scope=Scope.OPERATOR, headers=key).get_json()
    other = knock("POST", "/v1/tasks", new_task(title="Else"), scope=Scope.OPERATOR, headers=key)
    assert problem(other) == (422, "idempotency_key_reused")
    by_another = knock("POST", "/v1/tasks", new_task(), scope=Scope.ADMIN, headers=key).get_json()
    assert by_another["id"] != first["id"]


def test_a_key_that_is_too_long_is_refused(knock: Knock) -> None:
    knock.store.project()
    answer = knock("POST", "/v1/tasks", new_task(), scope=Scope.OPERATOR, headers={"Idempotency-Key": "k" * 129})
    assert problem(answer) == (400, "field_invalid")


# --- tokens and keys


def test_a_token_is_shown_once_and_opens_its_own_doors(knock: Knock) -> None:
    wanted = {"scope": "executor", "label": "the big machine", "worker": "big-1"}
    key = {"Idempotency-Key": "k-1"}
    made = knock("POST", "/v1/tokens", wanted, scope=Scope.ADMIN, headers=key).get_json()
    bearer = {"Authorization": f"Bearer {made['token']}"}
    assert knock("POST", "/v1/leases", {}, headers=bearer).status_code == 204
    again = knock("POST", "/v1/tokens", wanted, scope=Scope.ADMIN, headers=key).get_json()
    assert again == made | {"token": None}
    with knock.store.ledger.read() as tx:
        from sqlalchemy import text

        stored = " ".join(str(row) for row in tx.connection.execute(text("SELECT * FROM idempotency, tokens")))
    assert made["token"] not in stored


@pytest.mark.parametrize(
    "wanted",
    [
        {"scope": "executor", "label": "x"},
        {"scope": "batch", "label": "x"},
        {"scope": "read", "label": "x", "worker": "w-2"},
        {"scope": "root", "label": "x"},
    ],
)
def test_a_token_without_or_with_the_wrong_worker_is_refused(knock: Knock, wanted: dict[str, str]) -> None:
    knock.store.token(Scope.ADMIN)
    before = knock.store.counts()
    assert problem(knock("POST", "/v1/tokens", wanted, scope=Scope.ADMIN)) == (400, "field_invalid")
    assert knock.store.counts() == before
