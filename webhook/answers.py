"""What the API answers: closed models of every JSON document, for the description of the API.

The views write their documents by hand, from `webhook.shown`; the tests hold each real answer against these models, so a
field that is added, dropped or changed in one place only is found. Unknown is null. Instants are ISO 8601 in UTC.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.access import Scope
from pipeline.facts import Deliverable
from pipeline.states import State

At = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Facts = dict[str, Any]


class Said(BaseModel):
    """The common form: nothing that is not declared, and nothing left out."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Problem(Said):
    """A refusal: a stable code, the sentence, and what was found."""

    code: str
    title: str
    facts: Facts


class Coded(Said):
    """A stable code with its facts."""

    code: str
    facts: Facts


class Project(Said):
    """A registered repository; what no worker has read yet is null."""

    id: str
    name: str
    owner: str
    repository: str
    canonical_branch: str
    state: Literal["registering", "ready", "refused"]
    paused: bool
    method: str | None
    markers_admitted: bool | None
    contract_digest: str | None
    refusal: Coded | None
    created_at: At
    settled_at: At | None


class Projects(Said):
    """A page of projects."""

    rows: list[Project]
    next_cursor: str | None


class PullRequest(Said):
    """The one pull request of a task."""

    number: int
    url: str


class Task(Said):
    """A unit of requested work."""

    id: str
    project: str
    title: str
    body: str
    deliverable: Deliverable
    priority: int
    state: State
    reason: Coded | None
    attempts: int
    attempts_left: int
    tokens: int
    token_budget: int | None
    sent_back: int
    held: bool
    branch: str
    head: str | None
    pull_request: PullRequest | None
    directive: Coded | None
    metadata: Facts
    created_at: At
    changed_at: At


class Tasks(Said):
    """A page of tasks."""

    rows: list[Task]
    next_cursor: str | None


class Fact(Said):
    """One of the facts about a task: its state, what it rests on, and since when."""

    state: str
    facts: Facts
    at: At


class Publication(Fact):
    """How far the evidence is on its way to the branch; the proof only when there is one."""

    proof: Fact | None


class Outcome(Said):
    """Five facts side by side, never merged into one."""

    task: str
    state: State
    evidence: Fact | None
    review: Fact | None
    publication: Publication | None
    acceptance: Fact | None
    deployment: Fact | None


class Why(Said):
    """The decision that stands, whose turn it is, and what would change it."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=False)
    task: str
    state: State
    publication: str | None
    decision: str | None
    reason: str | None
    facts: Facts | None
    since: At | None
    next_look_at: At | None
    deadline: At | None
    owner: str | None
    sentence: str | None
    would_change: list[str]
    task_reason: Coded | None = None


class Condition(Said):
    """One thing that keeps a task from being leased."""

    code: str
    facts: Facts
    sentence: str
    would_change: str | None


class WhyUnclaimed(Said):
    """Every such thing; none: it waits its turn."""

    task: str
    state: State
    claimable: bool
    conditions: list[Condition]


class Entry(Said):
    """One row of history."""

    at: At
    subject: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str | None
    reason: str | None
    facts: Facts
    actor: str


class Timeline(Said):
    """A page of history, the oldest first."""

    rows: list[Entry]
    next_cursor: str | None


class LeasedTask(Said):
    """What the executor is asked to do."""

    id: str
    project: str
    title: str
    body: str
    deliverable: Deliverable


class Attempt(Said):
    """Which try it is."""

    id: str
    number: int


class Fence(Said):
    """The lease and its fencing token; durations, because two clocks may differ."""

    id: str
    token: int
    expires_in_ms: int
    beat_in_ms: int


class Repository(Said):
    """Where the work is done."""

    clone_url: str
    canonical_branch: str
    tip: str | None
    branch: str


class Lease(Said):
    """One leased attempt."""

    task: LeasedTask
    attempt: Attempt
    lease: Fence
    repository: Repository
    contract: str | None
    directive: Coded | None


class Beat(Said):
    """The lease was renewed: go on, or stop."""

    order: Literal["continue", "stop"]
    expires_in_ms: int
    messages: list[Facts]


class ReadToken(Said):
    """A token that reads one repository."""

    token: str
    expires_at: str


class StoredBundle(Said):
    """A bundle that was taken in."""

    sha256: str
    size_bytes: int


class TakenEvidence(Said):
    """Evidence that was taken in, and what it began."""

    evidence: str
    digest: str
    publication: str
    task: str


class Released(Said):
    """The lease that was given back."""

    released: str


class Token(Said):
    """A new token; `token` is its secret in the first answer, and null when the request is repeated."""

    id: str
    scope: Scope
    worker: str | None
    token: str | None


class Key(Said):
    """A public key that checks proofs."""

    id: str
    algorithm: Literal["ed25519"]
    public: str


class Keys(Said):
    """All of them."""

    keys: list[Key]


class Ended(Said):
    """How many expired leases this very request ended."""

    ended: int


class Delivery(Said):
    """A delivery of GitHub's, kept as a hint."""

    delivery: str
    duplicate: bool
    ignored: bool


class Alive(Said):
    """What the process that answers is."""

    status: Literal["alive"]
    revision: str
    schema_: Annotated[int, Field(alias="schema")]


class Ready(Said):
    """Whether it can serve."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=False)
    status: Literal["ready", "not_ready"]
    problem: str = ""
