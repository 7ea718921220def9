"""How these tests speak to the sandbox: plain requests, and real git with a token."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from tests.sandbox.sandbox import AppHandle, Repo, Sandbox


def ask(
    github: Sandbox, credential: str, method: str, path: str, body: Any = None, **headers: str
) -> requests.Response:
    """One REST request; underscores in header names stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.request(
        method,
        path if path.startswith("http") else github.url + path,
        json=body,
        headers={"Authorization": f"Bearer {credential}", **named},
        timeout=20,
        allow_redirects=False,
    )


@dataclass
class Clone:
    """A working clone of a repository, made with an App's token (or another credential)."""

    repo: Repo
    folder: Path
    credential: str

    @classmethod
    def of(cls, repo: Repo, app: AppHandle, folder: Path) -> "Clone":
        made = cls(repo, folder, app.token())
        made.git("clone", "-q", made.url, str(folder), cwd=folder.parent)
        return made

    @property
    def url(self) -> str:
        return self.repo.clone_url.replace("http://", f"http://x-access-token:{self.credential}@")

    def git(self, *argv: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        who = ("-c", "user.name=An Executor", "-c", "user.email=executor@example.org")
        command = ["git", *who, *argv]
        where = cwd or self.folder
        return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=60, check=False)

    def commit(self, branch: str, **files: str) -> str:
        """Commits files on a branch (made from where HEAD is) and returns the sha."""
        self.git("checkout", "-q", "-B", branch)
        for name, content in files.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "-A")
        done = self.git("commit", "-q", "-m", f"Change {', '.join(files)}")
        assert done.returncode == 0, done.stderr
        return self.git("rev-parse", "HEAD").stdout.strip()

    def push(self, *refspecs: str) -> "subprocess.CompletedProcess[str]":
        return self.git("push", self.url, *refspecs)


@dataclass
class Heard:
    """What a webhook receiver heard: headers and raw bodies, in order; `answers` are the statuses it gives first."""

    deliveries: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    url: str = ""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, event: str, words: bytes, timeout_s: float = 30) -> bool:
        """Waits until a delivery of this event has these bytes in its body; False if none came in time."""
        with self.changed:
            return self.changed.wait_for(
                lambda: any(h["X-GitHub-Event"] == event and words in raw for h, raw in self.deliveries), timeout_s
            )

    def events(self) -> list[str]:
        return [headers["X-GitHub-Event"] for headers, _ in self.deliveries]


@contextmanager
def receiver() -> Iterator[Heard]:
    """A webhook receiver on loopback."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            with heard.changed:
                heard.deliveries.append((dict(self.headers.items()), raw))
                heard.changed.notify_all()
            self.send_response(heard.answers.pop(0) if heard.answers else 202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gave it
            """Silent: the test looks at what was heard."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    heard.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
