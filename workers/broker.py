"""The hub's own broker: one server process on a unix socket, alive exactly as long as it is wanted.

The folder's lock is inherited by the server and held by nobody else once it runs. So "the lock is free" means "no
server lives on this folder", whatever was killed and in which order: two servers never write one append-only file,
and no process id, which the system may give to another, decides anything about it.
"""

import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from redis.exceptions import RedisError

from ledger.settings import BrokerMode
from workers.broker_program import BrokerRefused, Program, check, client, find_in_wheel, find_on_path

_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0
_LOOK_EVERY_S = 0.02
_SOCKET_PATH_BYTES_MAX = 103  # the smallest limit among the systems we run on, less the closing zero

# Asks the kernel to end the server with its parent, then becomes the server. A program of its own, because code run
# between fork and exec in a process with threads may deadlock. A parent that is gone already is noticed by its id.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the hub is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class _Process:
    """A process that cannot be mistaken for a later one with the same id."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return cls(pid, text.rpartition(")")[2].split()[19])  # field 22; the name before it may hold anything


@dataclass(frozen=True)
class Broker:
    """A broker that may be relied on. `adopted`: it was running already, or is somebody else's.

    As a context manager it stops at the end. On Linux a server started here also ends when the *thread* that
    started it ends, however that happens: start it from the main thread.
    """

    url: str
    adopted: bool
    _child: subprocess.Popen[bytes] | None = None
    _ours: bool = False

    @classmethod
    def start(cls, home: Path, mode: BrokerMode = "auto", redis_url: str | None = None) -> Self:
        """The broker for `home`: the one at `redis_url`, or one that lives in `home/broker` and is started if needed.

        A server found alive in the folder is adopted; what was pushed before a crash is still there. Raises
        BrokerRefused when there is none to rely on; a server started in vain does not stay.
        """
        if mode == "url" or (mode == "auto" and redis_url):
            if not redis_url:
                raise BrokerRefused("broker_not_found", "MAC_BROKER is url, but MAC_REDIS_URL is not set")
            check(redis_url)
            return cls(redis_url, adopted=True)
        folder = _private_folder(home / "broker")
        url = f"unix://{quote(str(_socket_path(folder)))}?db=0"
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _taken(lock):
                return cls._adopt(folder, url)
            return cls._launch(folder, url, _find(mode), lock)
        finally:
            os.close(lock)  # the server's copy is the one that counts

    @classmethod
    def _adopt(cls, folder: Path, url: str) -> Self:
        _wait_until_answering(url, lambda: True, folder)
        check(url)
        return cls(url, adopted=True, _ours=_owner_is_gone(folder))

    @classmethod
    def _launch(cls, folder: Path, url: str, program: Program, lock: int) -> Self:
        child = _spawn(folder, program, lock)
        try:
            _wait_until_answering(url, lambda: child.poll() is None, folder)
            check(url)
            _write_owner(folder, child.pid)
        except BaseException:
            _end(child)
            raise
        return cls(url, adopted=False, _child=child, _ours=True)

    def is_alive(self) -> bool:
        """Whether it answers now. When not, `start` again: it restarts a server that crashed."""
        if self._child is not None:
            self._child.poll()  # else a server that crashed would stay on as a zombie
        return _answers(self.url)

    def stop(self) -> None:
        """Ends the server if it is ours, with all it holds on disk. Somebody else's is left alone. Never raises."""
        if self._child is not None:
            _end(self._child)
        elif self._ours:
            with suppress(RedisError, OSError), client(self.url) as asked:  # it may have ended already
                asked.shutdown(nosave=True)  # the append-only file is complete; there is no snapshot to write

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _find(mode: BrokerMode) -> Program:
    finders: dict[str, tuple[Callable[[], Program | None], ...]] = {
        "path": (find_on_path,),
        "wheel": (find_in_wheel,),
    }
    for find in finders.get(mode, (find_on_path, find_in_wheel)):
        if (program := find()) is not None:
            return program
    raise BrokerRefused(
        "broker_not_found",
        "no valkey-server or redis-server of version 6.2 or later was found; install one, or the `embedded` extra, "
        "or set MAC_REDIS_URL",
    )


def _spawn(folder: Path, program: Program, lock: int) -> subprocess.Popen[bytes]:
    socket_path = _socket_path(folder)
    socket_path.unlink(missing_ok=True)  # we hold the lock, so nobody listens on it
    options = {
        "--port": "0",
        "--unixsocket": str(socket_path),
        "--unixsocketperm": "700",
        "--dir": str(folder),
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--save": "",
        "--maxmemory-policy": "noeviction",
        "--daemonize": "no",
    }
    server = [str(program.path), *(word for pair in options.items() for word in pair)]
    with (folder / "broker.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *server],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # an interrupt at the terminal is the hub's to answer
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Asks the server to stop, which writes out its file; one that does not stop is killed."""
    child.terminate()
    try:
        child.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _wait_until_answering(url: str, may_still_come: Callable[[], bool], folder: Path) -> None:
    give_up_at = time.monotonic() + _START_TIMEOUT_S
    while not _answers(url):
        if not may_still_come() or time.monotonic() > give_up_at:
            raise BrokerRefused("broker_not_started", f"the broker did not start; see {folder / 'broker.log'}")
        time.sleep(_LOOK_EVERY_S)


def _answers(url: str) -> bool:
    try:
        with client(url) as asked:
            return bool(asked.ping())
    except (RedisError, OSError):
        return False


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _private_folder(folder: Path) -> Path:
    """The folder, made if needed, for us alone: whoever can reach the socket can order the workers about."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise BrokerRefused("broker_folder_unsafe", f"{folder} is not a folder of this user")
    folder.chmod(0o700)
    return folder


def _socket_path(folder: Path) -> Path:
    """A path for the socket that every system takes: in the folder, or where that is too long, in a short one."""
    path = folder / "broker.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        return path
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return _private_folder(Path(tempfile.gettempdir()) / f"mac-hub-{os.getuid()}-{digest}") / "broker.sock"


def _write_owner(folder: Path, pid: int) -> None:
    """Notes the server and who started it, for people and for whoever adopts it."""
    both = {"server": _Process.of(pid), "owner": _Process.of(os.getpid())}
    text = json.dumps({role: vars(process) if process else None for role, process in both.items()})
    new = folder / "broker.pid.new"
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(folder / "broker.pid")


def _owner_is_gone(folder: Path) -> bool:
    """Whether whoever started the server is provably gone, so that stopping it falls to its adopter."""
    try:
        owner = json.loads((folder / "broker.pid").read_text(encoding="utf-8"))["owner"]
        noted = _Process(owner["pid"], owner["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return _Process.of(noted.pid) != noted
