"""GitHub's deliveries as small typed events: where to look, and nothing of what was said there.

A payload is a hint. It names a repository, a commit, a branch or a pull request; what is true of them is read
from the remote later. So an event carries identities only, and nobody can act on a payload's word by mistake.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from pipeline.errors import Rejected
from pipeline.facts import Sha
from pipeline.refusals import Refusal

Payload: TypeAlias = Mapping[str, object]

ABSENT_SHA = "0" * 40
BRANCH_PREFIX = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A ref moved. `branch` is None for a tag, `head` is None where the ref was deleted."""

    repository_id: int
    branch: str | None
    head: Sha | None


@dataclass(frozen=True, slots=True)
class PullRequestChanged:
    """A pull request or a review of it changed; `head` is its head when the delivery was sent."""

    repository_id: int
    number: int
    head: Sha
    action: str


@dataclass(frozen=True, slots=True)
class HeadChecked:
    """A check run, a check suite or a commit status changed on a commit. `running`: it says that it has not ended yet,
    and whoever waits for its end has nothing to look at."""

    repository_id: int
    head: Sha
    action: str
    running: bool = False


@dataclass(frozen=True, slots=True)
class RepositoryChanged:
    """The repository, or a rule on its branches, changed: whatever waits there has to be looked at again."""

    repository_id: int
    action: str


@dataclass(frozen=True, slots=True)
class InstallationChanged:
    """The App's access changed. `repository_ids`: those that are listed; empty: the whole installation."""

    installation_id: int
    repository_ids: tuple[int, ...]
    action: str


@dataclass(frozen=True, slots=True)
class Commented:
    """A comment on an issue or a pull request was written, edited or deleted. Its text is not carried."""

    repository_id: int
    number: int
    on_pull_request: bool
    action: str


@dataclass(frozen=True, slots=True)
class Pinged:
    """GitHub tried the address."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that this version has no use for."""

    name: str


Event: TypeAlias = (
    Pushed | PullRequestChanged | HeadChecked | RepositoryChanged | InstallationChanged | Commented | Pinged | Ignored
)


# The statuses of a check that has not ended; any other word, known or not, is worth a look.
_RUNNING = frozenset({"queued", "in_progress", "pending", "requested", "waiting"})


def parse(name: str, payload: Payload) -> Event:
    """The event of a delivery by its `X-GitHub-Event` name and its payload.

    An unknown name gives `Ignored`. Raises `Rejected(field_invalid)` where a known event lacks an identity it
    cannot be without: such a body is not of the GitHub we know, and is refused rather than guessed at.
    """
    reader = _READERS.get(name)
    return reader(payload) if reader else Ignored(name)


def _push(payload: Payload) -> Event:
    ref, after = _text(payload, "ref"), _text(payload, "after")
    return Pushed(
        repository_id=_number(payload, "repository.id"),
        branch=ref.removeprefix(BRANCH_PREFIX) if ref.startswith(BRANCH_PREFIX) else None,
        head=None if after == ABSENT_SHA else after,
    )


def _pull_request(payload: Payload) -> Event:
    return PullRequestChanged(
        repository_id=_number(payload, "repository.id"),
        number=_number(payload, "pull_request.number"),
        head=_text(payload, "pull_request.head.sha"),
        action=_text(payload, "action"),
    )


def _check_run(payload: Payload) -> Event:
    return _head_checked(payload, "check_run")


def _check_suite(payload: Payload) -> Event:
    return _head_checked(payload, "check_suite")


def _head_checked(payload: Payload, what: str) -> Event:
    status = _at(payload, f"{what}.status")
    return HeadChecked(
        repository_id=_number(payload, "repository.id"),
        head=_text(payload, f"{what}.head_sha"),
        action=_text(payload, "action"),
        running=isinstance(status, str) and status in _RUNNING,
    )


def _status(payload: Payload) -> Event:
    state = _text(payload, "state")
    return HeadChecked(_number(payload, "repository.id"), _text(payload, "sha"), state, running=state == "pending")


def _repository(payload: Payload) -> Event:
    return RepositoryChanged(_number(payload, "repository.id"), _text(payload, "action"))


def _installation(payload: Payload) -> Event:
    return InstallationChanged(
        installation_id=_number(payload, "installation.id"),
        repository_ids=_ids(payload, "repositories"),
        action=_text(payload, "action"),
    )


def _installation_repositories(payload: Payload) -> Event:
    return InstallationChanged(
        installation_id=_number(payload, "installation.id"),
        repository_ids=_ids(payload, "repositories_added") + _ids(payload, "repositories_removed"),
        action=_text(payload, "action"),
    )


def _issue_comment(payload: Payload) -> Event:
    issue = payload.get("issue")
    return Commented(
        repository_id=_number(payload, "repository.id"),
        number=_number(payload, "issue.number"),
        on_pull_request=isinstance(issue, Mapping) and "pull_request" in issue,
        action=_text(payload, "action"),
    )


def _ping(_payload: Payload) -> Event:
    return Pinged()


_READERS: Mapping[str, Callable[[Payload], Event]] = MappingProxyType(
    {
        "push": _push,
        "pull_request": _pull_request,
        "pull_request_review": _pull_request,
        "check_run": _check_run,
        "check_suite": _check_suite,
        "status": _status,
        "repository": _repository,
        "repository_ruleset": _repository,
        "branch_protection_rule": _repository,
        "branch_protection_configuration": _repository,
        "installation": _installation,
        "installation_repositories": _installation_repositories,
        "issue_comment": _issue_comment,
        "ping": _ping,
    }
)


def _at(payload: Payload, path: str) -> object:
    value: object = payload
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(payload: Payload, path: str) -> int:
    value = _at(payload, path)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _invalid(path, "a number is expected")


def _text(payload: Payload, path: str) -> str:
    value = _at(payload, path)
    if isinstance(value, str) and value:
        return value
    raise _invalid(path, "a text is expected")


def _ids(payload: Payload, path: str) -> tuple[int, ...]:
    listed = _at(payload, path)
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise _invalid(path, "a list is expected")
    return tuple(_number(entry if isinstance(entry, Mapping) else {}, "id") for entry in listed)


def _invalid(path: str, problem: str) -> Rejected:
    return Rejected(Refusal.FIELD_INVALID, {"field": path, "problem": problem})
