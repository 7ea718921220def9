"""Misbehaviour on order: the next requests that match are answered wrongly, late, twice removed, or not at all.

An order is for a method and a path pattern and is used up by count. Git counts too: its paths are
`/{owner}/{repo}.git/git-receive-pack` and the like. An order that was never used is a fault of the test.
"""

import fnmatch
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

LONGEST_HOLD_S = 300.0


@dataclass
class Order:
    """One order. `status` None leaves the true answer; `apply` False keeps the request from having any effect.

    `hold` waits for `release()` before the request is applied, or after that and before it is answered.
    `drop` closes the connection instead of answering. `stale` repeats the last answer that this URL gave.
    `skip` lets that many matching requests through first. `malformed` says that the made-up answer is not one that
    GitHub would give; all others are held against its description.
    """

    id: int
    method: str
    path: str
    times: int
    skip: int = 0
    apply: bool = True
    status: int | None = None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hold: Literal["before", "after"] | None = None
    delay_ms: int = 0
    drop: bool = False
    stale: bool = False
    malformed: bool = False
    used: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Lets held requests go on."""
        self.released.set()

    def wait_reached(self, timeout_s: float) -> bool:
        """Waits until a request stands at the hold; False if none came in time."""
        return self.reached.wait(timeout_s)

    def stand(self, where: Literal["before", "after"]) -> None:
        if self.hold == where:
            self.reached.set()
            self.released.wait(LONGEST_HOLD_S)


class OrderBook:
    """All orders of a sandbox, first come first used."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self._lock = threading.Lock()
        self._ids: Iterator[int] = itertools.count(1)

    def add(self, method: str, path: str, times: int = 1, **what: Any) -> Order:
        """Places an order; `path` is a pattern with `*`, matched against the path as it was asked for."""
        with self._lock:
            order = Order(next(self._ids), method.upper(), path, times, **what)
            self.orders.append(order)
        return order

    def take(self, method: str, path: str) -> Order | None:
        """The order that this request uses up, if there is one."""
        with self._lock:
            for order in self.orders:
                if order.used >= order.times or order.method not in (method, "*"):
                    continue
                if not fnmatch.fnmatchcase(path, order.path):
                    continue
                if order.skip > 0:
                    order.skip -= 1
                    return None
                order.used += 1
                return order
        return None

    def unused(self) -> list[Order]:
        return [order for order in self.orders if order.used < order.times]

    def assert_used(self) -> None:
        """Raises AssertionError if any order was not used up."""
        left = [f"{o.method} {o.path}: {o.used} of {o.times}" for o in self.unused()]
        assert not left, f"orders not used: {left}"

    def release_all(self) -> None:
        for order in self.orders:
            order.release()

    def answer(self, method: str, path: str, status: int, body: Any = None, times: int = 1, **what: Any) -> Order:
        """The next requests get this answer and have no effect."""
        return self.add(method, path, times, status=status, body=body, apply=False, **what)

    def apply_then_answer(self, method: str, path: str, status: int, times: int = 1, **what: Any) -> Order:
        """The next requests take effect, and are answered as if they had not."""
        return self.add(method, path, times, status=status, body={"message": "Server Error"}, **what)

    def held(self, method: str, path: str, when: Literal["before", "after"] = "after") -> Order:
        """The next request stands still until it is released."""
        return self.add(method, path, 1, hold=when)

    def dropped(self, method: str, path: str, times: int = 1, apply: bool = True) -> Order:
        """The next requests lose their connection instead of an answer."""
        return self.add(method, path, times, drop=True, apply=apply)

    def stale(self, method: str, path: str, times: int = 1) -> Order:
        """The next reads get the answer that the same URL gave last."""
        return self.add(method, path, times, stale=True)


