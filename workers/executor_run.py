"""One command of an attempt: its own process group, no shell, no stdin, a deadline, and a record of what it did.

How a command ended is known from the operating system alone: it exited, it could not be started, a signal ended it, or
we did at its deadline. Nothing is ever concluded from what it printed.
"""

import contextlib
import hashlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, cast

from workers.executor_heart import Heart

EXCERPT_HEAD_BYTES: Final = 4_096
EXCERPT_TAIL_BYTES: Final = 8_192
_CHUNK_BYTES: Final = 65_536


class Ending(StrEnum):
    """How a command came to its end."""

    EXITED = "exited"
    NOT_STARTED = "not_started"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"


class Interrupted(Exception):
    """The heart spoke while a command ran: its group is gone. `word` is `stop` or `lost`."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did. Instants are milliseconds; the excerpt is the beginning and the end of its output."""

    argv: tuple[str, ...]
    ending: Ending
    exit: int
    started_at: int
    ended_at: int
    output_sha256: str
    output_excerpt: str

    @property
    def failure(self) -> str | None:
        """None for exit 0, `work` for another exit of its own, `environment` for everything that was not its doing."""
        if self.ending is Ending.EXITED:
            return None if self.exit == 0 else "work"
        return "environment"

    @property
    def sentence(self) -> str:
        """How it ended, for people."""
        name = self.argv[0]
        match self.ending:
            case Ending.EXITED:
                return f"{name} exited with {self.exit}"
            case Ending.NOT_STARTED:
                return f"{name} could not be started: {self.output_excerpt}"
            case Ending.SIGNALLED:
                return f"{name} was ended by signal {-self.exit}"
            case Ending.TIMED_OUT:
                return f"{name} took longer than its time-out"


def run(
    argv: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    timeout_ms: int,
    heart: Heart,
    clock: Callable[[], int],
) -> Ran:
    """Run a command to its end or its deadline; whatever is left of its group is killed in every case.

    Raises `Interrupted` when the heart brings a stop order or has lost the lease.
    """
    started_at = clock()
    try:
        child = subprocess.Popen(
            list(argv),
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        record = Output()
        record.take((error.strerror or type(error).__name__).encode())
        return _ran(argv, (Ending.NOT_STARTED, 127), (started_at, clock()), record)
    record, timed_out = Output(), False
    try:
        heart.guard(child.pid)
        timed_out = _watch(child, record, heart, time.monotonic() + timeout_ms / 1000)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # before it is reaped, while its id is certainly its own
        heart.guard(0)
        child.wait()
        cast(IO[bytes], child.stdout).close()
    ending = Ending.TIMED_OUT if timed_out else Ending.SIGNALLED if child.returncode < 0 else Ending.EXITED
    return _ran(argv, (ending, child.returncode), (started_at, clock()), record)


def _watch(child: subprocess.Popen[bytes], record: "Output", heart: Heart, deadline: float) -> bool:
    """Take the output until the command itself has ended; True when its deadline came first."""
    pipe = cast(IO[bytes], child.stdout).fileno()
    os.set_blocking(pipe, False)
    ended = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for source in (pipe, ended, heart.fileno()):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(max(0.0, deadline - time.monotonic()))}
                word = heart.word() if heart.fileno() in ready else None
                if word is not None:
                    raise Interrupted(word)
                if pipe in ready and not _drain(pipe, record):
                    selector.unregister(pipe)
                if ended in ready:
                    _drain(pipe, record)
                    return False
                if time.monotonic() >= deadline:
                    return True
    finally:
        os.close(ended)


def _drain(pipe: int, record: "Output") -> bool:
    """Take what is there now; False at the end of the output."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):  # then look at the clock and the heart again, however much it prints
            chunk = os.read(pipe, _CHUNK_BYTES)
            if not chunk:
                return False
            record.take(chunk)
    return True


class Output:
    """The digest of everything that was printed, and its beginning and end."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._head = bytearray()
        self._tail = bytearray()
        self._size_bytes = 0

    def take(self, chunk: bytes) -> None:
        """The next piece."""
        self._sha256.update(chunk)
        self._size_bytes += len(chunk)
        room = EXCERPT_HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-EXCERPT_TAIL_BYTES]

    def digest(self) -> str:
        """SHA-256 of all of it, in hex."""
        return self._sha256.hexdigest()

    def excerpt(self) -> str:
        """Beginning and end as text, with the count of bytes left out between them."""
        left_out = self._size_bytes - len(self._head) - len(self._tail)
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", "replace").replace("\0", "\ufffd")


def _ran(argv: Sequence[str], end: tuple[Ending, int], span: tuple[int, int], record: Output) -> Ran:
    return Ran(tuple(argv), *end, *span, record.digest(), record.excerpt())
