"""The sandbox and its CI service as processes of their own, driven over HTTP only."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.sandbox.tests.client import Heard, receiver

ROOT = Path(__file__).resolve().parents[3]
CONTRACT = "schema: mac.repository_contract.v1\nproject: hub\ntest:\n  command: sh check.sh\n"


@contextmanager
def running(*argv: str) -> Iterator[dict[str, Any]]:
    """A module run as a program, until the end of the block; yields what it printed when it was ready."""
    command = [sys.executable, "-m", *argv]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            assert process.wait(20) == 0


class Driver:
    """The control surface, as the demo's driver uses it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, /, **body: Any) -> Any:
        answer = requests.post(f"{self.url}/_sandbox/{path}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        return requests.get(f"{self.url}/_sandbox/{path}", timeout=20).json()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with running("tests.sandbox", "--home", str(tmp_path / "github")) as ready:
        yield Driver(ready["url"])


@pytest.mark.fresh  # its process once did not end in time on a busy machine
@pytest.mark.long
def test_a_driver_makes_a_world_and_counts_its_calls(driver: Driver) -> None:
    made = driver.post("repositories", name="acme/hub", files={"a": "a\n"})
    app = driver.post("apps", slug="mac-hub")
    person = driver.post("people", login="alice")
    checks = [{"context": "ci/test", "app_id": app["id"]}]
    driver.post("repositories/acme/hub/rulesets", required_checks=checks, strict=True)
    rules = requests.get(
        f"{driver.url}/repos/acme/hub/rules/branches/main",
        headers={"Authorization": f"Bearer {person['token']}"},
        timeout=20,
    ).json()
    assert rules[0]["parameters"]["required_status_checks"] == [{"context": "ci/test", "integration_id": app["id"]}]
    assert driver.get("calls")["calls"] == {"GET /repos/{owner}/{repo}/rules/branches/{branch}": 1}
    assert driver.get("calls")["by_caller"].keys() == {"person:alice"}
    sha = driver.post("repositories/acme/hub/commits", on="work", files={"b": "b\n"})["sha"]
    assert driver.post("repositories/acme/hub/pulls", head="work", base="main", title="Work")["number"] == 1
    driver.post("repositories/acme/hub/refs", ref="refs/heads/main", sha=sha)
    assert driver.get("repositories/acme/hub/refs")["refs/heads/main"] == sha != made["refs"]["refs/heads/main"]
    assert requests.post(f"{driver.url}/_sandbox/repositories", json={}, timeout=20).status_code == 400


def test_a_driver_holds_an_answer_and_lets_it_go(driver: Driver) -> None:
    order = driver.post("orders", method="GET", path="/meta", hold="after")
    with subprocess.Popen(
        [sys.executable, "-c", f"import urllib.request as u; u.urlopen('{driver.url}/meta')"], cwd=ROOT
    ) as asking:
        assert driver.post(f"orders/{order['id']}/wait")["reached"] is True
        assert asking.poll() is None
        assert driver.post(f"orders/{order['id']}/release")["released"] is True
        assert asking.wait(20) == 0


def test_a_repository_comes_with_the_history_of_a_bundle(driver: Driver, tmp_path: Path) -> None:
    first = driver.post("repositories", name="acme/hub", files={"a": "a\n"})
    bundle = tmp_path / "history.bundle"
    subprocess.run(["git", "--git-dir", first["path"], "bundle", "create", "-q", str(bundle), "--all"], check=True)
    second = driver.post("repositories", name="acme/plain", source=str(bundle))
    assert second["refs"] == first["refs"]


def test_a_seed_makes_the_world_before_it_serves(tmp_path: Path) -> None:
    seed = tmp_path / "world.json"
    seed.write_text(json.dumps([{"path": "repositories", "body": {"name": "acme/hub", "files": {"a": "a\n"}}}]))
    with running("tests.sandbox", "--home", str(tmp_path / "github"), "--seed", str(seed)) as ready:
        assert ready["seed"][0]["name"] == "acme/hub"


@pytest.fixture
def ci(driver: Driver, tmp_path: Path) -> Iterator[str]:
    app = driver.post("apps", slug="ci", permissions={"checks": "write", "contents": "read"})
    (tmp_path / "key.pem").write_text(app["private_key"])
    (tmp_path / "secret").write_text("ci secret")
    arguments = ("--github", driver.url, "--app-id", str(app["id"]), "--key", str(tmp_path / "key.pem"))
    with running("tests.sandbox.ci", *arguments, "--secret-file", str(tmp_path / "secret")) as ready:
        driver.post(f"apps/{app['id']}/webhook", url=f"{ready['url']}/hook", secret="ci secret")
        yield str(ready["url"])


@pytest.fixture
def heard(driver: Driver) -> Iterator[Heard]:
    """Another App that hears of every check run."""
    with receiver() as made:
        driver.post("apps", slug="watcher", webhook_url=made.url, webhook_secret="w")
        yield made


def concluded(driver: Driver, heard: Heard, sha: str) -> list[str | None]:
    """The conclusions at a commit, once its check run has been announced as completed."""
    assert heard.wait_for("check_suite", f'"head_sha":"{sha}","status":"completed"'.encode())
    token = driver.post("people", login="alice")["token"]
    answer = requests.get(
        f"{driver.url}/repos/acme/hub/commits/{sha}/check-runs",
        headers={"Authorization": f"Bearer {token}"},
        timeout=20,
    ).json()
    return [run["conclusion"] for run in answer["check_runs"]]


def test_the_ci_service_runs_the_contracts_command(driver: Driver, heard: Heard, ci: str) -> None:
    files = {".mac/project.yaml": CONTRACT, "check.sh": "test -f good\n"}
    driver.post("repositories", name="acme/hub", files=files)
    bad = driver.post("repositories/acme/hub/commits", on="bad", files={"other": "x\n"})["sha"]
    assert concluded(driver, heard, bad) == ["failure"]
    good = driver.post("repositories/acme/hub/commits", on="good", files={"good": "x\n"})["sha"]
    assert concluded(driver, heard, good) == ["success"]
    assert driver.get("violations")["violations"] == []


def test_the_ci_service_says_what_its_script_says(driver: Driver, heard: Heard, ci: str) -> None:
    driver.post("repositories", name="acme/hub", files={"check.sh": "exit 0\n"})
    assert requests.post(f"{ci}/script", json={"conclusion": "neutral"}, timeout=20).status_code == 200
    sha = driver.post("repositories/acme/hub/commits", on="work", files={"a": "a\n"})["sha"]
    assert concluded(driver, heard, sha) == ["neutral"]


def test_the_ci_service_refuses_a_wrong_signature(ci: str) -> None:
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + "0" * 64}
    assert requests.post(f"{ci}/hook", data=b"{}", headers=headers, timeout=20).status_code == 401
    assert requests.post(f"{ci}/hook", data=b"{}", timeout=20).status_code == 401
