"""`mac-executor`: leases work from a hub, has one command do it, and hands in evidence.

It holds no right to write to a repository: it reads with a token for that one repository, and its commits travel to
the hub as a bundle under the lease. SIGTERM ends it in order: the command's process group is killed and the lease
given back.
"""

import contextlib
import fcntl
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

import click
from pydantic import ValidationError

from ledger.clock import wall_clock
from pipeline.errors import Rejected, Unavailable
from pipeline.refusals import Refusal
from workers.executor_attempt import WITHDRAWN, Attempt, Failed, Order
from workers.executor_heart import Heart
from workers.executor_hub import HubClient, Lease
from workers.executor_tree import Workshop
from workers.git import Git

IDLE_S = 5.0
OWN_VARIABLES = ("MAC_TOKEN", "MAC_TOKEN_FILE")
NOT_ALLOWED = {Refusal.TOKEN_MISSING, Refusal.TOKEN_UNKNOWN, Refusal.SCOPE_MISSING}


class Ended(BaseException):
    """SIGTERM or SIGINT arrived. No handler of ordinary failures may swallow it."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A worker for one hub: `work_once` takes one lease to its end, whatever that is."""

    hub: HubClient
    shop: Workshop
    order: Order
    environment: Mapping[str, str]
    projects: tuple[str, ...] = ()

    def work_once(self) -> bool | None:
        """True: evidence was handed in. False: the attempt failed and was released. None: there was nothing to do.

        Raises `Unavailable` when the hub does not answer, and `Rejected` when it does not let us in.
        """
        lease = self.hub.lease(list(self.projects))
        if lease is None:
            return None
        try:
            with Heart.start(self.hub, lease, self.environment) as heart:
                evidence = Attempt(lease, self.order, self.hub, self.shop, heart).perform()
        except Failed as failed:
            self._release(lease, failed)
            return False
        except Ended:
            self._release(lease, Failed(WITHDRAWN, "the executor was asked to end"))
            raise
        self.order.say(f"{lease.task} attempt {lease.attempt}: evidence {evidence}")
        return True

    def _release(self, lease: Lease, failed: Failed) -> None:
        """Give the lease back. If the hub is away or the lease is gone, its expiry does the same a little later."""
        self.order.say(f"{lease.task} attempt {lease.attempt}: {failed.failure}: {failed.sentence}")
        with contextlib.suppress(Unavailable, Rejected):
            self.hub.release(lease, failed.failure, failed.sentence, failed.code)


@click.command(context_settings={"ignore_unknown_options": False})
@click.option("--once", is_flag=True, help="Take one lease, then end: 0 evidence handed in, 1 not.")
@click.option("--project", "projects", multiple=True, help="Only work of this project (may be repeated).")
@click.option(
    "--workdir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("mac-executor"),
    show_default=True,
    help="Folder for mirrors and worktrees; one executor at a time.",
)
@click.option("--timeout-ms", type=click.IntRange(min=1), default=3_600_000, show_default=True)
@click.option("--hub-url", envvar="MAC_HUB_URL", required=True, help="MAC_HUB_URL")
@click.argument("command", nargs=-1, required=True)
def main(
    *, once: bool, projects: tuple[str, ...], workdir: Path, timeout_ms: int, hub_url: str, command: tuple[str, ...]
) -> None:
    """Work for a hub: run COMMAND in a worktree for each leased task (`mac-executor --once -- COMMAND ARG…`).

    The token is read from MAC_TOKEN. Exit: 0 done, 1 no evidence, 2 usage, 4 not allowed, 5 hub unreachable.
    """
    _end_on_signals()
    try:
        hub = HubClient.at(hub_url, _token(os.environ))
    except ValidationError as refused:
        raise click.BadParameter(refused.errors()[0]["msg"], param_hint="MAC_HUB_URL") from None
    with _alone_in(workdir.absolute()) as folder:
        executor = _executor(hub, folder, command, timeout_ms, projects)
        sys.exit(_loop(executor, once=once))


def _loop(executor: Executor, *, once: bool) -> int:
    while True:
        try:
            worked = executor.work_once()
        except Ended:
            return 0
        except Rejected as refused:
            _say(str(refused))
            return 4 if refused.refusal in NOT_ALLOWED else 1
        except Unavailable as away:
            _say(str(away))
            if once:
                return 5
            worked = None
        if once:
            return 0 if worked else 1
        if not worked:
            try:
                time.sleep(IDLE_S * (0.5 + random.random()))  # spread, so that idle executors do not ask together
            except Ended:
                return 0


def _executor(
    hub: HubClient, folder: Path, command: tuple[str, ...], timeout_ms: int, projects: tuple[str, ...]
) -> Executor:
    inherited = dict(os.environ)
    ours = {name: value for name, value in inherited.items() if name not in OWN_VARIABLES}
    theirs = {name: value for name, value in ours.items() if not name.startswith(("GIT_", "MAC_"))}
    order = Order(
        command=command,
        environment=theirs,
        clock=wall_clock,
        say=_say,
        command_timeout_ms=timeout_ms,
        version=_version(),
    )
    return Executor(hub, Workshop(folder, Git.prepared(folder / "git", inherited)), order, ours, projects)


def _token(environment: Mapping[str, str]) -> str:
    file = environment.get("MAC_TOKEN_FILE")
    token = Path(file).read_text(encoding="utf-8").strip() if file else environment.get("MAC_TOKEN", "")
    if not token:
        raise click.UsageError("the token of an executor is expected in MAC_TOKEN")
    return token


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[Path]:
    """The folder, ours until the block ends. A second executor in it is refused: they would undo each other's work."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.UsageError(f"another executor works in {folder}") from None
        yield folder


def _end_on_signals() -> None:
    def end(number: int, _frame: object) -> NoReturn:
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signal.SIG_IGN)  # the first one starts the orderly end; a second must not break it
        raise Ended(number)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)


def _version() -> str:
    try:
        return version("mac-hub")
    except PackageNotFoundError:
        return f"source ({platform.python_version()})"


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


if __name__ == "__main__":
    main()
