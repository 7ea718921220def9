"""A CI service of its own: `python -m tests.sandbox.ci --github URL --app-id N --key FILE --secret-file FILE`.

It hears the signed webhooks of its App, clones the head with an installation token, runs the contract's `test.command`
and reports a check run, in progress and then completed. It knows nothing but GitHub.
`POST /script` with `{"conclusion": "failure", "times": 1}` makes the next runs end so without running anything;
the conclusion `never` leaves a run in progress for good. Prints one JSON line once it listens.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import urllib3
import yaml

LONGEST_RUN_S = 120
KEPT_OUTPUT = 4000
OPENING_ACTIONS = ("opened", "reopened", "synchronize")


@dataclass(frozen=True)
class Head:
    """A commit to be tested."""

    full_name: str
    sha: str
    installation_id: int
    again: bool = False


@dataclass
class Service:
    """The App's half of the service: what it was told, what it has tested, what it is to say by script."""

    github: str
    app_id: int
    private_key: str
    secret: bytes
    check: str
    waiting: queue.Queue[Head | None] = field(default_factory=queue.Queue)
    seen: set[tuple[str, str]] = field(default_factory=set)
    script: deque[str] = field(default_factory=deque)
    http: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False, timeout=30))

    def hear(self, event: str, raw: bytes, signature: str) -> int:
        """Takes one delivery; the status says whether its signature is good."""
        wanted = "sha256=" + hmac.new(self.secret, raw, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted.encode(), signature.encode()):
            return 401
        head = head_of(event, json.loads(raw))
        if head is not None and (head.again or (head.full_name, head.sha) not in self.seen):
            self.seen.add((head.full_name, head.sha))
            self.waiting.put(head)
        return 202

    def work(self) -> None:
        """Tests heads one after the other until None comes."""
        while (head := self.waiting.get()) is not None:
            try:
                self._test(head)
            except (OSError, RuntimeError, subprocess.SubprocessError, urllib3.exceptions.HTTPError) as error:
                sys.stderr.write(f"ci: {head.sha} was not tested: {error}\n")

    def _test(self, head: Head) -> None:
        token = self._token(head)
        started = {"name": self.check, "head_sha": head.sha, "status": "in_progress"}
        run = self._call("POST", f"/repos/{head.full_name}/check-runs", token, started)
        scripted = self.script.popleft() if self.script else None
        if scripted == "never":
            return
        conclusion, title, text = (scripted, "By script", "") if scripted else self._run(head, token)
        output = {"title": title, "summary": f"`{self.check}` at {head.sha}", "text": text}
        body = {"status": "completed", "conclusion": conclusion, "output": output}
        self._call("PATCH", f"/repos/{head.full_name}/check-runs/{run['id']}", token, body)

    def _token(self, head: Head) -> str:
        now_s = int(time.time())
        claims = {"iat": now_s - 30, "exp": now_s + 300, "iss": str(self.app_id)}
        signed = jwt.encode(claims, self.private_key, algorithm="RS256")
        name = head.full_name.partition("/")[2]
        path = f"/app/installations/{head.installation_id}/access_tokens"
        return str(self._call("POST", path, signed, {"repositories": [name]})["token"])

    def _call(self, method: str, path: str, token: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        answer = self.http.request(method, self.github + path, json=body, headers=headers)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def _run(self, head: Head, token: str) -> tuple[str, str, str]:
        with tempfile.TemporaryDirectory(prefix="ci-") as folder:
            clone(f"{self.github}/{head.full_name}.git", head.sha, token, Path(folder))
            commands = contract_commands(Path(folder))
            if not commands:
                return "failure", "No contract", "`.mac/project.yaml` names no `test.command`."
            for argv in commands:
                code, output = run(argv, Path(folder))
                if code != 0:
                    return "failure", f"`{shlex.join(argv)}` ended with {code}", output
            return "success", f"{len(commands)} command(s) passed", output


def head_of(event: str, payload: dict[str, Any]) -> Head | None:
    """The commit that a delivery asks to be tested, if it asks for one."""
    action = payload.get("action")
    if event == "check_suite" and action in ("requested", "rerequested"):
        sha = payload["check_suite"]["head_sha"]
    elif event == "check_run" and action == "rerequested":
        sha = payload["check_run"]["head_sha"]
    elif event == "pull_request" and action in OPENING_ACTIONS:
        sha = payload["pull_request"]["head"]["sha"]
    elif event == "push" and payload["ref"].startswith("refs/heads/") and not payload["deleted"]:
        sha = payload["after"]
    else:
        return None
    return Head(payload["repository"]["full_name"], sha, payload["installation"]["id"], action == "rerequested")


def clone(url: str, sha: str, token: str, folder: Path) -> None:
    """Checks out one commit; the token is passed by the environment, never in an argument."""
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }
    for argv in (["init", "-q"], ["fetch", "-q", "--depth=1", url, sha], ["checkout", "-q", "FETCH_HEAD"]):
        subprocess.run(["git", *argv], cwd=folder, env=env, check=True, capture_output=True, timeout=LONGEST_RUN_S)


def contract_commands(folder: Path) -> list[list[str]]:
    """The argument vectors of the contract's `test.command`."""
    contract = folder / ".mac" / "project.yaml"
    read = yaml.safe_load(contract.read_text()) if contract.is_file() else None
    named = (read or {}).get("test", {}).get("command", [])
    return [shlex.split(text) for text in ([named] if isinstance(named, str) else named)]


def run(argv: list[str], folder: Path) -> tuple[int, str]:
    """Runs one command in a process group of its own, killed whole when its time is over."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "CI": "true"}
    try:
        process = subprocess.Popen(
            argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return 127, str(error)
    try:
        out, _ = process.communicate(timeout=LONGEST_RUN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    return process.returncode, out[-KEPT_OUTPUT:].decode(errors="replace")


def handler_of(service: Service) -> type[BaseHTTPRequestHandler]:
    """The request handler of one service: the webhook, and the script."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.path == "/script":
                wanted = json.loads(raw)
                service.script.extend([wanted["conclusion"]] * wanted.get("times", 1))
                status = 200
            else:
                event, signature = self.headers.get("X-GitHub-Event", ""), self.headers.get("X-Hub-Signature-256", "")
                status = service.hear(event, raw, signature)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gave it
            """Silent: what was heard stands in GitHub's delivery log."""

    return Handler


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sandbox.ci", description=__doc__)
    parser.add_argument("--github", required=True, help="where GitHub is, without a slash at the end")
    parser.add_argument("--app-id", type=int, required=True)
    parser.add_argument("--key", type=Path, required=True, help="the App's private key (PEM)")
    parser.add_argument("--secret-file", type=Path, required=True, help="the webhook secret")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--check", default="ci/test", help="the name of the check run")
    given = parser.parse_args(argv)
    secret = given.secret_file.read_text().strip().encode()
    if not secret:
        parser.error("the webhook secret is empty")
    service = Service(given.github, given.app_id, given.key.read_text(), secret, given.check)
    server = ThreadingHTTPServer(("127.0.0.1", given.port), handler_of(service))
    server.daemon_threads = True
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.waiting.put(None))
    listener = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    listener.start()
    sys.stdout.write(json.dumps({"ready": True, "url": f"http://127.0.0.1:{server.server_port}"}) + "\n")
    sys.stdout.flush()
    service.work()
    server.shutdown()
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
