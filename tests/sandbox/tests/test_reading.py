"""Reads: refs, commits, checks, statuses and rules, page by page, and unchanged ones as 304."""

from typing import Any

import pytest
import requests

from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from tests.sandbox.tests.client import ask

R = "/repos/acme/hub"


@pytest.fixture
def repo(github: Sandbox) -> Repo:
    return github.repository("acme/hub", files={"README.md": "hello\n"})


@pytest.fixture
def hub(github: Sandbox) -> AppHandle:
    return github.app("mac-hub", permissions={"checks": "write", "contents": "write", "statuses": "write",
                                              "pull_requests": "write", "administration": "write"})  # fmt: skip


def get(github: Sandbox, hub: AppHandle, path: str) -> Any:
    answer = ask(github, hub.token(), "GET", f"{R}{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_refs_are_made_moved_and_removed(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    first, token = repo.tip(), hub.token()
    made = ask(github, token, "POST", f"{R}/git/refs", {"ref": "refs/heads/mac/x", "sha": first})
    assert (made.status_code, made.headers["Location"]) == (201, made.json()["url"])
    twice = ask(github, token, "POST", f"{R}/git/refs", {"ref": "refs/heads/mac/x", "sha": first})
    assert twice.json()["message"] == "Reference already exists"
    second = repo.commit(files={"a": "a\n"})
    assert ask(github, token, "PATCH", f"{R}/git/refs/heads/mac/x", {"sha": second}).json()["object"]["sha"] == second
    back = ask(github, token, "PATCH", f"{R}/git/refs/heads/mac/x", {"sha": first})
    assert (back.status_code, back.json()["message"]) == (422, "Update is not a fast forward")
    assert ask(github, token, "PATCH", f"{R}/git/refs/heads/mac/x", {"sha": first, "force": True}).status_code == 200
    assert [r["ref"] for r in get(github, hub, "/git/matching-refs/heads/mac")] == ["refs/heads/mac/x"]
    assert ask(github, token, "DELETE", f"{R}/git/refs/heads/mac/x").status_code == 204
    assert ask(github, token, "GET", f"{R}/git/ref/heads/mac/x").status_code == 404


def test_the_refs_api_obeys_the_rules_of_a_branch(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.protect(required_checks=[("ci/test", None)])
    before, newer = repo.tip(), repo.commit(on="work", files={"a": "a\n"})
    refused = ask(github, hub.token(), "PATCH", f"{R}/git/refs/heads/main", {"sha": newer})
    assert refused.status_code == 422
    assert refused.json()["message"] == 'Required status check "ci/test" is expected.'
    assert repo.tip() == before


def test_commits_and_trees_are_built(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    token, base = hub.token(), repo.git.commit(repo.tip())
    entry = {"path": "dir/new", "mode": "100644", "type": "blob", "content": "new\n"}
    tree = ask(github, token, "POST", f"{R}/git/trees", {"base_tree": base.tree, "tree": [entry]})
    assert tree.status_code == 201, tree.text
    body = {"message": "Build", "tree": tree.json()["sha"], "parents": [base.sha]}
    made = ask(github, token, "POST", f"{R}/git/commits", body).json()
    assert get(github, hub, f"/git/commits/{made['sha']}")["message"] == "Build"
    assert [f["filename"] for f in get(github, hub, f"/commits/{made['sha']}")["files"]] == ["dir/new"]


def test_files_come_with_their_kind_of_change_and_patch(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    repo.commit(files={"moved": text, "gone": "g\n", "binary": b"\0\1", "Grüße": "x\n"})
    sha = repo.commit(files={"moved": None, "new place": text, "gone": None, "binary": b"\0\2", "Grüße": "y\n"})
    files = {f["filename"]: f for f in get(github, hub, f"/commits/{sha}")["files"]}
    assert {name: f["status"] for name, f in files.items()} == {
        "new place": "renamed", "gone": "removed", "binary": "modified", "Grüße": "modified",
    }  # fmt: skip
    assert files["new place"]["previous_filename"] == "moved"
    assert files["Grüße"]["patch"] == "@@ -1 +1 @@\n-x\n+y"
    assert "patch" not in files["binary"]


def test_a_comparison_tells_ahead_from_behind(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.commit(on="work", files={"a": "a\n"})
    assert get(github, hub, "/compare/main...work")["status"] == "ahead"
    repo.commit(files={"b": "b\n"})
    shown = get(github, hub, "/compare/main...work")
    assert (shown["status"], shown["ahead_by"], shown["behind_by"]) == ("diverged", 1, 1)
    assert ask(github, hub.token(), "GET", f"{R}/compare/main...absent").status_code == 404


def test_check_runs_come_in_pages_by_numeric_links(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    for number in range(5):
        hub.reports(repo, repo.tip(), f"check-{number}", "success")
    url: str | None = f"{R}/commits/main/check-runs?per_page=2"
    names: list[str] = []
    while url:
        answer = ask(github, hub.token(), "GET", url)
        names += [run["name"] for run in answer.json()["check_runs"]]
        url = answer.links.get("next", {}).get("url")
        assert url is None or f"/repositories/{repo.id}/commits/main/check-runs?" in url
        assert answer.json()["total_count"] == 5
    assert sorted(names) == [f"check-{number}" for number in range(5)]


def test_the_latest_run_of_a_name_hides_earlier_ones_unless_all_are_asked_for(
    github: Sandbox, hub: AppHandle, repo: Repo
) -> None:
    for conclusion in ("success", "failure"):
        hub.reports(repo, repo.tip(), "build", conclusion)
    latest = get(github, hub, "/commits/main/check-runs?check_name=build")["check_runs"]
    assert [run["conclusion"] for run in latest] == ["failure"]
    every = get(github, hub, f"/commits/main/check-runs?filter=all&app_id={hub.id}")["check_runs"]
    assert [run["conclusion"] for run in every] == ["failure", "success"]


def test_statuses_combine_by_newest_context(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    assert get(github, hub, "/commits/main/status")["state"] == "pending"
    for state in ("pending", "success"):
        body = {"state": state, "context": "ci/old"}
        assert ask(github, hub.token(), "POST", f"{R}/statuses/{repo.tip()}", body).status_code == 201
    combined = get(github, hub, "/commits/main/status")
    assert (combined["state"], combined["total_count"]) == ("success", 1)
    assert len(get(github, hub, "/commits/main/statuses")) == 2


def test_a_run_belongs_to_the_app_that_made_it(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    run = hub.reports(repo, repo.tip(), "build", None)
    other = github.app("other")
    assert ask(github, other.token(), "PATCH", f"{R}/check-runs/{run}", {"conclusion": "success"}).status_code == 403
    incomplete = ask(github, hub.token(), "PATCH", f"{R}/check-runs/{run}", {"status": "completed"})
    assert incomplete.status_code == 422
    github.referee.expect_breach("PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}: request")
    assert repo.check_runs(repo.tip()) == [("build", "in_progress", None)]
    suites = get(github, hub, "/commits/main/check-suites")["check_suites"]
    assert [suite["status"] for suite in suites] == ["in_progress"]


def test_the_two_layers_of_rules_are_read_apart(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    token = hub.token()
    assert ask(github, token, "GET", f"{R}/branches/main/protection").json()["message"] == "Branch not protected"
    assert get(github, hub, "/rules/branches/main") == []
    repo.ruleset(required_checks=[("ci/test", hub)], strict=True, pull_request=True)
    kinds = [rule["type"] for rule in get(github, hub, "/rules/branches/main")]
    assert kinds == ["required_status_checks", "pull_request"]
    assert get(github, hub, "/rules/branches/other") == []
    assert len(get(github, hub, "/rulesets")) == 1
    assert ask(github, token, "GET", f"{R}/branches/main/protection").status_code == 404
    repo.protect(linear_history=True)
    assert get(github, hub, "/branches/main/protection")["required_linear_history"] == {"enabled": True}
    checks = ask(github, token, "GET", f"{R}/branches/main/protection/required_status_checks")
    assert checks.json()["message"] == "Required status checks not enabled"
    repo.protect(required_checks=[("ci/old", None)], strict=True)
    shown = get(github, hub, "/branches/main/protection/required_status_checks")
    assert shown["checks"] == [{"context": "ci/old", "app_id": None}]
    assert get(github, hub, "/branches/main")["protected"] is True


def test_an_unchanged_answer_is_304(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    token = hub.token()
    first = ask(github, token, "GET", f"{R}/git/ref/heads/main")
    same = ask(github, token, "GET", f"{R}/git/ref/heads/main", If_None_Match=first.headers["ETag"])
    assert (same.status_code, same.content) == (304, b"")
    repo.commit(files={"a": "a\n"})
    changed = ask(github, token, "GET", f"{R}/git/ref/heads/main", If_None_Match=first.headers["ETag"])
    assert changed.status_code == 200
    assert changed.headers["X-RateLimit-Resource"] == "core"
    assert changed.headers["X-GitHub-Request-Id"]


def test_a_renamed_repository_and_branch_answer_301(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    github.maker.rename(repo.record, "hub2")
    github.maker.rename_branch(repo.record, "main", "trunk")
    moved = ask(github, hub.token(), "GET", R)
    assert (moved.status_code, moved.headers["Location"]) == (301, f"{github.url}/repositories/{repo.id}")
    followed = ask(github, hub.token(), "GET", moved.headers["Location"]).json()
    assert (followed["full_name"], followed["default_branch"]) == ("acme/hub2", "trunk")
    assert ask(github, hub.token(), "GET", "/repos/acme/hub2/branches/main").status_code == 301


def test_what_a_person_may_do_is_told(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.role("mallory", "read")
    github.person("alice")
    assert get(github, hub, "/collaborators/mallory/permission")["permission"] == "read"
    assert get(github, hub, "/collaborators/alice/permission")["permission"] == "write"
    assert ask(github, hub.token(), "GET", f"{R}/collaborators/unheard-of/permission").status_code == 404


def test_anybody_reads_what_is_public_and_nothing_else(github: Sandbox, repo: Repo) -> None:
    public = github.repository("acme/open", files={"a": "a\n"}, private=False)
    url = f"{github.url}/repos/acme/open/git/ref/heads/main"
    assert requests.get(url, timeout=20).json()["object"]["sha"] == public.tip()
    assert requests.get(f"{github.url}{R}", timeout=20).status_code == 404
    wanted = {"ref": "refs/heads/x", "sha": public.tip()}
    made = requests.post(f"{github.url}/repos/acme/open/git/refs", json=wanted, timeout=20)
    assert made.status_code == 401


def test_an_empty_repository_is_409(github: Sandbox, hub: AppHandle) -> None:
    github.repository("acme/empty")
    assert ask(github, hub.token(), "GET", "/repos/acme/empty/git/ref/heads/main").status_code == 409
