"""The referee's part of a test run: finds GitHub's description, adds up what all processes judged, and reports.

With `CI=true` a run in which a referee was off, or a test was skipped with a reason that begins with LOUD, fails.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import fetched, report, tally
from tests.sandbox.description import Description, load

LOUD = "LOUD: "
REPORT = pytest.StashKey["Report"]()


class Report:
    """Lives in the process that was started by hand; the others write their counts into its folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="referee-"))
        self.tests_s = 0.0
        self.loud: set[str] = set()
        self.whole = tally.Tally()
        os.environ[tally.FOLDER] = str(self.folder)
        found = fetched.description_folder() or _fetched()
        if found is not None:
            os.environ["SANDBOX_DESCRIPTION"] = str(found)
        self.description: Description | None = load(found) if found is not None else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up how long the tests took, and remembers what was skipped aloud."""
        self.tests_s += report.duration
        if report.skipped and isinstance(report.longrepr, tuple) and LOUD in report.longrepr[2]:
            self.loud.add(f"{report.nodeid}: {report.longrepr[2]}")

    @property
    def blind(self) -> bool:
        """Whether anything went unjudged in this run."""
        return self.description is None and bool(self.loud or self.whole.referees[tally.OFF])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Reads what all processes wrote; under CI a blind run has failed."""
        tally.keep()
        self.whole = tally.collected(self.folder)
        if self.blind and os.environ.get("CI") == "true" and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """The report, on the terminal and in a file of pytest's cache."""
        if not self.whole.referees and not self.loud:
            return
        told = list(report.lines(self.whole, self.description, self.tests_s))
        terminalreporter.section("referee")
        for line in told if config.get_verbosity() > 0 else told[-5:]:
            terminalreporter.write_line(line)
        for words in sorted(self.loud):
            terminalreporter.write_line(f"SKIPPED {words}", red=True)
        if self.blind and os.environ.get("CI") == "true":
            terminalreporter.write_line("CI=true, and a referee did not see everything: this run has failed", red=True)
        file = _file(config)
        if file is not None:
            file.write_text("\n".join(told) + "\n")
            terminalreporter.write_line(f"whole table: {file}")

    def pytest_unconfigure(self) -> None:
        """Leaves nothing behind."""
        os.environ.pop(tally.FOLDER, None)
        shutil.rmtree(self.folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """One report for a run, whatever the number of processes."""
    if not hasattr(config, "workerinput"):
        config.stash[REPORT] = made = Report()
        config.pluginmanager.register(made, "referee-report")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """A process of a distributed run hands over its counts."""
    if hasattr(session.config, "workerinput"):
        tally.keep()
    return (yield)


def _fetched() -> Path | None:
    """The description, brought here by npm; None, with a sentence aloud, where that is not possible."""
    from tests.sandbox import rest
    from tests.sandbox.endpoints import OPERATIONS

    assert rest.ROOMS, "importing them registers their operations"
    try:
        return fetched.fetch(frozenset((one.method, one.route) for one in OPERATIONS), fetched.cached())
    except fetched.NotFetched as why:
        print(f"referee: GitHub's description could not be fetched: {why}")  # noqa: T201 - before pytest's terminal is there
        return None


def _file(config: pytest.Config) -> Path | None:
    cache = getattr(config, "cache", None)
    return Path(cache.mkdir("referee")) / "report.txt" if cache is not None else None
