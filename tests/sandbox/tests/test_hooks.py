"""Webhooks: signed, in order, logged, redelivered; and lost, doubled or swapped on order."""

import hashlib
import hmac
import json
from collections.abc import Iterator

import pytest

from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from tests.sandbox.tests.client import Heard, ask, receiver

SECRET = "a secret with ü"


@pytest.fixture
def heard() -> Iterator[Heard]:
    with receiver() as made:
        yield made


@pytest.fixture
def repo(github: Sandbox) -> Repo:
    return github.repository("acme/hub", files={"README.md": "hello\n"})


@pytest.fixture
def hub(github: Sandbox, repo: Repo, heard: Heard) -> AppHandle:
    app = github.app("mac-hub")
    app.webhook(heard.url, SECRET)
    return app


def test_a_new_webhook_is_greeted(github: Sandbox, hub: AppHandle, heard: Heard) -> None:
    github.settle()
    assert heard.events() == ["ping", "installation"]


def test_every_delivery_is_signed_over_its_bytes(github: Sandbox, hub: AppHandle, repo: Repo, heard: Heard) -> None:
    repo.commit(on="work", files={"a": "a\n"}, message="Schöne Änderung 🎉")
    github.settle()
    for headers, raw in heard.deliveries:
        signature = "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
        assert headers["X-Hub-Signature-256"] == signature
        assert headers["User-Agent"].startswith("GitHub-Hookshot/")
        assert headers["X-GitHub-Hook-Installation-Target-ID"] == str(hub.id)
        assert len(headers["X-GitHub-Delivery"]) == 36
    pushed = next(raw for headers, raw in heard.deliveries if headers["X-GitHub-Event"] == "push")
    assert "Änderung 🎉".encode() in pushed


def test_the_road_of_a_change_is_announced_in_order(github: Sandbox, hub: AppHandle, repo: Repo, heard: Heard) -> None:
    ci = github.app("ci")
    repo.commit(on="work", files={"a": "a\n"})
    repo.open_pull("work")
    repo.commit(on="work", files={"b": "b\n"})
    ci.reports(repo, repo.tip("work"), "ci/test", "success")
    ci.sets_status(repo, repo.tip("work"), "old", "success")
    ask(github, hub.token(), "POST", "/repos/acme/hub/pulls/1/reviews", {"event": "COMMENT", "body": "fine"})
    repo.comment(1, "@mac status")
    repo.move("refs/heads/main", repo.tip("work"))
    github.settle()
    told = [(h["X-GitHub-Event"], json.loads(raw).get("action")) for h, raw in heard.deliveries[2:]]
    assert told == [
        ("push", None), ("check_suite", "requested"), ("pull_request", "opened"),
        ("push", None), ("check_suite", "requested"), ("pull_request", "synchronize"),
        ("check_run", "created"), ("check_run", "completed"), ("check_suite", "completed"), ("status", None),
        ("pull_request_review", "submitted"), ("issue_comment", "created"),
        ("push", None), ("pull_request", "closed"),
    ]  # fmt: skip
    assert json.loads(heard.deliveries[-1][1])["pull_request"]["merged"] is True


def test_an_app_hears_only_what_it_subscribed_to(github: Sandbox, repo: Repo, heard: Heard) -> None:
    github.app("quiet", events=["pull_request"]).webhook(heard.url, SECRET)
    repo.commit(on="work", files={"a": "a\n"})
    repo.open_pull("work")
    github.settle()
    assert heard.events() == ["ping", "installation", "pull_request"]


def test_the_log_tells_what_came_back_and_delivers_again(
    github: Sandbox, hub: AppHandle, repo: Repo, heard: Heard
) -> None:
    github.settle()
    heard.answers.append(500)
    repo.commit(on="work", files={"a": "a\n"})
    github.settle()
    log = ask(github, hub.jwt(), "GET", "/app/hook/deliveries").json()
    failed = next(entry for entry in log if entry["event"] == "push")
    assert (failed["status_code"], failed["redelivery"]) == (500, False)
    whole = ask(github, hub.jwt(), "GET", f"/app/hook/deliveries/{failed['id']}").json()
    assert whole["request"]["payload"]["ref"] == "refs/heads/work"
    assert ask(github, hub.jwt(), "POST", f"/app/hook/deliveries/{failed['id']}/attempts").status_code == 202
    github.settle()
    again = ask(github, hub.jwt(), "GET", "/app/hook/deliveries").json()[0]
    assert (again["guid"], again["redelivery"], again["status_code"]) == (failed["guid"], True, 202)
    assert again["id"] != failed["id"]
    pushes = [raw for headers, raw in heard.deliveries if headers["X-GitHub-Event"] == "push"]
    assert pushes[0] == pushes[1]


def test_an_app_points_its_webhook_elsewhere(github: Sandbox, hub: AppHandle, heard: Heard) -> None:
    github.settle()
    with receiver() as other:
        changed = ask(github, hub.jwt(), "PATCH", "/app/hook/config", {"url": other.url, "secret": "new"})
        assert changed.json() == ask(github, hub.jwt(), "GET", "/app/hook/config").json()
        before = len(heard.deliveries)
        github.repository("acme/more", files={"a": "a\n"}).commit(files={"b": "b\n"})
        github.settle()
        assert other.events() == ["push", "check_suite"]
        assert len(heard.deliveries) == before


def test_the_log_is_read_by_cursor(github: Sandbox, hub: AppHandle, repo: Repo) -> None:
    repo.commit(on="work", files={"a": "a\n"})
    github.settle()
    first = ask(github, hub.jwt(), "GET", "/app/hook/deliveries?per_page=3")
    rest = ask(github, hub.jwt(), "GET", first.links["next"]["url"])
    assert [entry["event"] for entry in first.json() + rest.json()] == ["check_suite", "push", "installation", "ping"]
    assert "next" not in rest.links


def test_deliveries_are_lost_doubled_and_swapped_on_order(
    github: Sandbox, hub: AppHandle, repo: Repo, heard: Heard
) -> None:
    github.settle()
    github.mishap("lose", "push")
    github.mishap("double", "check_suite")
    github.mishap("swap", "pull_request")
    repo.commit(on="work", files={"a": "a\n"})
    repo.open_pull("work")
    repo.comment(1, "hello")
    github.settle()
    assert heard.events()[2:] == ["check_suite", "check_suite", "issue_comment", "pull_request"]
    assert [d.status for d in github.deliveries("push")] == ["lost"]
    ids = [headers["X-GitHub-Delivery"] for headers, _ in heard.deliveries[2:4]]
    assert ids[0] == ids[1]


def test_a_receiver_that_is_gone_stands_in_the_log(github: Sandbox, repo: Repo) -> None:
    app = github.app("gone")
    app.webhook("http://127.0.0.1:9/hook", SECRET)
    github.settle()
    assert {(d.status_code, d.status) for d in github.deliveries()} == {(0, "failed to connect to host")}
