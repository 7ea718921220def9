"""The demo's world: a sandbox GitHub, a CI service, a hub, each a process of its own, and the clients that talk to them."""

import base64
import json
import os
import secrets
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from tests.demo.programs import HERE, Programs, http, until
from tests.demo.source import Source

HUB_PERMISSIONS = {
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
CI_PERMISSIONS = {"checks": "write", "contents": "read", "metadata": "read", "pull_requests": "read"}


@dataclass
class World:
    """Where everything is. `key` is the hub's public proof key, noted before anything landed."""

    programs: Programs
    github: str
    hub: str
    home: Path
    environment: dict[str, str]
    admin: str
    executor: str
    person: str
    key: str
    ci: dict[str, Any]

    def mac(self, *argv: str, token: str | None = None) -> Any:
        """Run `mac … --json` as an operator would, and read what it says."""
        given = {"MAC_HUB_URL": self.hub, "MAC_TOKEN": token or self.admin}
        return json.loads(self.programs.run("mac", [str(HERE / "mac"), *argv, "--json"], given))

    def refused(self, *argv: str) -> str:
        """Run `mac …`, which is expected to be refused; the stable code that it names."""
        given = {"MAC_HUB_URL": self.hub, "MAC_TOKEN": self.admin}
        return self.programs.refused([str(HERE / "mac"), *argv], given).partition(":")[0]

    def script_ci(self, conclusion: str, times: int = 1) -> None:
        """Decide what the next runs of the CI service come to."""
        http("POST", f"http://127.0.0.1:{self.ci['port']}/script", {"conclusion": conclusion, "times": times})

    def ci_reports(self, repository: str, head: str, conclusion: str) -> None:
        """The CI App reports its check by itself, as after a re-run."""
        now_s = int(time.time())
        claims = {"iat": now_s - 30, "exp": now_s + 300, "iss": str(self.ci["id"])}
        signed = jwt.encode(claims, self.ci["private_key"], algorithm="RS256")
        path = f"/app/installations/{self.ci['installation_id']}/access_tokens"
        token = http("POST", self.github + path, {}, signed)["token"]
        body = {"name": "ci/test", "head_sha": head, "status": "completed", "conclusion": conclusion}
        http("POST", f"{self.github}/repos/{repository}/check-runs", body, token)

    def tip(self, repository: str, branch: str = "main") -> str:
        """Where a branch stands at GitHub."""
        return str(self.control("GET", f"repositories/{repository}/refs")[f"refs/heads/{branch}"])

    def control(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the sandbox's control surface."""
        return http(method, f"{self.github}/_sandbox/{path}", body)


def build(programs: Programs, source: Source) -> World:
    """Start everything and register nothing yet."""
    folder = programs.folder
    log = programs.start("github", [sys.executable, "-m", "tests.sandbox", "--home", str(folder / "github")])
    github = programs.ready_line(log)["url"]
    made = _apps(github, folder, source)
    _start_ci(programs, github, made["ci"], folder)
    environment = hub_settings(github, made["hub"], folder)
    hub = start_hub(programs, environment)
    admin = first_token(programs, environment)
    key = http("GET", f"{hub}/v1/keys")["keys"][0]["public"]
    person = http("POST", f"{github}/_sandbox/people", {"login": "somebody"})["token"]
    world = World(
        programs, github, hub, Path(environment["MAC_HOME"]), environment, admin, "", person, key, made["ci"]
    )
    world.executor = world.mac(
        "token", "create", "--scope", "executor", "--worker", "ada", "--label", "the demo's executor"
    )["token"]
    return world


def _apps(github: str, folder: Path, source: Source) -> dict[str, Any]:
    def control(path: str, body: dict[str, Any]) -> Any:
        return http("POST", f"{github}/_sandbox/{path}", body)

    for name in ("acme/hub", "acme/plain"):
        control("repositories", {"name": name, "source": str(source.path)})
    hub = control("apps", {"slug": "mac-hub", "owner": "acme", "permissions": HUB_PERMISSIONS})
    ci = control("apps", {"slug": "ci-app", "owner": "acme", "permissions": CI_PERMISSIONS})
    checks = [{"context": "ci/test", "app_id": ci["id"]}]
    control("repositories/acme/hub/rulesets", {"required_checks": checks, "strict": True})
    for made in (hub, ci):
        _keys(made, folder)
        port = made["port"]
        path = "/github/webhook" if made is hub else "/"
        control(f"apps/{made['id']}/webhook", {"url": f"http://127.0.0.1:{port}{path}", "secret": made["secret"]})
    return {"hub": hub, "ci": ci}


def _start_ci(programs: Programs, github: str, ci: dict[str, Any], folder: Path) -> None:
    argv = [sys.executable, "-m", "tests.sandbox.ci", "--github", github, "--app-id", str(ci["id"])]
    argv += ["--key", str(folder / "ci-app.pem"), "--secret-file", str(folder / "ci-app.secret")]
    programs.ready_line(programs.start("ci", [*argv, "--port", str(ci["port"]), "--check", "ci/test"]))


def _keys(app: dict[str, Any], folder: Path) -> None:
    """A port and a webhook secret for an App; its key and its secret lie in files."""
    if "secret" not in app:
        app["secret"], app["port"] = secrets.token_hex(20), free_port()
        (folder / f"{app['slug']}.pem").write_text(app["private_key"])
        (folder / f"{app['slug']}.secret").write_text(app["secret"])


def hub_settings(github: str, app: dict[str, Any], folder: Path) -> dict[str, str]:
    """The hub's settings, as the README lists them; secrets are made here and lie in files."""
    _keys(app, folder)
    for name, secret in (("session", secrets.token_hex(32)), ("proof", base64.b64encode(os.urandom(32)).decode())):
        (folder / f"{name}.key").write_text(secret)
    return {
        "MAC_HOME": str(folder / "hub"),
        "MAC_BIND": f"127.0.0.1:{app['port']}",
        "MAC_PUBLIC_URL": f"http://127.0.0.1:{app['port']}",
        "MAC_GITHUB_URL": github,
        "MAC_GITHUB_API_URL": github,
        "MAC_GITHUB_APP_ID": str(app["id"]),
        "MAC_GITHUB_PRIVATE_KEY_FILE": str(folder / "mac-hub.pem"),
        "MAC_WEBHOOK_SECRET_FILE": str(folder / "mac-hub.secret"),
        "MAC_SESSION_KEY_FILE": str(folder / "session.key"),
        "MAC_PROOF_KEY_FILE": str(folder / "proof.key"),
    }


def start_hub(programs: Programs, environment: dict[str, str]) -> str:
    """Start `mac-hub` and wait until it is ready; its URL."""
    programs.start("hub", [str(HERE / "mac-hub")], environment)
    url = environment["MAC_PUBLIC_URL"]
    until(lambda: _answers(f"{url}/readyz"), "the hub to be ready", 40, programs.check)
    return url


def first_token(programs: Programs, environment: dict[str, str]) -> str:
    """The hub's first token, made on its own machine."""
    said = programs.run("mac", [str(HERE / "mac"), "token", "bootstrap", "--json"], environment)
    return str(json.loads(said)["token"])


def _answers(url: str) -> bool:
    try:
        return bool(http("GET", url))
    except Exception:  # noqa: BLE001 - whatever it is, it is not ready; the deadline says how long that may go on
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
