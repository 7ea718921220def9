"""One child process under a deadline: its own process group, bounded output, and nothing of it left when we return.

A child that hangs, floods us with output or leaves helpers behind must not outlive the call. The group is killed before
its leader is reaped, while the leader's id still belongs to it: no stranger can have got that id in the meantime.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

_CHUNK_BYTES = 65_536
_STDERR_MAX_BYTES = 32_768


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. `exit` is negative for a signal. `timed_out` and `flooded` mean that we killed its group."""

    exit: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    flooded: bool = False


def run_group(
    argv: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    timeout_ms: int,
    output_max_bytes: int,
) -> Ended:
    """Run the program to its end or its deadline and kill its whole process group in either case.

    Of stderr the last 32 KiB are kept. The caller's file descriptors are not inherited (Python marks them so). Raises
    `OSError` when the program cannot be started.
    """
    child = subprocess.Popen(
        list(argv),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        close_fds=False,
        bufsize=0,
    )
    pump = _Pump(child, stdin, time.monotonic() + timeout_ms / 1000, output_max_bytes)
    try:
        pump.run()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    return Ended(child.returncode, bytes(pump.stdout), bytes(pump.stderr), pump.timed_out, pump.flooded)


class _Pump:
    """Feeds stdin, drains stdout and stderr until all are closed and the leader has ended, or the deadline passed."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes, deadline: float, output_max_bytes: int) -> None:
        self.child = child
        self.deadline = deadline
        self.output_max_bytes = output_max_bytes
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.timed_out = False
        self.flooded = False
        self._rest = memoryview(stdin)

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(cast(IO[bytes], self.child.stdout), selectors.EVENT_READ)
            selector.register(cast(IO[bytes], self.child.stderr), selectors.EVENT_READ)
            if self.child.stdin is not None:
                os.set_blocking(self.child.stdin.fileno(), False)
                selector.register(self.child.stdin, selectors.EVENT_WRITE)
            while selector.get_map() and not self.flooded:
                ready = selector.select(max(0.0, self.deadline - time.monotonic()))
                if not ready:
                    self.timed_out = True
                    return
                for key, _ in ready:
                    self._move(selector, cast(IO[bytes], key.fileobj))
        if not self.flooded:
            self._await_leader()

    def _move(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        if stream is self.child.stdin:
            self._feed(selector, stream)
            return
        chunk = os.read(stream.fileno(), _CHUNK_BYTES)
        if not chunk:
            selector.unregister(stream)
        elif stream is self.child.stdout:
            self.stdout += chunk
            self.flooded = len(self.stdout) > self.output_max_bytes
        else:
            self.stderr += chunk
            del self.stderr[:-_STDERR_MAX_BYTES]

    def _feed(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        try:
            written = os.write(stream.fileno(), self._rest[:_CHUNK_BYTES])
        except BrokenPipeError:
            written = len(self._rest)
        except BlockingIOError:
            written = 0
        self._rest = self._rest[written:]
        if not self._rest:
            selector.unregister(stream)
            stream.close()

    def _await_leader(self) -> None:
        """The pipes are closed, so the leader is ending; it is looked at without reaping: its id stays taken."""
        while os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > self.deadline:
                self.timed_out = True
                return
            time.sleep(0.000_2)
