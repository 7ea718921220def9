"""Pull requests: opening, following their branches, and being merged, with GitHub's refusals."""

from typing import Any

import pytest

from tests.sandbox.reply import Refused
from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from tests.sandbox.tests.client import ask

PULLS = "/repos/acme/hub/pulls"


@pytest.fixture
def repo(github: Sandbox) -> Repo:
    made = github.repository("acme/hub", files={"README.md": "hello\n"})
    made.commit(on="work", files={"a": "a\n"})
    return made


@pytest.fixture
def hub(github: Sandbox, repo: Repo) -> AppHandle:
    return github.app("mac-hub")


def opened(github: Sandbox, hub: AppHandle, **body: Any) -> Any:
    return ask(github, hub.token(), "POST", PULLS, {"head": "work", "base": "main", "title": "Work", **body})


def test_a_pull_request_opens_once(github: Sandbox, hub: AppHandle) -> None:
    assert opened(github, hub).status_code == 201
    again = opened(github, hub)
    assert again.status_code == 422
    assert again.json()["errors"][0]["message"] == "A pull request already exists for acme:work."
    assert len(ask(github, hub.token(), "GET", f"{PULLS}?head=acme:work").json()) == 1


@pytest.mark.parametrize(("body", "message"), [
    ({"head": "absent"}, None),
    ({"base": "absent"}, None),
    ({"head": "main"}, "No commits between main and main"),
])  # fmt: skip
def test_what_cannot_be_a_pull_request_is_refused(
    github: Sandbox, hub: AppHandle, repo: Repo, body: dict[str, str], message: str | None
) -> None:
    refused = opened(github, hub, **body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0].get("message") == message
    assert repo.pull_requests == {}
    assert repo.refs("refs/pull/") == {}


def test_the_head_follows_its_branch(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    opened(github, hub)
    head = repo.commit(on="work", files={"b": "b\n"})
    assert ask(github, hub.token(), "GET", f"{PULLS}/1").json()["head"]["sha"] == head
    assert repo.refs("refs/pull/")["refs/pull/1/head"] == head
    files = ask(github, hub.token(), "GET", f"{PULLS}/1/files").json()
    assert [(f["filename"], f["status"]) for f in files] == [("a", "added"), ("b", "added")]
    assert len(ask(github, hub.token(), "GET", f"{PULLS}/1/commits").json()) == 2


def test_mergeable_is_unknown_for_as_long_as_it_is_told(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.record.mergeable_after_reads = 2
    opened(github, hub)
    answers = [ask(github, hub.token(), "GET", f"{PULLS}/1").json()["mergeable"] for _ in range(3)]
    assert answers == [None, True, True]


def test_a_conflict_makes_it_dirty_and_unmergeable(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    opened(github, hub)
    repo.commit(files={"a": "other\n"})
    shown = ask(github, hub.token(), "GET", f"{PULLS}/1").json()
    assert (shown["mergeable"], shown["mergeable_state"]) == (False, "dirty")
    refused = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge", {})
    assert (refused.status_code, refused.json()["message"]) == (405, "Pull Request is not mergeable")


def test_closing_reopening_and_retargeting(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.commit(on="release", files={"r": "r\n"})
    opened(github, hub)
    assert ask(github, hub.token(), "PATCH", f"{PULLS}/1", {"state": "closed"}).json()["state"] == "closed"
    assert ask(github, hub.token(), "PATCH", f"{PULLS}/1", {"state": "open"}).json()["state"] == "open"
    assert ask(github, hub.token(), "PATCH", f"{PULLS}/1", {"base": "release"}).json()["base"]["ref"] == "release"
    repo.move("refs/heads/work", None)
    assert repo.pull_requests[1].state == "closed"
    assert ask(github, hub.token(), "PATCH", f"{PULLS}/1", {"state": "open"}).status_code == 422


@pytest.mark.parametrize(("method", "parents"), [("merge", 2), ("squash", 1), ("rebase", 1)])
def test_each_way_to_merge(github: Sandbox, hub: AppHandle, repo: Repo, method: str, parents: int) -> None:
    head = repo.commit(on="work", files={"b": "b\n"})
    opened(github, hub)
    repo.commit(files={"other": "other\n"})
    answer = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge", {"merge_method": method, "sha": head})
    assert answer.status_code == 200, answer.text
    assert answer.json()["sha"] == repo.tip()
    assert len(repo.git.commit(repo.tip()).parents) == parents
    assert repo.git.is_ancestor(head, repo.tip()) is (method == "merge")
    assert [repo.file(name) for name in ("a", "b", "other")] == ["a\n", "b\n", "other\n"]
    assert repo.pull_requests[1].merged
    assert ask(github, hub.token(), "GET", f"{PULLS}/1/merge").status_code == 204


def test_a_moved_head_is_409_and_a_merged_one_405(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    opened(github, hub)
    before = repo.tip()
    stale = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge", {"sha": before})
    assert (stale.status_code, repo.tip()) == (409, before)
    assert stale.json()["message"] == "Head branch was modified. Review and try the merge again."
    assert ask(github, hub.token(), "PUT", f"{PULLS}/1/merge").status_code == 200
    assert ask(github, hub.token(), "PUT", f"{PULLS}/1/merge").status_code == 405


def test_required_checks_and_strictness_bind_the_merge(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    ci = github.app("ci")
    repo.ruleset(required_checks=[("ci/test", ci)], strict=True)
    opened(github, hub)
    missing = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge")
    assert missing.status_code == 405
    assert 'Required status check "ci/test" is expected.' in missing.json()["message"]
    ci.reports(repo, repo.tip("work"), "ci/test", "success")
    repo.commit(files={"other": "other\n"})
    behind = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge")
    assert 'Required status check "ci/test" is expected.' in behind.json()["message"]
    assert ask(github, hub.token(), "GET", f"{PULLS}/1").json()["mergeable_state"] == "behind"
    updated = ask(github, hub.token(), "PUT", f"{PULLS}/1/update-branch", {"expected_head_sha": repo.tip("work")})
    assert updated.status_code == 202
    assert ask(github, hub.token(), "PUT", f"{PULLS}/1/merge").status_code == 405
    ci.reports(repo, repo.tip("work"), "ci/test", "success")
    assert ask(github, hub.token(), "PUT", f"{PULLS}/1/merge").status_code == 200


def test_approvals_bind_the_merge(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.protect(pull_request=True, approvals=1)
    opened(github, hub)
    refused = ask(github, hub.token(), "PUT", f"{PULLS}/1/merge")
    assert refused.json()["message"] == "At least 1 approving review is required by reviewers with write access."
    own = ask(github, hub.token(), "POST", f"{PULLS}/1/reviews", {"event": "APPROVE"})
    assert own.status_code == 422
    repo.review(1)
    assert len(ask(github, hub.token(), "GET", f"{PULLS}/1/reviews").json()) == 1
    assert ask(github, hub.token(), "PUT", f"{PULLS}/1/merge").status_code == 200


def test_a_person_merges_by_hand_under_the_same_rules(github: Sandbox, repo: Repo) -> None:
    repo.open_pull("work")
    repo.protect(required_checks=[("ci/test", None)])
    with pytest.raises(Refused, match="405"):
        repo.merge(1)
    repo.record.protections.clear()
    assert repo.merge(1, method="squash") == repo.tip()


def test_a_landing_by_push_merges_the_pull_request(github: Sandbox, repo: Repo) -> None:
    repo.open_pull("work")
    tree = repo.git.merge_tree(repo.tip(), repo.tip("work"))
    assert tree is not None
    who = repo.github.maker.signature("hub")
    landed = repo.git.commit_tree(tree, [repo.tip(), repo.tip("work")], "Land", who)
    repo.move("refs/heads/main", landed)
    assert (repo.pull_requests[1].merged, repo.pull_requests[1].merge_commit_sha) == (True, landed)


def test_a_pull_request_from_a_fork(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    fork = github.fork(repo, "alice")
    head = fork.commit(on="idea", files={"idea": "i\n"})
    made = opened(github, hub, head="alice:idea")
    assert made.status_code == 201, made.text
    assert (made.json()["head"]["repo"]["full_name"], made.json()["head"]["sha"]) == ("alice/hub", head)
    assert repo.refs("refs/pull/")["refs/pull/1/head"] == head
    newer = fork.commit(on="idea", files={"idea": "ii\n"})
    assert repo.pull_requests[1].head_sha == newer


def test_comments_are_written_and_edited(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    opened(github, hub)
    made = ask(github, hub.token(), "POST", "/repos/acme/hub/issues/1/comments", {"body": "one"})
    assert made.status_code == 201
    edited = ask(github, hub.token(), "PATCH", f"/repos/acme/hub/issues/comments/{made.json()['id']}", {"body": "two"})
    assert edited.json()["performed_via_github_app"]["slug"] == "mac-hub"
    assert [c["body"] for c in ask(github, hub.token(), "GET", "/repos/acme/hub/issues/1/comments").json()] == ["two"]
    assert ask(github, hub.token(), "GET", "/repos/acme/hub/issues/9/comments").status_code == 404
