"""What an event makes the ledger do: note the delivery once, and wake those whom it may concern.

Nothing is believed. Waking means that a worker will look at the remote soon, and a bell that is rung for nothing
costs one look.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import assert_never

from ledger import deliveries, projects, publication
from ledger.projects import Project
from ledger.session import Transaction
from pipeline.canonical import Json
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


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery as it came in; `guid` is GitHub's id of it, the same when it is sent again."""

    guid: str
    name: str
    body_sha256: str
    event: Event


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a delivery: `duplicate`: it was here before; `ignored`: there is nobody whom it concerns."""

    duplicate: bool
    ignored: bool


@dataclass(frozen=True, slots=True)
class Concern:
    """Whom to wake in a branch: those with this head or this pull request, or, with neither, all of them."""

    head: str | None = None
    pull_request: int | None = None


def take(tx: Transaction, delivery: Delivery) -> Taken:
    """Note the delivery and wake whom it concerns, in one transaction. A delivery that was here before does neither."""
    event = delivery.event
    new = deliveries.receive(
        tx,
        guid=delivery.guid,
        event=delivery.name,
        action=getattr(event, "action", None),
        body_sha256=delivery.body_sha256,
        hint=hint(event),
    )
    repositories = repositories_of(event)
    registered = [project for one in repositories for project in projects.of_repository(tx, one)]
    if new:
        for project in registered:
            _wake(tx, project, event)
        if repositories and not registered:
            deliveries.note_unregistered(tx, guid=delivery.guid, event=delivery.name, repository_id=repositories[0])
    return Taken(duplicate=not new, ignored=isinstance(event, Ignored) or bool(repositories and not registered))


def hint(event: Event) -> Mapping[str, Json]:
    """The event as it is stored: its kind and its identities."""
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(event).items()}
    return {"kind": type(event).__name__, **fields}


def repositories_of(event: Event) -> tuple[int, ...]:
    """The repositories that the event names."""
    match event:
        case Pushed() | PullRequestChanged() | HeadChecked() | RepositoryChanged() | Commented():
            return (event.repository_id,)
        case InstallationChanged():
            return event.repository_ids
        case Pinged() | Ignored():
            return ()
        case _:
            assert_never(event)


def concerns(event: Event, canonical_branch: str) -> Iterator[Concern]:
    """Whom the event may concern in a project with that canonical branch; nothing for what cannot matter.

    A push to another branch matters by its head only: whose branch it is will be said by the pull request's own event.
    """
    match event:
        case Pushed(branch=branch, head=head):
            if branch == canonical_branch:
                yield Concern()
            elif branch is not None and head is not None:
                yield Concern(head=head)
        case PullRequestChanged(number=number, head=head):
            yield Concern(head=head, pull_request=number)
        case HeadChecked(head=head):
            yield Concern(head=head)
        case RepositoryChanged() | InstallationChanged():
            yield Concern()
        case Commented() | Pinged() | Ignored():
            return
        case _:
            assert_never(event)


def _wake(tx: Transaction, project: Project, event: Event) -> None:
    for concern in concerns(event, project.canonical_branch):
        publication.wake(tx, project.branch_id, head=concern.head, pull_request=concern.pull_request)
