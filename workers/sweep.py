"""The sweep: finds what no bell told of. The ledger's next-look times are its only guide, so a lost ring costs latency.

One tick advances a bounded number of branches, registers what waits for it, takes expired leases back, and keeps the
mirrors within their bound. It runs the same `advance` as a ring does; without a broker it is the only one that does.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from ledger import leases, publication
from workers import publish, register
from workers.place import Place, name_gone

log = structlog.get_logger(__name__)

MOMENT_STEP_MS: Final = 1_000
MOMENTS_MAX: Final = 20


def tick(place: Place) -> int:
    """One pass: how many branches were advanced. A branch that fails is logged and starves no other one."""
    guarded("reclaim", lambda: leases.reclaim(place.ledger))
    guarded("free_abandoned", lambda: publication.free_abandoned(place.ledger, name_gone))
    guarded("register", lambda: register.register_waiting(place))
    guarded("evict", place.mirrors.evict)
    guarded("tidy", place.mirrors.tidy)
    branches = publication.due_branches(place.ledger, place.bounds.review_tick_limit)
    for branch_id in branches:
        guarded("advance", partial(publish.advance_branch, place, branch_id))
    return len(branches)


def between_ticks(place: Place) -> int:
    """Advance the branches where a named moment has come; how many. Nothing else is done between two ticks."""
    branches = publication.at_their_moment(place.ledger, MOMENTS_MAX)
    for branch_id in branches:
        guarded("advance", partial(publish.advance_branch, place, branch_id))
    return len(branches)


def run(place: Place, stop: threading.Event) -> None:
    """Tick until `stop` is set. Between two ticks only named moments are kept, by one cheap question a second; a stop ends
    the wait at once."""
    while not stop.is_set():
        guarded("tick", lambda: tick(place))
        for _ in range(max(1, place.bounds.sweep_tick_ms // MOMENT_STEP_MS)):
            if stop.wait(MOMENT_STEP_MS / 1000):
                return
            guarded("between_ticks", lambda: between_ticks(place))


def guarded(what: str, work: Callable[[], object]) -> None:
    """Run one piece of the tick; whatever it raises is logged by name, and the tick goes on."""
    try:
        work()
    except Exception:
        log.exception("sweep_failed", what=what)
