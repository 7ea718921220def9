"""The bell: tells the publication workers that a branch is worth a look. It carries no truth and may be lost.

A ring is an RQ job that names the worker's function by its path and holds one branch id. `SET … NX` lets one ring stand
for all that follow until a worker answers it, so that a storm of deliveries is one job. Nothing here ever fails or
delays the caller for longer than one short time-out: without Redis, the sweep finds the work.
"""

import secrets
from typing import Protocol

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue
from rq.serializers import JSONSerializer

QUEUE = "publication"
JOB = "workers.publish.advance"
JOB_TIMEOUT_S = 300
QUEUED_TTL_S = 3_600
FAILURE_TTL_S = 86_400

log = structlog.get_logger(__name__)


class Bell(Protocol):
    """What the ledger rings after a commit. Neither method raises or waits for long."""

    def ring(self, branch_id: str) -> None:
        """Ask for a look at the branch."""

    def answer(self, branch_id: str) -> None:
        """Say that a look begins: what is rung from now on is a new ring."""


class SilentBell:
    """A bell for a hub without a broker: the sweep finds the work by itself."""

    def ring(self, branch_id: str) -> None:
        """Nothing; the ledger's next-look times are enough."""

    def answer(self, branch_id: str) -> None:
        """Nothing."""


class RedisBell:
    """Rings through RQ on the broker at `url`. `hold_ms`: how long one ring stands for those that follow it, at
    most."""

    def __init__(self, url: str, *, timeout_ms: int = 100, hold_ms: int = 30_000) -> None:
        timeout_s = timeout_ms / 1000
        self._hold_ms = hold_ms
        self._redis = Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
        )
        self._queue = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer)

    def ring(self, branch_id: str) -> None:
        """Queue one look, unless a ring for the branch is waiting already. A broker that is away is logged, not
        raised."""
        try:
            if self._redis.set(_key(branch_id), "1", nx=True, px=self._hold_ms):
                self._queue.enqueue_call(
                    JOB,
                    args=(branch_id,),
                    job_id=secrets.token_hex(16),
                    timeout=JOB_TIMEOUT_S,
                    result_ttl=0,
                    ttl=QUEUED_TTL_S,
                    failure_ttl=FAILURE_TTL_S,
                )
        except (RedisError, OSError) as away:
            log.warning("ring_lost", branch=branch_id, problem=type(away).__name__)

    def answer(self, branch_id: str) -> None:
        """Let the next ring through. Call it before observing, so that a fact that comes later rings again."""
        try:
            self._redis.delete(_key(branch_id))
        except (RedisError, OSError) as away:
            log.warning("answer_lost", branch=branch_id, problem=type(away).__name__)


def _key(branch_id: str) -> str:
    return f"ring:{branch_id}"
