"""The programs of the demo as processes: started by name, ended by their own process objects, their talk kept in files."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(sys.executable).parent
END_S = 25.0


class DemoFailed(Exception):
    """Something went differently than it must."""


@dataclass
class Programs:
    """What runs for the demo, in one folder."""

    folder: Path
    root: Path
    running: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)

    def start(self, name: str, argv: list[str], environment: Mapping[str, str] | None = None) -> Path:
        """Start a program in the background; the file that keeps what it says."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as kept:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=kept,
                stderr=kept,
                env=self._environment(environment),
                cwd=self.root,
            )
        self.running.append((name, process))
        return log

    def ready_line(self, log: Path, timeout_s: float = 20) -> dict[str, Any]:
        """The first line of JSON that a program prints once it serves."""

        def found() -> dict[str, Any] | None:
            lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
            return dict(json.loads(lines[0])) if lines else None

        line: dict[str, Any] = until(found, f"{log.stem} to be ready", timeout_s, self.check)
        return line

    def run(self, name: str, argv: list[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program to its end; its stdout. Raises `DemoFailed` with its last words when it does not end with 0."""
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment(environment),
            timeout=180,
            check=False,
            cwd=self.root,
        )
        with (self.folder / f"{name}.log").open("a") as kept:
            kept.write(done.stderr)
        if done.returncode != 0:
            raise DemoFailed(f"{name} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}")
        return done.stdout

    def refused(self, argv: list[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program that must not end with 0; what it says on stderr."""
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment(environment),
            timeout=60,
            check=False,
            cwd=self.root,
        )
        if done.returncode == 0:
            raise DemoFailed(f"{' '.join(argv[1:4])} was not refused")
        return done.stderr.strip()

    def check(self) -> None:
        """Raises `DemoFailed` when a program in the background has ended."""
        for name, process in self.running:
            if process.poll() is not None:
                raise DemoFailed(f"{name} ended with {process.returncode}; see {self.folder / name}.log")

    def end(self) -> None:
        """End everything that was started, the last first."""
        for _, process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.running.clear()

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """Nothing of this machine's own settings reaches the demo's programs."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAC_", "GIT_"))}
        return {**kept, "TZ": "UTC", "PYTHONUNBUFFERED": "1", **(more or {})}


def until(ask: Callable[[], Any], what: str, timeout_s: float, check: Callable[[], None]) -> Any:
    """Ask until there is an answer. Raises `DemoFailed` at the deadline, or when a program has ended meanwhile."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = ask()
        if found:
            return found
        check()
        time.sleep(0.05)
    raise DemoFailed(f"waited {timeout_s:.0f} s for {what}")


def http(method: str, url: str, body: Mapping[str, Any] | None = None, token: str = "") -> Any:
    """One HTTP request with JSON both ways. Raises `DemoFailed` for a refusal."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, method=method, headers={"Content-Type": "application/json"})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            said = answer.read()
            return json.loads(said) if said else None
    except urllib.error.HTTPError as refused:
        raise DemoFailed(f"{method} {url}: {refused.code} {refused.read()[:300]!r}") from refused
    except urllib.error.URLError as away:
        raise DemoFailed(f"{method} {url}: {away.reason}") from away
