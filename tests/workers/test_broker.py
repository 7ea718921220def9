"""The broker is one real server, alive exactly as long as it is wanted."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from workers.broker import Broker
from workers.broker_program import BrokerRefused, check, client, find_in_wheel, find_on_path

pytestmark = pytest.mark.skipif(
    find_in_wheel() is None and find_on_path() is None, reason="no broker program on this machine"
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose broker, whatever became of its owner, is gone after the test."""
    yield tmp_path
    for lock in tmp_path.rglob("lock"):
        with open_lock(lock.parent) as free:
            assert free, "a server was left running"


@contextmanager
def open_lock(folder: Path) -> Iterator[bool]:
    """Whether no server lives on the folder, seen within ten seconds."""
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(500):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                threading.Event().wait(0.02)
            else:
                yield True
                return
        yield False
    finally:
        os.close(held)


def push(url: str, word: str) -> None:
    with client(url) as asked:
        asked.rpush("rings", word)


def pushed(url: str) -> object:
    with client(url) as asked:
        return asked.lrange("rings", 0, -1)


def process_id(url: str) -> int:
    with client(url) as asked:
        return int(asked.info("server")["process_id"])


def test_it_starts_answers_and_stops(home: Path) -> None:
    with Broker.start(home) as broker:
        assert not broker.adopted
        assert broker.is_alive()
        check(broker.url)
    assert not broker.is_alive()


def test_only_this_user_can_reach_it(home: Path) -> None:
    with Broker.start(home):
        assert (home / "broker").stat().st_mode & 0o777 == 0o700
        assert (home / "broker" / "broker.sock").stat().st_mode & 0o777 == 0o700


def test_a_second_start_adopts_the_same_server_and_does_not_stop_it(home: Path) -> None:
    with Broker.start(home) as first:
        second = Broker.start(home)
        assert second.adopted
        assert process_id(second.url) == process_id(first.url)
        second.stop()
        assert first.is_alive()


def test_a_killed_server_is_restarted_and_keeps_what_was_pushed(home: Path) -> None:
    with Broker.start(home) as first:
        for number in range(300):
            push(first.url, str(number))
        os.kill(process_id(first.url), signal.SIGKILL)
        with open_lock(home / "broker") as gone:
            assert gone
        assert not first.is_alive()
        with Broker.start(home) as second:
            assert not second.adopted
            assert pushed(second.url) == [str(number) for number in range(300)]


STARTER = """
import sys, threading
from pathlib import Path
from workers.broker import Broker
broker = Broker.start(Path(sys.argv[1]))
print(broker.url, flush=True)
threading.Event().wait(60)
"""


@contextmanager
def another_hub(home: Path) -> Iterator[subprocess.Popen[str]]:
    hub = subprocess.Popen([sys.executable, "-c", STARTER, str(home)], stdout=subprocess.PIPE, text=True)
    try:
        yield hub
    finally:
        hub.kill()
        hub.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an orphan is adopted by the next start")
def test_it_dies_with_a_hub_that_is_killed(home: Path) -> None:
    with another_hub(home) as hub:
        assert hub.stdout is not None
        url = hub.stdout.readline().strip()
        check(url)
        hub.kill()
        with open_lock(home / "broker") as gone:
            assert gone


def test_two_hubs_never_run_two_servers_on_one_folder(home: Path) -> None:
    with another_hub(home) as one, another_hub(home) as two:
        assert one.stdout is not None
        assert two.stdout is not None
        urls = {one.stdout.readline(), two.stdout.readline()}
        assert len(urls) == 1
        with Broker.start(home) as third:
            assert third.adopted
        check(urls.pop().strip())


def test_an_orphan_whose_owner_is_gone_is_stopped_by_its_adopter(home: Path) -> None:
    first = Broker.start(home)
    note = home / "broker" / "broker.pid"
    note.write_text(note.read_text().replace(f'"pid": {os.getpid()},', '"pid": 1,'))  # never a process of ours
    adopted = Broker.start(home)
    assert adopted.adopted
    adopted.stop()
    with open_lock(home / "broker") as gone:
        assert gone
    assert not first.is_alive()
    first.stop()


def test_a_home_with_a_long_and_odd_name_is_served_all_the_same(tmp_path: Path) -> None:
    home = tmp_path / ("long %41?# name " * 8)
    with Broker.start(home) as broker:
        assert broker.is_alive()
        assert not (home / "broker" / "broker.sock").exists()
    (Path(broker.url.removeprefix("unix://").partition("?")[0]).parent).rmdir()


def test_an_odd_name_is_quoted(home: Path) -> None:
    odd = home / "a?b#c%41"
    with Broker.start(odd) as broker:
        assert broker.is_alive()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_broker_that_drops_keys_is_refused(policy: str, home: Path) -> None:
    with Broker.start(home) as broker:
        with client(broker.url) as asked:
            asked.config_set("maxmemory-policy", policy)
        with pytest.raises(BrokerRefused, match=policy) as refused:
            check(broker.url)
        assert refused.value.code == "broker_evicts"
        with pytest.raises(BrokerRefused) as again:
            Broker.start(home, "url", broker.url)
        assert again.value.code == "broker_evicts"


@contextmanager
def old_server(version: str) -> Iterator[str]:
    """A server that speaks just enough to say its version."""
    info = f"# Server\r\nredis_version:{version}\r\nmaxmemory_policy:noeviction\r\n"
    answers = {b"INFO": f"${len(info)}\r\n{info}\r\n".encode()}

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as heard:
            while line := heard.readline():
                words = [heard.read(int(heard.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                connection.sendall(answers.get(words[0].upper(), b"-ERR unknown command\r\n"))

    def listen() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{port}/0"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize(
    ("version", "accepted"), [("6.0.16", False), ("5.0.9", False), ("6.2.0", True), ("10.0.1", True)]
)
def test_a_broker_before_6_2_is_refused(version: str, accepted: bool) -> None:
    with old_server(version) as url:
        if accepted:
            check(url)
        else:
            with pytest.raises(BrokerRefused, match=version) as refused:
                check(url)
            assert refused.value.code == "broker_too_old"


def test_a_broker_that_is_not_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(BrokerRefused) as refused:
        check(f"redis://127.0.0.1:{port}/0")
    assert refused.value.code == "broker_unreachable"


def test_without_any_program_it_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerRefused) as refused:
        Broker.start(tmp_path, "path")
    assert refused.value.code == "broker_not_found"


def test_a_program_that_cannot_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "redis-server"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "Redis server v=7.0.15"; exit 0; }\nexit 3\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BrokerRefused) as refused:
        Broker.start(tmp_path, "path")
    assert refused.value.code == "broker_not_started"
    with open_lock(tmp_path / "broker") as free:
        assert free
    assert not (tmp_path / "broker" / "broker.pid").exists()
