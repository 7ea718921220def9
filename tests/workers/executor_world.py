"""Everything around an executor: a served hub over a ledger, a git server that asks for its token, and a GitHub."""

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from werkzeug.serving import make_server

from ledger.access import Scope
from ledger.bounds import Bounds
from ledger.projects import Project
from tests.webhook import serving
from tests.workers.places import Place
from webhook.app import create_app

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class World:
    """One hub with one project, whose repository is a bare one on this machine, and a folder for the executor."""

    store: serving.Store
    hub_url: str
    forge: serving.Forge
    place: Place
    project: Project
    folder: Path

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAC_", "GIT_"))}
        token = self.store.token(Scope.EXECUTOR).secret
        ours = {"MAC_HUB_URL": self.hub_url, "MAC_TOKEN": token, "PYTHONPATH": str(ROOT)}
        return {**kept, **ours, **changes}

    def start(self, command: Sequence[str], *options: str, **changes: str) -> subprocess.Popen[str]:
        """An executor as a process of its own; the caller waits for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "workers.executor", "--workdir", "work", *options, "--", *command],
            cwd=self.folder,
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def execute(self, command: Sequence[str], *options: str, **changes: str) -> "Ended":
        """One executor that takes one lease and ends."""
        process = self.start(command, "--once", *options, **changes)
        out, talk = process.communicate(timeout=60)
        return Ended(process.returncode, out, talk)


@dataclass(frozen=True)
class Ended:
    """How an executor ended: exit code, stdout (which stays empty), and its talk on stderr."""

    exit: int
    out: str
    talk: str


@contextmanager
def world(folder: Path, clock: serving.Hands | None = None, **bounds: int) -> Iterator[World]:
    """The world of one test, gone when the block ends. `bounds` change the ledger's."""
    place = Place.made(folder / "git" / "acme" / "widgets.git")
    base = place.commit({".mac/project.yaml": serving.CONTRACT, "test.sh": "test -f answer.txt\n"})
    place.points("refs/heads/main", base)
    store = serving.store(folder, clock, Bounds(**bounds))
    with serving.forge() as forge, _git_server(folder / "git", forge) as git_url:
        settings = serving.settings(folder, github_api_url=forge.url)
        with _served(create_app(settings, store.ledger)) as hub_url:
            project = store.project(clone_url=f"{git_url}/acme/widgets.git")
            (folder / "executor").mkdir()
            yield World(store, hub_url, forge, place, project, folder / "executor")
    store.ledger.close()


@contextmanager
def _served(app: object) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)  # type: ignore[arg-type]  # any WSGI application
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _git_server(root: Path, forge: serving.Forge) -> Iterator[str]:
    """Repositories below `root` over smart HTTP, for reading, by the forge's present token only."""

    class Backend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            expected = base64.b64encode(f"x-access-token:{forge.token}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {expected}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            done = subprocess.run(
                ["git", "http-backend"], input=body, capture_output=True, check=True,
                env={
                    "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                },
            )  # fmt: skip
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200 OK").split(" ")[0]))
            for name, value in {**fields, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
