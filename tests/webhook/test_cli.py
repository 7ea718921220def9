"""`mac` against a served hub: data on stdout, talk on stderr, and exit codes that scripts can rely on."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.serving import make_server

from ledger import migrate, projects
from ledger.access import Scope
from ledger.engine import connect
from tests.webhook.serving import CONTRACT, Store, registered
from webhook import cli
from webhook.contract_cli import contract


@dataclass(frozen=True)
class Said:
    """What one command came to."""

    exit: int
    out: str
    talk: str

    def json(self) -> object:
        return json.loads(self.out)


Mac = Callable[..., Said]


@pytest.fixture
def hub_url(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def mac(hub_url: str, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mac:
    """Run `mac` in this process, as an admin unless the test says otherwise."""
    monkeypatch.setenv("MAC_HUB_URL", hub_url)

    def run(*argv: str, scope: Scope | None = Scope.ADMIN) -> Said:
        monkeypatch.setenv("MAC_TOKEN", store.token(scope).secret if scope else "")
        capsys.readouterr()
        exit_code = cli.run(list(argv))
        captured = capsys.readouterr()
        return Said(exit_code, captured.out, captured.err)

    return run


def test_a_project_is_added_shown_and_listed(mac: Mac) -> None:
    added = mac("project", "add", "acme/Widgets", "--json")
    assert (added.exit, added.talk) == (0, "")
    made = added.json()
    assert isinstance(made, dict)
    assert (made["name"], made["repository"], made["state"]) == ("widgets", "Widgets", "registering")
    assert mac("project", "show", "widgets", "--json").json() == made
    lines = mac("project", "list").out.splitlines()
    assert lines[0].split()[:2] == ["ID", "NAME"]
    assert lines[1].split()[1:4] == ["widgets", "acme", "Widgets"]


def test_waiting_for_a_project_ends_when_a_worker_has_read_it(mac: Mac, store: Store) -> None:
    added = threading.Event()

    def worker() -> None:
        added.wait(10)
        with store.ledger.write() as tx:
            projects.settle_registration(tx, projects.get(tx, "widgets").id, registered("https://example.org/w.git"))

    thread = threading.Thread(target=worker)
    thread.start()
    threading.Timer(0.3, added.set).start()
    said = mac("project", "add", "acme/widgets", "--wait", "--json")
    thread.join()
    assert said.exit == 0
    assert isinstance(found := said.json(), dict)
    assert found["state"] == "ready"


def test_waiting_for_a_project_that_nobody_reads_ends_with_no(mac: Mac) -> None:
    said = mac("project", "add", "acme/widgets", "--wait", "--wait-ms", "50")
    assert said.exit == 1
    assert "is a worker running?" in said.talk
    assert "state: registering" in said.out


def test_a_refused_project_is_a_no(mac: Mac, store: Store) -> None:
    mac("project", "add", "acme/widgets")
    with store.ledger.write() as tx:
        found = projects.get(tx, "widgets")
        projects.settle_registration(tx, found.id, projects.Unfit("contract_missing", {"path": ".mac/project.yaml"}))
    shown = mac("project", "show", "widgets")
    assert "code: contract_missing" in shown.out


def test_a_task_is_created_and_followed_by_a_short_id(mac: Mac, store: Store) -> None:
    store.project()
    made = mac("task", "create", "--project", "widgets", "--title", "Do it", "--json").json()
    assert isinstance(made, dict)
    table = mac("task", "list", "--state", "open").out.splitlines()
    short = table[1].split()[0]
    assert (len(short), made["id"].startswith(short)) == (13, True)
    assert f"id: {made['id']}" in mac("task", "show", short).out
    assert "evidence: -" in mac("task", "outcome", short).out
    assert "decision: -" in mac("task", "why", short).out
    assert "claimable: True" in mac("task", "why-unclaimed", short).out
    assert mac("task", "timeline", short).out.splitlines()[1].split()[1] == "created"


def test_a_body_can_come_from_a_file(mac: Mac, store: Store, tmp_path: Path) -> None:
    store.project()
    body = tmp_path / "body.md"
    body.write_text("Two\nlines\n")
    command = ("task", "create", "--project", "widgets", "--title", "Do it", "--body-file", str(body))
    made = mac(*command, "--json").json()
    assert isinstance(made, dict)
    assert made["body"] == "Two\nlines\n"
    assert mac(*command, "--body", "and more").exit == 2


@pytest.mark.parametrize(
    ("argv", "scope", "exit_code", "code"),
    [
        (("task", "show", "task_absent"), Scope.READ, 3, "task_unknown"),
        (("project", "show", "absent"), Scope.READ, 3, "project_unknown"),
        (("proof", "show", "task_absent"), Scope.READ, 3, "task_unknown"),
        (("project", "add", "acme/widgets"), Scope.READ, 4, "scope_missing"),
        (("project", "list"), None, 4, "token_missing"),
        (("task", "create", "--project", "absent", "--title", "x"), Scope.ADMIN, 3, "project_unknown"),
        (("project", "add", "acme/widgets", "--name", "NO"), Scope.ADMIN, 1, "field_invalid"),
    ],
)
def test_a_refusal_has_an_exit_code_and_is_said_on_stderr(
    mac: Mac, argv: tuple[str, ...], scope: Scope | None, exit_code: int, code: str
) -> None:
    said = mac(*argv, scope=scope)
    assert (said.exit, said.out) == (exit_code, "")
    assert said.talk.startswith(f"{code}: ")


@pytest.mark.parametrize("argv", [("task",), ("task", "create"), ("nothing",), ("project", "add", "no-slash")])
def test_a_command_that_is_not_understood_is_a_usage_error(mac: Mac, argv: tuple[str, ...]) -> None:
    assert mac(*argv).exit == 2


def test_a_hub_that_is_away_has_an_exit_code_of_its_own(mac: Mac) -> None:
    said = mac("task", "list", "--hub-url", "http://127.0.0.1:9")
    assert (said.exit, said.out) == (5, "")
    assert said.talk.startswith("hub_unreachable: ")


def test_a_token_is_not_sent_in_the_clear(mac: Mac) -> None:
    said = mac("task", "list", "--hub-url", "http://hub.example.org")
    assert said.exit == 2
    assert "https" in said.talk


def test_a_token_alone_stands_on_stdout(mac: Mac, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said = mac("token", "create", "--scope", "read", "--label", "a page")
    assert said.exit == 0
    secret = said.out.strip()
    assert secret not in said.talk
    assert len(secret.splitlines()) == 1
    store.tokens[Scope.READ] = type(store.token(Scope.ADMIN))("", secret, Scope.READ, None)
    assert mac("task", "list", scope=Scope.READ).exit == 0


def test_the_first_token_is_made_on_the_machine_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAC_HOME", str(tmp_path))
    assert cli.run(["token", "bootstrap"]) == 1
    assert capsys.readouterr().err.startswith("schema_uninitialised: ")
    engine = connect(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    migrate.apply(engine, applied_by="test")
    engine.dispose()
    assert cli.run(["token", "bootstrap"]) == 0
    first = capsys.readouterr()
    assert len(first.out.strip()) >= 43  # 256 bits
    assert cli.run(["token", "bootstrap"]) == 1
    second = capsys.readouterr()
    assert (second.out, second.err.split(":")[0]) == ("", "bootstrap_done")


def test_the_settings_are_shown_without_their_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAC_WEBHOOK_SECRET", "very secret indeed")
    assert cli.run(["config", "check"]) == 0
    assert "very secret indeed" not in capsys.readouterr().out
    assert cli.run(["config", "check", "--program", "web"]) == 2
    assert capsys.readouterr().err.startswith("setting_missing: ")
    monkeypatch.setenv("MAC_GITHUB_URL", "http://github.example.org")
    assert cli.run(["config", "check"]) == 2


@pytest.fixture
def with_contract() -> Iterator[None]:
    """`mac contract` as the installed distribution brings it by its entry point."""
    known = "contract" in cli.mac.commands
    cli.mac.add_command(contract)
    yield
    if not known:
        del cli.mac.commands["contract"]


@pytest.mark.usefixtures("with_contract")
def test_a_contract_is_read_as_the_gate_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "project.yaml"
    file.write_text(CONTRACT)
    assert cli.run(["contract", "check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["test"]["command"] == [["sh", "test.sh"]]
    file.write_text(CONTRACT + "lend:\n  method: merge\n")
    assert cli.run(["contract", "check", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("contract_broken: ")
    assert "line 5" in said
