"""The state of the little GitHub: plain records, one lock, counted ids, time from a clock that was handed in.

Nothing here speaks HTTP or starts git. Whoever reads or writes a record from a server thread holds `World.lock`.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Clock = Callable[[], int]
"""Whole milliseconds since the epoch, UTC."""


@dataclass
class Owner:
    """A person, an organisation or an App's bot. `token` is a person's own access token."""

    id: int
    login: str
    kind: str
    token: str | None = None


@dataclass
class App:
    """A GitHub App with one webhook. Only the public half of its key is known here."""

    id: int
    slug: str
    owner: Owner
    bot: Owner
    public_key_pem: str
    permissions: dict[str, str]
    events: list[str]
    client_id: str
    hook_id: int
    created_ms: int
    webhook_url: str | None = None
    webhook_secret: str = ""


@dataclass
class Installation:
    """An App on one account. `repository_ids` None means all repositories of the account."""

    id: int
    app: App
    owner: Owner
    repository_ids: set[int] | None
    created_ms: int
    suspended_ms: int | None = None


@dataclass
class Token:
    """An installation access token; it may see less than its installation."""

    value: str
    installation: Installation
    repository_ids: set[int] | None
    permissions: dict[str, str]
    expires_ms: int


@dataclass
class RequiredCheck:
    """A context that must be green; `app_id` None means any producer will do."""

    context: str
    app_id: int | None = None


@dataclass
class Protection:
    """Classic branch protection. `required_checks` None means that status checks are not required."""

    required_checks: list[RequiredCheck] | None = None
    strict: bool = False
    enforce_admins: bool = True
    pull_request: bool = False
    approvals: int = 0
    linear_history: bool = False
    signatures: bool = False
    allow_force_pushes: bool = False
    allow_deletions: bool = False
    push_apps: list[int] | None = None


@dataclass
class Ruleset:
    """A repository ruleset; `rules`, `conditions` and `bypass_actors` have the shape of the REST API."""

    id: int
    name: str
    rules: list[Json]
    conditions: Json
    bypass_actors: list[Json]
    created_ms: int
    enforcement: str = "active"
    target: str = "branch"


@dataclass
class CheckSuite:
    """One App's checks at one commit; status and conclusion follow from its runs."""

    id: int
    app: App
    head_sha: str
    head_branch: str | None
    before: str | None
    created_ms: int


@dataclass
class CheckRun:
    """One check run; `conclusion` is set exactly when `status` is `completed`."""

    id: int
    suite: CheckSuite
    name: str
    status: str
    conclusion: str | None
    started_ms: int | None
    completed_ms: int | None
    details_url: str | None
    external_id: str
    output: Json


@dataclass
class Status:
    """A commit status; the newest of a context counts. `app_id` is None where a person wrote it."""

    id: int
    sha: str
    context: str
    state: str
    description: str | None
    target_url: str | None
    creator: Owner
    app_id: int | None
    created_ms: int


@dataclass
class Review:
    """A review; `state` in the words of the REST API (`APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`)."""

    id: int
    user: Owner
    state: str
    body: str
    commit_id: str
    submitted_ms: int


@dataclass
class Comment:
    """A comment on a pull request; `app` is set where an App wrote it."""

    id: int
    number: int
    user: Owner
    app: App | None
    body: str
    created_ms: int
    updated_ms: int


@dataclass
class Pull:
    """A pull request. `merge_commit_sha` before the merge is the test merge, as on the real thing."""

    id: int
    number: int
    title: str
    body: str | None
    user: Owner
    head_repository: "Repository"
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    created_ms: int
    updated_ms: int
    draft: bool = False
    state: str = "open"
    merged: bool = False
    merged_by: Owner | None = None
    merged_ms: int | None = None
    closed_ms: int | None = None
    merge_commit_sha: str | None = None
    reviews: list[Review] = field(default_factory=list)
    reads_without_mergeable: int = 0


@dataclass
class Repository:
    """A repository; its contents live in the bare git repository at `path`.

    `roles` are what people are said to be to it (`read`, `write`, `admin`, `none`); who is not named may write.
    """

    id: int
    owner: Owner
    name: str
    path: Path
    default_branch: str
    created_ms: int
    private: bool = True
    parent: "Repository | None" = None
    former_names: list[str] = field(default_factory=list)
    former_branches: dict[str, str] = field(default_factory=dict)
    allow: dict[str, bool] = field(
        default_factory=lambda: {"merge": True, "squash": True, "rebase": True, "update_branch": True}
    )
    roles: dict[str, str] = field(default_factory=dict)
    ref_namespaces: tuple[str, ...] | None = None
    mergeable_after_reads: int = 0
    protections: dict[str, Protection] = field(default_factory=dict)
    rulesets: list[Ruleset] = field(default_factory=list)
    pulls: dict[int, Pull] = field(default_factory=dict)
    comments: list[Comment] = field(default_factory=list)
    suites: list[CheckSuite] = field(default_factory=list)
    runs: list[CheckRun] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    known_refs: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"


@dataclass
class Delivery:
    """One POST of one webhook event, as the delivery log shows it. `raw` is what was signed and sent."""

    id: int
    guid: str
    app: App
    event: str
    action: str | None
    raw: bytes
    repository_id: int | None
    installation_id: int | None
    at_ms: int
    redelivery: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    status: str = "pending"
    status_code: int = 0
    duration_ms: int = 0
    answer: str | None = None


@dataclass(frozen=True)
class Recorded:
    """One request as it was answered. `route` is the published path template, or the git service."""

    at_ms: int
    method: str
    path: str
    route: str
    status: int
    caller: str


@dataclass
class World:
    """Everything there is. `home` holds the bare repositories, `base_url` is where the server listens."""

    home: Path
    clock: Clock
    base_url: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    owners: dict[str, Owner] = field(default_factory=dict)
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    requests: list[Recorded] = field(default_factory=list)
    token_life_ms: int = 3_600_000
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(10_001))

    def next_id(self) -> int:
        return next(self.counter)

    def owner(self, login: str, kind: str = "Organization") -> Owner:
        """The account of this name, made on first mention (the kind counts only then)."""
        known = self.owners.get(login.lower())
        if known is None:
            known = self.owners[login.lower()] = Owner(self.next_id(), login, kind)
        return known

    def repository(self, full_name: str) -> Repository | None:
        """The repository of this name, upper and lower case alike; former names are not followed."""
        wanted = full_name.lower()
        return next((r for r in self.repositories.values() if r.full_name.lower() == wanted), None)

    def renamed(self, full_name: str) -> Repository | None:
        """The repository that was once called so."""
        wanted = full_name.lower()
        return next((r for r in self.repositories.values() if wanted in r.former_names), None)

    def installation_of(self, app: App, repository: Repository) -> Installation | None:
        """The App's installation that covers this repository."""
        for installation in self.installations.values():
            chosen = installation.repository_ids
            covers = chosen is None or repository.id in chosen
            if installation.app is app and installation.owner is repository.owner and covers:
                return installation
        return None

    def repositories_of(self, installation: Installation) -> list[Repository]:
        """What an installation covers, in the order of making."""
        return [r for r in self.repositories.values() if self.installation_of(installation.app, r) is installation]
