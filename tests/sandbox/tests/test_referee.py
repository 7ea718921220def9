"""The referee: it sees what it should, and says when it cannot see."""

from pathlib import Path

import pytest

from tests.sandbox.description import Description, load
from tests.sandbox.fetched import description_folder
from tests.sandbox.referee import Referee
from tests.sandbox.sandbox import Sandbox
from tests.sandbox.tests.client import ask


@pytest.fixture
def description() -> Description:
    folder = description_folder()
    if folder is None:
        pytest.skip("GitHub's description is not on this machine: set MAC_GITHUB_DESCRIPTION")
    return load(folder)


def test_a_member_that_github_would_ignore_is_seen(description: Description) -> None:
    route = "/repos/{owner}/{repo}/git/refs/{ref}"
    assert list(description.request_faults("PATCH", route, {"sha": "a", "force": True})) == []
    assert list(description.request_faults("PATCH", route, {"sha": "a", "forced": True})) == ["/forced: unknown member"]


def test_a_missing_member_and_a_wrong_type_are_seen(description: Description) -> None:
    route = "/repos/{owner}/{repo}/pulls/{pull_number}/merge"
    good = {"sha": "a", "merged": True, "message": "done"}
    assert list(description.answer_faults("PUT", route, 200, good)) == []
    assert list(description.answer_faults("PUT", route, 200, {**good, "merged": "yes"})) != []
    assert list(description.answer_faults("PUT", route, 200, {"sha": "a", "merged": True})) != []
    assert list(description.answer_faults("PUT", route, 299, good)) == ["the status is not described"]


def test_null_is_taken_only_where_the_description_has_it(description: Description) -> None:
    route = "/repos/{owner}/{repo}/statuses/{sha}"
    assert list(description.request_faults("POST", route, {"state": "success", "description": None})) == []
    assert list(description.request_faults("POST", route, {"state": None})) != []


def test_an_event_is_judged_by_name_and_action(description: Description) -> None:
    assert list(description.event_faults("ping", {"zen": "Approachable.", "hook_id": 1})) == []
    assert list(description.event_faults("ping", {"zen": 1})) != []
    assert list(description.event_faults("no_such_event", {})) == ["the event is not described"]


def test_a_breach_fails_the_sandbox_that_saw_it(description: Description, tmp_path: Path) -> None:
    github = Sandbox.start(tmp_path / "github")
    body = {"sha": github.repository("acme/hub", files={"a": "a\n"}).tip(), "forced": True}
    ask(github, github.app("mac-hub").token(), "PATCH", "/repos/acme/hub/git/refs/heads/main", body)
    with pytest.raises(AssertionError, match="forced: unknown member"):
        github.__exit__(None, None, None)


def test_without_the_description_it_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.sandbox.fetched.NAMED_FOLDER", str(tmp_path))
    referee = Referee()
    referee.judge_answer("GET", "/nowhere", 200, {})
    referee.assert_clean()
    assert referee.description is None
