"""The sweep: finds what no bell told of. The ledger's next-look times are its only guide, so a lost ring costs latency.

One tick advances a bounded number of branches, registers what waits for it, takes expired leases back, and keeps the
mirrors within their bound. It runs the same `advance` as a ring does; without a broker it is the only one that does.
"""

import threading
from collections.abc import Callable
from functools import partial

import structlog

from ledger import leases, publication
from workers import publish, register
from workers.place import Place, name_gone

log = structlog.get_logger(__name__)


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


def run(place: Place, stop: threading.Event) -> None:
    """Tick until `stop` is set; in between the wait is the tick's length, and a stop ends it at once."""
    while not stop.is_set():
        guarded("tick", lambda: tick(place))
        stop.wait(place.bounds.sweep_tick_ms / 1000)


def guarded(what: str, work: Callable[[], object]) -> None:
    """Run one piece of the tick; whatever it raises is logged by name, and the tick goes on."""
    try:
        work()
    except Exception:
        log.exception("sweep_failed", what=what)
