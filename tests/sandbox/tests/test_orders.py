"""Misbehaviour on order: each kind once, and the complaint about orders that nobody used."""

import threading
from pathlib import Path

import pytest
import requests

from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from tests.sandbox.tests.client import Clone, ask

REF = "/repos/acme/hub/git/ref/heads/main"


@pytest.fixture
def repo(github: Sandbox) -> Repo:
    return github.repository("acme/hub", files={"README.md": "hello\n"})


@pytest.fixture
def hub(github: Sandbox, repo: Repo) -> AppHandle:
    return github.app("mac-hub")


def test_an_answer_without_effect(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.commit(on="work", files={"a": "a\n"})
    repo.open_pull("work")
    before = repo.tip()
    message = {"message": "Base branch was modified. Review and try the merge again."}
    github.orders.answer("PUT", "/repos/*/pulls/1/merge", 405, message, times=2)
    path = "/repos/acme/hub/pulls/1/merge"
    assert [ask(github, hub.token(), "PUT", path).status_code for _ in range(2)] == [405, 405]
    assert repo.tip() == before
    assert ask(github, hub.token(), "PUT", path).status_code == 200
    assert repo.tip() != before


def test_an_effect_without_its_answer(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.commit(on="work", files={"a": "a\n"})
    repo.open_pull("work")
    github.orders.apply_then_answer("PUT", "/repos/*/merge", 502)
    assert ask(github, hub.token(), "PUT", "/repos/acme/hub/pulls/1/merge").status_code == 502
    assert repo.pull_requests[1].merged


def test_a_stale_read_repeats_the_last_answer(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    before = ask(github, hub.token(), "GET", REF).json()["object"]["sha"]
    after = repo.commit(files={"a": "a\n"})
    github.orders.stale("GET", REF, times=2)
    seen = [ask(github, hub.token(), "GET", REF).json()["object"]["sha"] for _ in range(3)]
    assert seen == [before, before, after]


def test_an_order_may_wait_for_its_turn(github: Sandbox, hub: AppHandle) -> None:
    github.orders.answer("GET", REF, 503, skip=1)
    assert [ask(github, hub.token(), "GET", REF).status_code for _ in range(3)] == [200, 503, 200]


def test_a_secondary_limit_with_its_header(github: Sandbox, hub: AppHandle) -> None:
    body = {"message": "You have exceeded a secondary rate limit."}
    github.orders.answer("GET", REF, 403, body, headers={"Retry-After": "60"})
    limited = ask(github, hub.token(), "GET", REF)
    assert (limited.status_code, limited.headers["Retry-After"]) == (403, "60")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_held_push_stands_still_until_it_is_released(
    github: Sandbox, hub: AppHandle, repo: Repo, tmp_path: Path, when: str
) -> None:
    clone = Clone.of(repo, hub, tmp_path / "clone")
    before, head = repo.tip(), clone.commit("main", a="a\n")
    order = github.orders.add("POST", "/acme/hub.git/git-receive-pack", hold=when)
    codes: list[int] = []
    pushing = threading.Thread(target=lambda: codes.append(clone.push("main").returncode))
    pushing.start()
    assert order.wait_reached(20)
    assert repo.tip() == (before if when == "before" else head)
    assert codes == []
    order.release()
    pushing.join(20)
    assert codes == [0]
    assert repo.tip() == head


def test_a_dropped_push_has_moved_the_branch(github: Sandbox, hub: AppHandle, repo: Repo, tmp_path: Path) -> None:
    clone = Clone.of(repo, hub, tmp_path / "clone")
    head = clone.commit("main", a="a\n")
    github.orders.dropped("POST", "/acme/hub.git/git-receive-pack")
    assert clone.push("main").returncode != 0
    assert repo.tip() == head


def test_a_dropped_call_without_effect(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    github.orders.dropped("POST", "/repos/*/git/refs", apply=False)
    with pytest.raises(requests.ConnectionError):
        ask(github, hub.token(), "POST", "/repos/acme/hub/git/refs", {"ref": "refs/heads/x", "sha": repo.tip()})
    assert "refs/heads/x" not in repo.refs()


def test_an_order_that_nobody_used_is_a_fault_of_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="GET /nowhere: 0 of 1"), Sandbox.start(tmp_path / "github") as github:
        github.orders.answer("GET", "/nowhere", 500)
