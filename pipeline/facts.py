"""The frozen vocabulary that the mind decides on: what the ledger holds and what was read from the remote.

Every remote fact is a `Known` value or an `Unknown` with the reason; there is no third way to say "nothing was found",
so a page that was not read can never look like an empty set.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from pipeline.states import State

Sha: TypeAlias = str
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A fact that was read completely."""

    value: T


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that was not read, or not completely; `why` is a stable word (time_out, page_incomplete, not_read …)."""

    why: str


Fact: TypeAlias = Known[T] | Unknown


class Deliverable(StrEnum):
    """What a task asks for; declared when it is created, never by the executor."""

    CODE = "code"
    REPORT = "report"


class EvidenceKind(StrEnum):
    """What an executor hands in."""

    REPOSITORY_CHANGE = "repository_change"
    OPERATOR_RESULT = "operator_result"


EVIDENCE_FOR: dict[Deliverable, EvidenceKind] = {
    Deliverable.CODE: EvidenceKind.REPOSITORY_CHANGE,
    Deliverable.REPORT: EvidenceKind.OPERATOR_RESULT,
}


# --- what the ledger holds


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The task as the ledger holds it. `attempts_left` counts credits; durations and instants are milliseconds."""

    id: str
    state: State
    deliverable: Deliverable
    attempts_left: int
    sent_back: int
    environment_credits: int = 0
    stop_requested: bool = False
    held: bool = False
    project_paused: bool = False


class VerdictResult(StrEnum):
    """What the gate found: good, the work's fault, or not the work's fault."""

    APPROVED = "approved"
    REJECTED = "rejected"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """The verdict on the current evidence under the contract at the verified base.

    `person_needed` names what a person must wave through (`contract_edited`, `undoes_landed_lines`), and is empty once
    somebody did. `deterministic` marks a rejection that two different workers reached alike. `contract_broken`: the
    contract could not be read, so nothing was judged.
    """

    result: VerdictResult
    contract_digest: str
    person_needed: tuple[str, ...] = ()
    deterministic: bool = False
    contract_broken: bool = False


@dataclass(frozen=True, slots=True)
class EvidenceFacts:
    """The evidence that the publication carries. `verifier_green`: every contract command has a run that passed at
    exactly `head`. `current`: nothing newer has been handed in for the task. `readable`: its commits could be taken
    in."""

    digest: str
    head: Sha
    tree: Sha
    verified_base: Sha
    current: bool = True
    verifier_green: bool = True
    readable: bool = True


@dataclass(frozen=True, slots=True)
class LineFacts:
    """The place in the line of the branch. `before`: publications ahead of this one that wait for the branch.
    `passed`: neighbours that landed before the first since it became first. `front_ms`: time at the front, summed."""

    before: tuple[str, ...] = ()
    passed: int = 0
    front_ms: int = 0
    yielded: int = 0


@dataclass(frozen=True, slots=True)
class IntentFacts:
    """An intent of the branch that is neither landed nor void."""

    id: str
    publication: str


class LandingRecord(StrEnum):
    """What the ledger holds on the outcome of a landing of this publication."""

    NONE = "none"
    PROVEN = "proven"
    UNPROVEN = "unproven"
    UNATTRIBUTED = "unattributed"


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The way of one attempt's evidence to the branch. `checks_since`: when the present head began to wait for its
    checks (None: not waiting). `superseded`: a newer attempt has taken over. `pushed_head`: what the hub last pushed
    to the task's branch, by whichever attempt; `own_heads`: everything that it may have pushed there, recorded or not
    (each evidence's head, each update commit that an intent names). `blocked_for`: the reason the task is blocked for now;
    `blocked_sticky`: only an operator's retry ends it."""

    id: str
    landing: LandingRecord = LandingRecord.NONE
    refused_landings: int = 0
    superseded: bool = False
    checks_since: int | None = None
    pushed_head: Sha | None = None
    blocked_for: str | None = None
    blocked_sticky: bool = False
    own_heads: frozenset[Sha] = frozenset()


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An earlier reading that pointed to a block or a send-back: it counts once a later one agrees with it."""

    reason: str
    fingerprint: str
    first_at: int


# --- what was read from the remote


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The pull request of the task, by its number (never looked up by the name of a head branch alone)."""

    number: int
    open: bool
    merged: bool
    merged_by_app: bool
    base: str
    head_ref: str
    head_sha: Sha
    head_repository_id: int
    merge_commit: Sha | None = None


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A context that must be green. `app_id` pins the producer; `source` says who demands it (protection, ruleset,
    contract)."""

    context: str
    app_id: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Rules:
    """The union of branch protection and rulesets on the canonical branch. `strict`: "up to date" is enforced there.
    `push_restricted`: a rule keeps our App from pushing. `unknown`: rule types this version does not know."""

    required_checks: tuple[RequiredCheck, ...] = ()
    strict: bool = False
    pull_request_required: bool = False
    approvals_required: int = 0
    conversations_required: bool = False
    linear_history: bool = False
    signatures_required: bool = False
    merge_queue: bool = False
    push_restricted: bool = False
    app_can_bypass: bool = False
    unknown: tuple[str, ...] = ()


class CheckKind(StrEnum):
    """Check runs and commit statuses are judged separately."""

    RUN = "run"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Check:
    """One check run or commit status of a head, as read. Times are the remote's words, kept for the proof only."""

    kind: CheckKind
    id: int
    context: str
    app_id: int | None
    status: str
    conclusion: str | None
    started_at: str | None = None
    completed_at: str | None = None


@dataclass(frozen=True, slots=True)
class Reviews:
    """What people said on the pull request, where a rule asks for it."""

    approvals: int
    changes_requested: int
    conversations_open: int


@dataclass(frozen=True, slots=True)
class Change:
    """The change against the tip, computed by our own git.

    `head` is the remote's head where that belongs to the evidence, otherwise the evidence's head. `belongs`: the
    remote's head is the evidence's, or is reached from it only by update commits that the hub recorded. `merged_tree`
    is None when the two conflict. `linear`: no merge commit between tip and head. `contract_met_at_tip`: the tip's
    newer contract is met as well. `builds_on_tip`: everything that the change was built on, the verified base and the
    tips of its update commits, is still on the branch; a branch that was rewound would take removed commits back.
    """

    head: Sha
    head_tree: Sha
    tip: Sha
    tip_tree: Sha
    contains_tip: bool
    contained_in_tip: bool
    contains_verified_base: bool
    belongs: bool
    merged_tree: Sha | None
    linear: bool = True
    contract_met_at_tip: bool = True
    builds_on_tip: bool = True


@dataclass(frozen=True, slots=True)
class Remote:
    """One reading of the remote. `read_at`: when the reading began; `rate_limited_until` when GitHub asked us to
    wait."""

    read_at: int
    tip: Fact[Sha]
    head: Fact[Sha | None]
    pull_request: Fact[PullRequest | None]
    rules: Fact[Rules]
    permissions: Fact[frozenset[str]]
    checks: Fact[tuple[Check, ...]]
    reviews: Fact[Reviews]
    change: Fact[Change]
    rate_limited_until: int | None = None


@dataclass(frozen=True, slots=True)
class LandPolicy:
    """What the contract on the canonical tip says of landing. `accepted`: (context, conclusion) pairs that count as a
    pass there; `method`: fast_forward, merge or squash where no rule decides."""

    method: str = "fast_forward"
    required_checks: tuple[str, ...] = ()
    accepted: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that decisions know; milliseconds and counts, from the settings."""

    send_backs_max: int = 2
    refused_landings_max: int = 8
    front_ms_max: int = 24 * 3_600_000
    ci_deadline_ms: int = 3_600_000
    confirm_ms: int = 3_000
    environment_credits_max: int = 3
    passes_max: int = 3
    yields_max: int = 3


@dataclass(frozen=True, slots=True)
class Repository:
    """What decisions need to know of the registered repository: ids, never names that can be taken over."""

    id: int
    canonical_branch: str
    head_branch: str
    needed_permissions: frozenset[str]
    own_checks: frozenset[str] = frozenset({"mac/review", "mac/landing"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one decision is taken on. The same snapshot always gives the same decision."""

    now: int
    app_id: int
    repository: Repository
    task: TaskFacts
    publication: PublicationFacts
    evidence: EvidenceFacts
    verdict: VerdictFacts | None
    line: LineFacts
    intent: IntentFacts | None
    remote: Remote
    policy: LandPolicy = LandPolicy()
    limits: Limits = Limits()
    earlier: Suspicion | None = None
