"""Where the hands work: everything that an advance needs, wired once for each process and handed down as a value."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ledger.bounds import Bounds
from ledger.session import Ledger
from ledger.slot import Holder
from pipeline.retry import BackOff
from pipeline.signing import SigningKey
from workers.clone import Mirrors
from workers.forge import AppKey

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Place:
    """One process's hands. `jitter` gives a number in [0, 1); `now` is the ledger's time in milliseconds, never the
    host's: what a look read and when is compared with what the ledger wrote and when."""

    ledger: Ledger
    mirrors: Mirrors
    github: AppKey
    github_url: str
    key: SigningKey
    holder: Holder
    revision: str
    bounds: Bounds
    now: Callable[[], int]
    jitter: Callable[[], float]

    @property
    def back_off(self) -> BackOff:
        """The bounds of a wait without an event."""
        return BackOff(self.bounds.backoff_min_ms, self.bounds.backoff_max_ms)

    @property
    def name(self) -> str:
        """This process, as the looks that it takes name it."""
        return holder_name(self.holder)


def this_process() -> Holder:
    """Who we are on this host: a process id alone is used again, its start time on this boot is not."""
    return Holder(socket.gethostname(), boot_id(), os.getpid(), process_started_at(os.getpid()) or 0)


def gone(holder: Holder) -> bool:
    """Whether that process is provably gone: another boot of this host, or no process with its id and start time."""
    if holder.host != socket.gethostname():
        return False
    return holder.boot_id != boot_id() or process_started_at(holder.pid) != holder.started_at


def holder_name(holder: Holder) -> str:
    """A process in one word, as `name_gone` reads it back."""
    return f"{holder.host}|{holder.boot_id}|{holder.pid}|{holder.started_at}"


def name_gone(name: str) -> bool:
    """Whether the process of that name is provably gone; of a name that cannot be read nothing is known."""
    words = name.split("|")
    if len(words) != 4 or not (words[2].isdecimal() and words[3].isdecimal()):
        return False
    return gone(Holder(words[0], words[1], int(words[2]), int(words[3])))


@cache
def boot_id() -> str:
    """The id of this boot; empty where the system does not tell, so that nothing is ever proven by it."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def process_started_at(pid: int) -> int | None:
    """When a process started, in ticks since the boot, or None when there is none (a zombie counts as none)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])
