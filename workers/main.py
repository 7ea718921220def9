"""The programs `mac-worker` and `mac-sweep`: read the settings, wire a place to work in, run until told to stop."""

import os
import random
import signal
import subprocess
import threading
import time
from functools import cache
from pathlib import Path
from types import FrameType

import structlog
from rq import Queue, Worker
from rq.serializers import JSONSerializer

from ledger import log as logs
from ledger.bell import QUEUE, Bell, RedisBell, SilentBell
from ledger.session import Ledger
from ledger.settings import Settings, SettingsRefused, load
from pipeline.signing import SigningKey
from workers import broker_program, sweep
from workers.clone import Mirrors
from workers.forge import Connection
from workers.git import Git
from workers.place import Place, this_process

log = structlog.get_logger(__name__)


def worker() -> None:
    """`mac-worker`: answers the bell, one branch at a time, each ring in a process of its own."""
    settings = _begin("worker")
    if settings.redis_url is None:
        raise SystemExit("mac-worker: MAC_REDIS_URL is not set; `mac-hub` brings a broker of its own")
    broker_program.check(settings.redis_url)
    connection = broker_program.client(settings.redis_url)
    place()  # whatever is wrong with the settings shows now, and not at the first ring
    queue = Queue(QUEUE, connection=connection, serializer=JSONSerializer)
    Worker([queue], connection=connection, serializer=JSONSerializer).work(logging_level="WARNING")


def sweeper() -> None:
    """`mac-sweep`: ticks until SIGTERM or SIGINT."""
    _begin("sweep")
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    sweep.run(place(), stop)


@cache
def settings_of_process() -> Settings:
    """The settings of this process, read once."""
    return load("worker")


def place() -> Place:
    """The place of this process. A forked child gets one of its own: connections and holder are never shared."""
    return _place(os.getpid())


@cache
def _place(_pid: int) -> Place:
    settings = settings_of_process()
    bounds, home = settings.bounds, settings.home_folder
    bell: Bell = SilentBell()
    if settings.redis_url is not None:
        bell = RedisBell(settings.redis_url, timeout_ms=bounds.ring_timeout_ms, hold_ms=bounds.ring_hold_ms)
    git = Git.prepared(home / "git", os.environ, timeout_ms=bounds.git_timeout_ms)
    return Place(
        ledger=Ledger.open(settings.ledger_url, bounds=bounds, bell=bell),
        mirrors=Mirrors(home / "mirrors", git, max_bytes=MIRRORS_BYTES_MAX),
        github=_connection(settings),
        key=_proof_key(settings),
        holder=this_process(),
        revision=revision(),
        bounds=bounds,
        now=lambda: time.time_ns() // 1_000_000,
        jitter=random.random,
    )


MIRRORS_BYTES_MAX = 20 * 1024**3


@cache
def revision() -> str:
    """What code this process runs: `MAC_REVISION` of a built image, else the commit of the checkout, else `unknown`."""
    given = os.environ.get("MAC_REVISION")
    if given:
        return given
    try:
        argv = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        found = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found or "unknown"


def _begin(program: str) -> Settings:
    logs.configure(f"mac-{program}")
    try:
        return settings_of_process()
    except SettingsRefused as refused:
        raise SystemExit(f"mac-{program}: {refused} ({refused.code})") from refused


def _proof_key(settings: Settings) -> SigningKey:
    assert settings.proof_key is not None
    try:
        return SigningKey.from_text(settings.proof_key.get_secret_value())
    except ValueError as error:
        raise SettingsRefused("setting_invalid", f"MAC_PROOF_KEY: {error}") from error


def _connection(settings: Settings) -> Connection:
    assert settings.github_app_id is not None and settings.github_private_key is not None
    if not settings.github_app_id.isdecimal():
        raise SettingsRefused("setting_invalid", "MAC_GITHUB_APP_ID must be a number")
    return Connection(
        api_url=settings.github_api_url,
        app_id=int(settings.github_app_id),
        private_key=settings.github_private_key.get_secret_value(),
        timeout_ms=settings.github_timeout_ms,
    )
