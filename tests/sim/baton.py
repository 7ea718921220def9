"""The baton: many actors, one of them running, each of them stopped, woken, broken or killed exactly where we say.

An actor is a thread that runs only while it holds the baton. At every seam (a transaction, a git command that speaks to
the remote, a REST call, a ring) it gives the baton back once its grant is used up. So the order of everything is a
list that can be played again.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What the world does to the next effect of an actor."""

    LOST = "lost"  # it never arrives, and the caller is told that something failed
    ANSWER_LOST = "answer_lost"  # it takes effect, and the caller is told that something failed
    LATE = "late"  # the caller is told of a time-out; it takes effect later
    STALE = "stale"  # the answer is an older one
    LIMITED = "limited"  # the remote asks to wait


class Killed(BaseException):
    """The process is gone. It is no Exception: nothing in the product may catch it, and no seam works after it."""


@dataclass(slots=True)
class Actor:
    """One process: what it does, where it stands, what will happen to it."""

    name: str
    work: Callable[[], object]
    at: str = "start"
    grant: int = 0
    dead: bool = False
    ended: bool = False
    faults: list[Fault | None] = field(default_factory=list)
    struck: bool = False
    problem: BaseException | None = None
    inside: int = 0
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None


@dataclass(slots=True)
class Baton:
    """Who runs now. Without an actor (the main thread) every seam is open."""

    running: Actor | None = None
    seams: int = 0
    trace: list[str] | None = None
    _main: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(self, actor: Actor, grant: int) -> None:
        """Let the actor pass `grant` further seams, or end."""
        if actor.ended:
            return
        actor.grant = grant
        if actor.thread is None:
            actor.thread = threading.Thread(target=self._body, args=(actor,), name=actor.name, daemon=True)
            actor.thread.start()
        self.running = actor
        actor.turn.release()
        self._main.acquire()
        self.running = None

    def kill(self, actor: Actor) -> None:
        """The process is gone, at the seam where it stands; nothing of it has an effect any more."""
        actor.dead = True
        if actor.thread is None:
            actor.ended = True
        self.run(actor, 0)

    def seam(self, where: str) -> Fault | None:
        """Where the world may step in: gives the baton back when the grant is used up; what happens to the effect."""
        me = self.running
        if me is None:
            return None
        if me.dead:
            raise Killed
        me.at = where
        if not me.inside:
            if me.grant <= 0:
                self._main.release()
                me.turn.acquire()
                if me.dead:
                    raise Killed
            me.grant -= 1
        self.seams += 1
        if self.trace is not None:
            self.trace.append(f"    {me.name} passes {where}" + (f" ({me.faults[0]})" if any(me.faults[:1]) else ""))
        fault = me.faults.pop(0) if me.faults and not me.inside else None
        me.struck |= fault is not None
        return fault

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """A stretch in which the actor keeps the baton: a transaction excludes all others anyway."""
        me = self.running
        if me is None:
            yield
            return
        me.inside += 1
        try:
            yield
        finally:
            me.inside -= 1

    def _body(self, actor: Actor) -> None:
        actor.turn.acquire()
        try:
            if not actor.dead:
                actor.work()
        except Killed:
            pass
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the laws judge it
            actor.problem = problem
        finally:
            actor.ended = True
            self._main.release()
