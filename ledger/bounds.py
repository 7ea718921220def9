"""Every limit of the hub, by name, with its default and its unit.

Nothing in the hub waits, repeats, grows or is kept without one of these. They come from the settings and are
handed inward as one frozen value, so that no code below an entry point reads the environment.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pipeline.facts import Limits

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MEBIBYTE = 1024 * 1024


def _bound(default: int, meaning: str, *, least: int = 1) -> int:
    bound: int = Field(default=default, ge=least, description=meaning)
    return bound


class Bounds(BaseModel):
    """All limits, checked one by one and against each other.

    `Bounds()` is the documented default. A name ends in its unit: `_ms` whole milliseconds, `_bytes_max`
    bytes, other `_max` and `_limit` a count. Raises pydantic's ValidationError when a value is out of range
    or when two contradict each other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # tasks and their leases
    task_lease_ms: int = _bound(15 * MINUTE_MS, "how long a task lease lives without a heartbeat")
    heartbeat_ms: int = _bound(20 * SECOND_MS, "how often a worker renews its leases")
    lease_grace_ms: int = _bound(30 * SECOND_MS, "how long after expiry a token is still good", least=0)
    max_attempts: int = _bound(3, "attempts of a task before credits")
    environment_credits_max: int = _bound(3, "credits a task can get for faults of its environment", least=0)
    returned_first_ms: int = _bound(MINUTE_MS, "how long work sent back is kept for its worker", least=0)
    reclaim_every_ms: int = _bound(SECOND_MS, "least time between two reclaims made on somebody's request")
    stop_confirm_ms: int = _bound(2 * MINUTE_MS, "how long an executor has to confirm a stop")
    worker_alive_ms: int = _bound(MINUTE_MS, "how old a heartbeat may be for its worker to count as alive")

    # batch work
    shard_lease_ms: int = _bound(10 * MINUTE_MS, "how long a shard lease lives")
    shard_attempts_max: int = _bound(3, "attempts of a shard")
    shard_lease_limit: int = _bound(100, "shards one poll can lease")
    worker_live_shards_max: int = _bound(1_000, "live shards of one worker")

    # review and landing
    land_slot_ms: int = _bound(2 * MINUTE_MS, "how long the right to move refs lives without being renewed")
    effect_timeout_ms: int = _bound(MINUTE_MS, "how long one effect under the land slot may take")
    send_backs_max: int = _bound(2, "send-backs over a task's life", least=0)
    refused_landings_max: int = _bound(8, "landings the remote may refuse before a publication is blocked")
    line_front_ms: int = _bound(DAY_MS, "time at the front of the line, summed, before a block")
    line_turns_max: int = _bound(3, "turns lost to unfinished checks before a block")
    overtakes_max: int = _bound(3, "changes that may land before the first in line", least=0)
    ci_deadline_ms: int = _bound(HOUR_MS, "how long the branch is kept for its first in line while checks run")
    confirm_ms: int = _bound(3 * SECOND_MS, "least time between the two readings that a block must agree on")
    backoff_min_ms: int = _bound(30 * SECOND_MS, "first back-off of a wait that no event will end")
    backoff_max_ms: int = _bound(30 * MINUTE_MS, "longest back-off of such a wait")
    reminder_ms: int = _bound(DAY_MS, "how often the owner of parked work is reminded")
    advance_looks_max: int = _bound(20, "looks at a branch in one advance")
    advance_ms_max: int = _bound(MINUTE_MS, "how long one advance may take before it rings again")
    review_tick_limit: int = _bound(50, "publications that all sweeps together advance in one tick")
    sweep_tick_ms: int = _bound(30 * SECOND_MS, "length of a tick of the sweep")
    ring_hold_ms: int = _bound(30 * SECOND_MS, "how long one ring of a branch's bell stands for further ones")
    ring_timeout_ms: int = _bound(100, "how long a ring may take before it is given up")

    # the outer world
    landing_calls_max: int = _bound(10, "GitHub calls for one landing, further pages not counted")
    github_timeout_ms: int = _bound(20 * SECOND_MS, "how long one GitHub call may take")
    git_timeout_ms: int = _bound(5 * MINUTE_MS, "how long a git operation may take before it is killed")

    # sizes
    webhook_body_bytes_max: int = _bound(25 * MEBIBYTE, "size of one webhook body")
    bundle_bytes_max: int = _bound(64 * MEBIBYTE, "size of one git bundle handed in by an executor")
    request_body_bytes_max: int = _bound(4 * MEBIBYTE, "size of any other request body")
    page_rows_max: int = _bound(200, "rows of one page of a list")
    long_poll_ms: int = _bound(25 * SECOND_MS, "how long a request for events may wait for one", least=0)

    # signals and retention
    tokens_without_publication_max: int = _bound(250_000, "tokens spent with nothing landed before a signal")
    command_failures_max: int = _bound(3, "terminal failures of one command within one task before a signal")
    stuck_review_ms: int = _bound(HOUR_MS, "how long a review may take before a signal")
    line_length_max: int = _bound(50, "changes waiting in one line before a signal")
    event_retention_ms: int = _bound(90 * DAY_MS, "how long events are kept; history is kept for ever")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for smaller, larger in _SHORTER_THAN:
            if getattr(self, smaller) >= getattr(self, larger):
                raise PydanticCustomError(
                    "bounds_contradict",
                    "{smaller} must be less than {larger}",
                    {"smaller": f"MAC_{smaller.upper()}", "larger": f"MAC_{larger.upper()}"},
                )
        return self

    def limits(self) -> Limits:
        """Those of the bounds that decisions depend on, in the words of the mind."""
        return Limits(
            send_backs_max=self.send_backs_max,
            refused_landings_max=self.refused_landings_max,
            front_ms_max=self.line_front_ms,
            ci_deadline_ms=self.ci_deadline_ms,
            confirm_ms=self.confirm_ms,
            environment_credits_max=self.environment_credits_max,
            passes_max=self.overtakes_max,
            yields_max=self.line_turns_max,
        )


_SHORTER_THAN = (
    ("effect_timeout_ms", "land_slot_ms"),  # else an effect could run beside the next holder's
    ("heartbeat_ms", "task_lease_ms"),  # a lease must see a heartbeat before it ends
    ("confirm_ms", "advance_ms_max"),  # both readings must fit into one advance
    ("backoff_min_ms", "backoff_max_ms"),
    ("ring_timeout_ms", "ring_hold_ms"),
)
