"""Transactions, connections and the bell."""

import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import text

from ledger import history
from ledger.bell import QUEUE, RedisBell
from ledger.session import Ledger
from tests.ledger.world import World, rows
from workers.broker import Broker


def test_sqlite_is_as_safe_as_was_promised(sqlite_url: str) -> None:
    with closing(Ledger.open(sqlite_url)) as ledger, ledger.read() as tx:
        found = {
            name: tx.connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_writer_of_sqlite_holds_the_write_lock_from_its_beginning(sqlite_url: str) -> None:
    file = sqlite_url.removeprefix("sqlite:///")
    with closing(Ledger.open(sqlite_url)) as ledger, closing(sqlite3.connect(file, timeout=0)) as impatient:
        with ledger.write(), pytest.raises(sqlite3.OperationalError, match="locked"):
            impatient.execute("BEGIN IMMEDIATE")
        with ledger.read():
            impatient.execute("BEGIN IMMEDIATE")


def test_a_block_that_raises_leaves_nothing(ledger: Ledger) -> None:
    with pytest.raises(KeyError):
        _write_and_fail(ledger)
    assert rows(ledger, "history") == []


def _write_and_fail(ledger: Ledger) -> None:
    with ledger.write() as tx:
        history.write(tx, subject="x", subject_id="1", event="e", actor="test")
        raise KeyError


def test_a_bell_that_breaks_does_not_break_the_commit(ledger: Ledger) -> None:
    class Broken:
        def ring(self, branch_id: str) -> None:
            raise RuntimeError(branch_id)

        def answer(self, branch_id: str) -> None:
            raise RuntimeError(branch_id)

    ledger.bell = Broken()
    with ledger.write() as tx:
        history.write(tx, subject="x", subject_id="1", event="e", actor="test")
        tx.ring("branch_1")
    assert len(rows(ledger, "history")) == 1


def test_one_transaction_rings_a_branch_once_and_after_its_commit(world: World) -> None:
    with world.ledger.write() as tx:
        tx.ring("branch_1")
        tx.ring("branch_1")
        assert world.bell.rung == []
    assert world.bell.rung == ["branch_1"]


def test_a_forked_child_does_not_use_its_parents_connection(ledger: Ledger) -> None:
    with ledger.read() as tx:
        parent = id(tx.connection.connection.dbapi_connection)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with ledger.write() as tx:
                code = 2 if id(tx.connection.connection.dbapi_connection) == parent else 0
                history.write(tx, subject="x", subject_id="child", event="e", actor="test")
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [row["subject_id"] for row in rows(ledger, "history")] == ["child"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own."""
    with Broker.start(tmp_path_factory.mktemp("broker"), "auto") as started:
        yield started.url


@pytest.fixture
def redis(broker: str) -> Iterator[Redis]:
    connection = Redis.from_url(broker)
    connection.flushall()
    yield connection
    connection.close()


def _queued(redis: Redis) -> list[tuple[str, tuple[str, ...]]]:
    queue = Queue(QUEUE, connection=redis, serializer=JSONSerializer)
    return [(str(job.func_name), tuple(job.args)) for job in queue.jobs]


def test_a_storm_of_rings_is_one_job_that_names_the_branch_only(broker: str, redis: Redis) -> None:
    bell = RedisBell(broker, timeout_ms=2_000)
    for _ in range(20):
        bell.ring("branch_1")
    bell.ring("branch_2")
    assert _queued(redis) == [
        ("workers.publish.advance", ("branch_1",)),
        ("workers.publish.advance", ("branch_2",)),
    ]


def test_a_ring_after_the_answer_is_a_new_job(broker: str, redis: Redis) -> None:
    bell = RedisBell(broker, timeout_ms=2_000)
    bell.ring("branch_1")
    bell.answer("branch_1")
    bell.ring("branch_1")
    assert len(_queued(redis)) == 2


def test_a_broker_that_is_away_delays_nobody(tmp_path: Path) -> None:
    bell = RedisBell(f"unix://{tmp_path / 'nothing.sock'}")
    bell.ring("branch_1")
    bell.answer("branch_1")


def test_a_broker_that_hangs_is_given_up_after_its_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bell = RedisBell(f"redis://127.0.0.1:{silent.getsockname()[1]}", timeout_ms=100)
        began = time.monotonic()
        bell.ring("branch_1")
        assert time.monotonic() - began < 1.0


def test_the_ledgers_time_is_the_clock_that_it_writes_with(world: World) -> None:
    world.clock.advance(77)
    with world.ledger.read() as tx:
        assert world.ledger.now() == tx.now() == world.clock.at
