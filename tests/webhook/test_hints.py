"""Where an event makes the hub look, and what it leaves alone."""

from dataclasses import asdict

import pytest

from ledger.deliveries import Hint
from webhook.events import (
    Commented,
    Event,
    HeadChecked,
    Ignored,
    InstallationChanged,
    Pinged,
    PullRequestChanged,
    Pushed,
    RepositoryChanged,
)
from webhook.hints import hint


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Pushed(7, "main", "a" * 40), Hint(7, branch="main", head="a" * 40)),
        (Pushed(7, "mac/x", None), Hint(7, branch="mac/x")),
        (PullRequestChanged(7, 4, "b" * 40, "closed"), Hint(7, head="b" * 40, pull_request=4)),
        (HeadChecked(7, "c" * 40, "completed"), Hint(7, head="c" * 40)),
        (RepositoryChanged(7, "edited"), Hint(7, everything=True)),
        (InstallationChanged(3, (7,), "added"), Hint(7, everything=True)),
    ],
)
def test_an_event_says_where_to_look(event: Event, expected: Hint) -> None:
    assert hint(event) == expected


@pytest.mark.parametrize(
    "event",
    [
        Pushed(7, None, "a" * 40),
        HeadChecked(7, "c" * 40, "created", running=True),
        Commented(7, 4, on_pull_request=True, action="created"),
        InstallationChanged(3, (), "suspend"),
        InstallationChanged(3, (7, 8), "created"),
        Pinged(),
        Ignored("star"),
    ],
)
def test_what_concerns_no_waiting_work_says_nothing(event: Event) -> None:
    assert hint(event) is None


def test_what_was_done_is_never_part_of_a_hint() -> None:
    told = asdict(hint(PullRequestChanged(7, 4, "b" * 40, "closed")) or Hint())
    assert "closed" not in told.values()
