"""What the doors read out of a delivery: where to look, and nothing else."""

from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from pipeline.errors import Rejected
from webhook import events

UNUSED = {"create", "delete", "merge_group", "workflow_run"}


def test_every_real_payload_is_read(real_payloads: dict[str, list[dict[str, Any]]]) -> None:
    read = [(name, events.parse(name, payload)) for name, listed in real_payloads.items() for payload in listed]
    assert len(read) == 119
    assert {name for name, event in read if isinstance(event, events.Ignored)} == UNUSED
    kinds = Counter(type(event).__name__ for _, event in read)
    assert kinds["PullRequestChanged"] == 33
    assert kinds["HeadChecked"] == 22
    assert kinds["Pushed"] == 7


def test_a_real_payload_gives_identities_of_its_own_repository(
    real_payloads: dict[str, list[dict[str, Any]]],
) -> None:
    for name, listed in real_payloads.items():
        for payload in listed:
            event = events.parse(name, payload)
            if hasattr(event, "repository_id"):
                assert event.repository_id == payload["repository"]["id"]


def push(**changes: object) -> dict[str, object]:
    return {"ref": "refs/heads/main", "after": "a" * 40, "repository": {"id": 7}} | changes


def test_a_push_names_branch_and_head() -> None:
    assert events.parse("push", push()) == events.Pushed(7, "main", "a" * 40)


def test_a_branch_with_slashes_keeps_them() -> None:
    assert events.parse("push", push(ref="refs/heads/mac/refs/heads/x")) == events.Pushed(
        7, "mac/refs/heads/x", "a" * 40
    )


def test_a_pushed_tag_names_no_branch() -> None:
    assert events.parse("push", push(ref="refs/tags/v1")) == events.Pushed(7, None, "a" * 40)


def test_a_deleted_branch_has_no_head() -> None:
    assert events.parse("push", push(after="0" * 40)) == events.Pushed(7, "main", None)


def test_a_review_points_to_its_pull_request() -> None:
    payload = {
        "action": "submitted",
        "review": {"state": "approved"},
        "pull_request": {"number": 4, "head": {"sha": "b" * 40}},
        "repository": {"id": 7},
    }
    event = events.parse("pull_request_review", payload)
    assert event == events.PullRequestChanged(7, 4, "b" * 40, "submitted")
    assert "approved" not in repr(event)


def test_a_status_points_to_its_commit() -> None:
    payload = {"state": "success", "sha": "c" * 40, "repository": {"id": 7}}
    assert events.parse("status", payload) == events.HeadChecked(7, "c" * 40, "success")


@pytest.mark.parametrize(
    ("event", "body", "running"),
    [
        ("check_run", {"check_run": {"head_sha": "c" * 40, "status": "in_progress"}, "action": "created"}, True),
        ("check_run", {"check_run": {"head_sha": "c" * 40, "status": "completed"}, "action": "created"}, False),
        ("check_run", {"check_run": {"head_sha": "c" * 40, "status": "a new word"}, "action": "created"}, False),
        ("check_suite", {"check_suite": {"head_sha": "c" * 40, "status": None}, "action": "completed"}, False),
        ("status", {"sha": "c" * 40, "state": "pending"}, True),
    ],
)
def test_only_what_says_that_it_has_not_ended_is_running(event: str, body: dict[str, object], running: bool) -> None:
    parsed = events.parse(event, {**body, "repository": {"id": 7}})
    assert isinstance(parsed, events.HeadChecked)
    assert parsed.running is running


def test_an_installation_lists_its_repositories() -> None:
    payload = {"action": "created", "installation": {"id": 3}, "repositories": [{"id": 7}, {"id": 8}]}
    assert events.parse("installation", payload) == events.InstallationChanged(3, (7, 8), "created")


def test_an_installation_without_a_list_means_all_of_it() -> None:
    payload = {"action": "suspend", "installation": {"id": 3}}
    assert events.parse("installation", payload) == events.InstallationChanged(3, (), "suspend")


def test_added_and_removed_repositories_are_both_looked_at() -> None:
    payload = {
        "action": "added",
        "installation": {"id": 3},
        "repositories_added": [{"id": 7}],
        "repositories_removed": [{"id": 8}],
    }
    event = events.parse("installation_repositories", payload)
    assert event == events.InstallationChanged(3, (7, 8), "added")


def test_a_comment_carries_no_text() -> None:
    payload = {
        "action": "created",
        "comment": {"body": "@mac land this"},
        "issue": {"number": 9, "pull_request": {}},
        "repository": {"id": 7},
    }
    assert events.parse("issue_comment", payload) == events.Commented(7, 9, on_pull_request=True, action="created")


def test_an_unknown_event_is_ignored_whatever_it_holds() -> None:
    assert events.parse("sponsorship", {"anything": []}) == events.Ignored("sponsorship")


@pytest.mark.parametrize(
    ("name", "payload", "field"),
    [
        ("push", push(repository=None), "repository.id"),
        ("push", push(repository={"id": "7"}), "repository.id"),
        ("push", push(repository={"id": True}), "repository.id"),
        ("push", push(ref=None), "ref"),
        ("pull_request", {"repository": {"id": 7}}, "pull_request.number"),
        ("check_run", {"repository": {"id": 7}, "check_run": []}, "check_run.head_sha"),
        (
            "installation",
            {"installation": {"id": 1}, "repositories": {}, "action": "created"},
            "repositories",
        ),
        ("installation", {"installation": {"id": 1}, "repositories": [7], "action": "created"}, "id"),
    ],
)
def test_an_event_without_its_identity_is_refused_by_field(name: str, payload: dict[str, object], field: str) -> None:
    with pytest.raises(Rejected) as refused:
        events.parse(name, payload)
    assert refused.value.code == "field_invalid"
    assert refused.value.facts["field"] == field


def test_no_event_has_room_for_more_than_identities() -> None:
    allowed = {
        "repository_id", "installation_id", "repository_ids", "branch", "head", "number", "action", "name",
        "on_pull_request", "running",
    }  # fmt: skip
    kinds = (
        events.Pushed, events.PullRequestChanged, events.HeadChecked, events.RepositoryChanged,
        events.InstallationChanged, events.Commented, events.Pinged, events.Ignored,
    )  # fmt: skip
    assert {field.name for kind in kinds for field in fields(kind)} == allowed
