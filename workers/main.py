"""The programs `mac-worker` and `mac-sweep`."""

import signal
import threading
from types import FrameType

from redis import Redis
from rq import Queue, Worker
from rq.serializers import JSONSerializer

from ledger import log as logs
from ledger import publication
from ledger.bell import QUEUE
from ledger.settings import Settings, SettingsRefused
from workers import broker_program, sweep
from workers.place import name_gone
from workers.wiring import place, settings_of_process


def worker() -> None:
    """`mac-worker`: answers the bell, one branch at a time, each ring in a process of its own."""
    settings = _begin("worker")
    if settings.redis_url is None:
        raise SystemExit("mac-worker: MAC_REDIS_URL is not set; `mac-hub` brings a broker of its own")
    broker_program.check(settings.redis_url)
    connection = Redis.from_url(settings.redis_url)  # RQ sets the time-outs of its long reads by itself
    publication.free_abandoned(place().ledger, name_gone)
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


def _begin(program: str) -> Settings:
    """Read the settings and wire the place: whatever is wrong with them shows now, and not at the first look."""
    logs.configure(f"mac-{program}")
    try:
        settings = settings_of_process()
        place()
    except SettingsRefused as refused:
        raise SystemExit(f"mac-{program}: {refused} ({refused.code})") from refused
    return settings
