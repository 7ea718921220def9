"""Starts one PostgreSQL, says its URL, and stops it when nobody uses it any more: `keeper BINARIES FOLDER`.

It takes no connection from the network: its socket lies in a folder that only its own user and root can enter. As
root, which PostgreSQL refuses to run as, it runs the server as an unprivileged user.
"""

import fcntl
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CALM = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200")
USERS = ("postgres", "nobody")
READY_S = 60
MEMORY = Path("/dev/shm")
ROOM_BYTES = 1024**3


def main(binaries: Path, shared: Path) -> int:
    """Run until the last user has let go of the lock. Exit 1 when the server does not start."""
    user = _unprivileged() if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="mac-test-pg-", dir=_quickest_folder()))
    try:
        if user is not None:
            os.chown(home, user.pw_uid, user.pw_gid)
            binaries = _reachable(binaries, home)
        return _serve(binaries, home, shared, user)
    finally:
        shutil.rmtree(home)


def _serve(binaries: Path, home: Path, shared: Path, user: pwd.struct_passwd | None) -> int:
    identity: dict[str, Any] = {}
    if user is not None:
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    data, quiet = home / "data", subprocess.DEVNULL
    made = [str(binaries / "initdb"), "-D", str(data), "-U", "mac", "-A", "trust", "-E", "UTF8", "-N", "--no-locale"]
    subprocess.run(made, cwd=home, env=environment, check=True, stdout=quiet, timeout=READY_S, **identity)
    settings = [*CALM, f"unix_socket_directories={home}", "listen_addresses="]
    argv = [str(binaries / "postgres"), "-D", str(data), *(word for one in settings for word in ("-c", one))]
    server = subprocess.Popen(argv, cwd=home, env=environment, stdin=quiet, stdout=quiet, **identity)
    try:
        url = f"postgresql+psycopg://mac@/postgres?host={home}"
        _until_ready(data, server)
        (shared / "server.url").write_text(url)
        with (shared / "users.lock").open("a") as users:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            fcntl.flock(users, fcntl.LOCK_EX)
            (shared / "server.url").unlink(missing_ok=True)
            (shared / "template").unlink(missing_ok=True)
            return _stop(server)
    finally:
        _stop(server)


def _until_ready(data: Path, server: "subprocess.Popen[bytes]") -> None:
    """The server writes `ready` into the last line of its own file once it takes connections."""
    ended = os.pidfd_open(server.pid)
    try:
        watched = select.poll()
        watched.register(ended, select.POLLIN)
        for _ in range(READY_S * 50):
            status = (data / "postmaster.pid").read_text() if (data / "postmaster.pid").exists() else ""
            if status.splitlines()[7:8] == ["ready   "]:
                return
            if watched.poll(20):
                break
    finally:
        os.close(ended)
    raise RuntimeError("the server did not become ready")


def _stop(server: "subprocess.Popen[bytes]") -> int:
    if server.poll() is None:
        server.send_signal(signal.SIGINT)  # ends its sessions and writes nothing half
    server.wait(READY_S)
    return 0


def _unprivileged() -> pwd.struct_passwd:
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


def _quickest_folder() -> Path:
    """Memory, where there is plenty: a database of its own for each test is a copy of some hundred files."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return MEMORY if roomy else Path(tempfile.gettempdir())


def _reachable(binaries: Path, home: Path) -> Path:
    """The same binaries where everybody can execute them: a copy, if they lie behind a closed folder. Those of a wheel
    find their libraries beside its package."""
    if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (binaries, *binaries.parents)):
        return binaries
    package = binaries.parent.parent
    libraries = package.parent / f"{package.name}.libs"
    shutil.copytree(binaries.parent, home / "program" / package.name / binaries.parent.name, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, home / "program" / libraries.name, symlinks=True)
    return home / "program" / package.name / binaries.parent.name / binaries.name


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
