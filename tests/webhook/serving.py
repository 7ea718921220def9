"""A hub to knock at: the real application over a real ledger in a temporary folder, and a GitHub that mints tokens."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr
from sqlalchemy import text

from ledger import access, migrate, projects, tasks
from ledger.access import Issued, Scope
from ledger.bounds import Bounds
from ledger.engine import connect
from ledger.projects import Project, Registered
from ledger.session import Ledger
from ledger.settings import Settings
from ledger.tasks import Task
from pipeline.canonical import digest_bytes
from pipeline.facts import Deliverable

WEBHOOK_SECRET = b"a secret between this test and itself"
CONTRACT = """\
schema: mac.repository_contract.v1
project: widgets
test:
  command: sh test.sh
"""


class Hands:
    """A clock that the test moves, in milliseconds."""

    def __init__(self, at: int = 1_900_000_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


class Ears:
    """A bell that remembers who was rung for."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def ring(self, branch_id: str) -> None:
        self.rung.append(branch_id)

    def answer(self, branch_id: str) -> None:
        self.rung = [one for one in self.rung if one != branch_id]


@dataclass
class Store:
    """A ledger with what a test puts into it, and the tokens to come in with."""

    ledger: Ledger
    bell: Ears
    tokens: dict[Scope, Issued] = field(default_factory=dict)

    def token(self, scope: Scope, worker: str = "w-1") -> Issued:
        bound = worker if scope in {Scope.EXECUTOR, Scope.BATCH} else None
        if scope not in self.tokens:
            with self.ledger.write() as tx:
                self.tokens[scope] = access.issue(
                    tx, scope=scope, label=f"a test's {scope}", actor="test", worker_name=bound
                )
        return self.tokens[scope]

    def project(self, name: str = "widgets", clone_url: str = "http://127.0.0.1:9/acme/widgets.git") -> Project:
        with self.ledger.write() as tx:
            made = projects.register(tx, name=name, owner="acme", repository=name, actor="test")
            return projects.settle_registration(tx, made.id, registered(clone_url))

    def task(self, project: Project, deliverable: Deliverable = Deliverable.CODE, title: str = "Do it") -> Task:
        with self.ledger.write() as tx:
            return tasks.create(tx, project, title=title, body="Please.", deliverable=deliverable, actor="test")

    def task_now(self, task: Task) -> Task:
        with self.ledger.read() as tx:
            return tasks.get(tx, task.id)

    def counts(self) -> dict[str, int]:
        """How many rows each table has; the tables are asked of the database itself."""
        with self.ledger.read() as tx:
            names = tx.connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars()
            return {
                name: tx.connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in names.all()
            }


def registered(clone_url: str, repository_id: int = 4711) -> Registered:
    return Registered(
        repository_id=repository_id,
        installation_id=99,
        clone_url=clone_url,
        default_branch="main",
        contract=CONTRACT,
        contract_digest=digest_bytes(CONTRACT.encode()),
        contract_blob="b" * 40,
        method="fast_forward",
        markers_admitted=True,
        permissions={"contents": "write"},
    )


def store(folder: Path, clock: Hands | None = None, bounds: Bounds | None = None) -> Store:
    """A migrated, empty ledger."""
    url = f"sqlite:///{folder / 'ledger.sqlite'}"
    engine = connect(url)
    migrate.apply(engine, applied_by="test")
    engine.dispose()
    bell = Ears()
    return Store(Ledger.open(url, clock=clock, bounds=bounds, bell=bell), bell)


def settings(folder: Path, **changes: Any) -> Settings:
    """What the web program cannot do without, with secrets made here and now."""
    values: dict[str, Any] = {
        "home": folder,
        "webhook_secret": SecretStr(WEBHOOK_SECRET.decode()),
        "session_key": SecretStr("s" * 64),
        "github_app_id": "12",
        "github_private_key": SecretStr(private_key()),
        "github_api_url": "http://127.0.0.1:9",
    }
    return Settings(**(values | changes))


_KEY: list[str] = []


def private_key() -> str:
    """An RSA key, generated once for a run of the tests because it takes a while."""
    if not _KEY:
        key = generate_private_key(public_exponent=65_537, key_size=2_048)
        _KEY.append(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    return _KEY[0]


@dataclass
class Forge:
    """What a test's GitHub was asked for a token, and what it answers."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    status: int = 201
    permissions: dict[str, str] = field(default_factory=lambda: {"contents": "read", "metadata": "read"})
    token: str = "ghs_of_this_test"


@contextmanager
def forge() -> Iterator[Forge]:
    """GitHub's route for installation tokens, over HTTP on this machine."""
    here = Forge()

    class Route(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            here.asked.append({"path": self.path, "authorization": self.headers["Authorization"], **body})
            answer = {"token": here.token, "expires_at": "2031-01-01T00:00:00Z", "permissions": here.permissions}
            content = json.dumps(answer).encode()
            self.send_response(here.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Route)
    here.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
