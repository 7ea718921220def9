"""The heart of an attempt: a process of its own that keeps the lease alive while the executor works.

It beats whatever the executor is busy with, and it dies with it: its stdin is a pipe that only the executor holds
open. If that pipe closes without a farewell, the executor is gone, and the heart kills the command that it left behind.
A stop order or a lost lease is said on stdout, in one word, where the executor waits for it beside the command's
output.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Final, Self, cast

from pipeline.errors import Rejected, Unavailable
from workers.executor_hub import HubClient, Lease

STOP: Final = "stop"
LOST: Final = "lost"
_FAREWELL: Final = "farewell"


class Heart:
    """The executor's end: started with the lease, told which process group to guard, asked for its word."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._word: str | None = None
        os.set_blocking(self.fileno(), False)

    @classmethod
    def start(cls, hub: HubClient, lease: Lease, environment: Mapping[str, str]) -> Self:
        """Begin to beat. The tokens travel over the pipe; neither is in an argument list or a file."""
        process = subprocess.Popen(
            [sys.executable, "-m", "workers.executor_heart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,  # a signal to the executor's group must not silence the heart before its time
            bufsize=0,
        )
        heart = cls(process)
        heart._tell(
            json.dumps(
                {
                    "url": hub.url,
                    "token": hub.token,
                    "lease": lease.id,
                    "lease_token": lease.token,
                    "beat_in_ms": lease.beat_in_ms,
                    "expires_in_ms": lease.expires_in_ms,
                }
            )
        )
        return heart

    def fileno(self) -> int:
        """What becomes readable when there is a word."""
        return cast(IO[bytes], self._process.stdout).fileno()

    def guard(self, group: int) -> None:
        """From now on this process group is killed if the executor dies; 0 means none."""
        self._tell(f"guard {group}")

    def word(self) -> str | None:
        """`stop`, `lost`, or None while all is well. A heart that died without a word has lost the lease."""
        if self._word is None:
            with contextlib.suppress(BlockingIOError):
                said = os.read(self.fileno(), 64).decode()
                self._word = said.strip() or LOST
        return self._word

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._tell(_FAREWELL)
        for stream in (self._process.stdin, self._process.stdout):
            cast(IO[bytes], stream).close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            cast(IO[bytes], self._process.stdin).write(line.encode() + b"\n")


class _Ear:
    """The heart's end of the pipe: lines as they come, and the moment when the executor is gone."""

    def __init__(self) -> None:
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ)

    def listen(self, for_s: float) -> list[str]:
        """The lines that came within the time. Raises `EOFError` when the other end is closed."""
        if not self._selector.select(max(0.0, for_s)):
            return []
        chunk = os.read(0, 65_536)
        if not chunk:
            raise EOFError
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode() for line in lines]


class _Beating:
    """Beats until it is dismissed. A hub that does not answer is asked again until the lease must have ended."""

    def __init__(self, order: Mapping[str, str | int], ear: _Ear) -> None:
        self._hub = HubClient.at(str(order["url"]), str(order["token"]), tries_max=1)
        self._lease, self._lease_token = str(order["lease"]), str(order["lease_token"])
        self._beat_s = int(order["beat_in_ms"]) / 1000
        self._good_until = time.monotonic() + int(order["expires_in_ms"]) / 1000
        self._ear = ear
        self._group = 0
        self._silent = False

    def run(self) -> None:
        try:
            while not self._dismissed():
                if not self._silent:
                    self._beat()
        except EOFError:
            if self._group:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._group, signal.SIGKILL)

    def _dismissed(self) -> bool:
        """Listen until the next beat is due."""
        due = time.monotonic() + self._beat_s
        while (left := due - time.monotonic()) > 0:
            for line in self._ear.listen(left):
                if line == _FAREWELL:
                    return True
                self._group = int(line.removeprefix("guard "))
        return False

    def _beat(self) -> None:
        asked_at = time.monotonic()
        try:
            beat = self._hub.heartbeat(self._lease, self._lease_token)
        except Rejected:
            self._say(LOST)
        except Unavailable:
            if time.monotonic() >= self._good_until:
                self._say(LOST)
        else:
            self._good_until = asked_at + beat.expires_in_ms / 1000
            if beat.order == STOP:
                self._say(STOP)

    def _say(self, word: str) -> None:
        """Say it once; there is nothing to beat for afterwards, but the command is still guarded."""
        self._silent = True
        with contextlib.suppress(BrokenPipeError):
            os.write(1, word.encode() + b"\n")


def main() -> None:
    """Read the order from stdin, then beat."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ear = _Ear()
    lines: list[str] = []
    with contextlib.suppress(EOFError):
        while not lines:
            lines = ear.listen(60)
        _Beating(json.loads(lines[0]), ear).run()


if __name__ == "__main__":
    main()
