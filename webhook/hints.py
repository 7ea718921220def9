"""From an event to the ledger's hint: where to look, or None for what concerns no waiting work.

Nothing is believed. A bell that is rung for nothing costs one look, a hint that is lost costs some latency.
"""

from typing import assert_never

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


def hint(event: Event) -> Hint | None:
    """Where an event says to look.

    A check that begins is worth no look: nobody waits for a beginning, and a head has dozens of them. A delivery is one
    hint for one repository. A change of access to several at once has none: each of them is found by its next
    look, as everything is that no delivery told of.
    """
    match event:
        case Pushed(branch=None) | Commented() | Pinged() | Ignored():
            return None
        case Pushed():
            return Hint(event.repository_id, branch=event.branch, head=event.head)
        case PullRequestChanged():
            return Hint(event.repository_id, head=event.head, pull_request=event.number)
        case HeadChecked(running=True):
            return None
        case HeadChecked():
            return Hint(event.repository_id, head=event.head)
        case RepositoryChanged():
            return Hint(event.repository_id, everything=True)
        case InstallationChanged(repository_ids=(only,)):
            return Hint(only, everything=True)
        case InstallationChanged():
            return None
        case _:
            assert_never(event)
