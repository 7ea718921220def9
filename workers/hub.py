"""`mac-hub`: the whole hub on one machine, in one terminal: broker, schema, doors, publication worker, sweep.

Each part is a process of its own; one that ends by itself is started again, ever more slowly. SIGTERM or SIGINT ends
all of them and leaves nothing running.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import structlog

from ledger import log as logs
from ledger import migrate
from ledger.engine import connect
from ledger.settings import Settings, SettingsRefused, load
from workers.broker import Broker
from workers.broker_program import BrokerRefused

log = structlog.get_logger(__name__)

RESTART_MIN_S: Final = 1.0
RESTART_MAX_S: Final = 30.0
STEADY_S: Final = 60.0
POLL_S: Final = 0.2
END_S: Final = 20.0


@dataclass(slots=True)
class Part:
    """One process of the hub, and when it may be started again."""

    name: str
    argv: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_s: float = RESTART_MIN_S
    start_after: float = 0.0


def main() -> None:
    """Run until told to stop. Exit 2 for settings that cannot be used, 1 for a broker or a schema that cannot."""
    logs.configure("mac-hub")
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        settings = load("hub")
        settings.home_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Broker.start(settings.home_folder, settings.broker, settings.redis_url) as broker:
            _bring_schema_up(settings)
            supervise(parts(settings), environment(broker.url), stop)
    except SettingsRefused as refused:
        _say(refused.code, refused)
        raise SystemExit(2) from refused
    except (BrokerRefused, migrate.SchemaRefused) as refused:
        _say(refused.code, refused)
        raise SystemExit(1) from refused


def _bring_schema_up(settings: Settings) -> None:
    """The one machine is its own release step; with several, `mac-schema-migrate` runs before any of them starts."""
    engine = connect(settings.ledger_url)
    try:
        migrate.apply(engine, applied_by="mac-hub")
    finally:
        engine.dispose()


def _say(code: str, problem: Exception) -> None:
    sys.stderr.write(f"mac-hub: {problem} ({code})\n")


def parts(settings: Settings) -> list[Part]:
    """What the hub is made of, besides its broker; the programs lie beside the Python that runs this."""
    here = Path(sys.executable).parent
    web = ("--workers", "2", "--threads", "4", "--bind", settings.bind, "webhook.wsgi:application()")
    return [
        Part("web", (str(here / "gunicorn"), "--log-level", "warning", *web)),
        Part("worker", (str(here / "mac-worker"),)),
        Part("sweep", (str(here / "mac-sweep"),)),
    ]


def environment(broker_url: str) -> dict[str, str]:
    """What the parts inherit: our own environment, and the broker that we found or started."""
    return {**os.environ, "MAC_REDIS_URL": broker_url, "MAC_BROKER": "url", "TZ": "UTC"}


def supervise(hub: list[Part], given: dict[str, str], stop: threading.Event) -> None:
    """Keep every part running until `stop` is set, then end them all."""
    try:
        while not stop.is_set():
            for part in hub:
                _keep(part, given, time.monotonic())
            stop.wait(POLL_S)
    finally:
        _end_all(hub)


def _keep(part: Part, given: dict[str, str], now: float) -> None:
    if part.process is not None and part.process.poll() is not None:
        log.error("part_ended", part=part.name, exit=part.process.returncode)
        steady = now - part.started_at > STEADY_S
        part.pause_s = RESTART_MIN_S if steady else min(part.pause_s * 2, RESTART_MAX_S)
        part.start_after, part.process = now + part.pause_s, None
    if part.process is None and now >= part.start_after:
        part.process = subprocess.Popen(part.argv, env=given, stdin=subprocess.DEVNULL)
        part.started_at = now
        log.info("part_started", part=part.name, pid=part.process.pid)


def _end_all(hub: list[Part]) -> None:
    running = [part.process for part in hub if part.process is not None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + END_S
    for process in running:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
