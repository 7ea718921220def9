"""The closed union of decisions: what the hub does next with one publication, and the one reason for it.

A decision is a value. `pipeline.decide` makes it, the ledger records it, `workers.perform` carries out those that touch
the remote; nobody else may invent one. `facts` holds what a reader needs to understand it (short, plain values).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pipeline.errors import FactValue
from pipeline.facts import Sha
from pipeline.reasons import Reason

Facts: TypeAlias = Mapping[str, FactValue]


class Owner(StrEnum):
    """Who can end a wait: the hub by looking again, CI, an executor, a person, or an operator."""

    HUB = "hub"
    CI = "ci"
    EXECUTOR = "executor"
    PERSON = "person"
    OPERATOR = "operator"


class Method(StrEnum):
    """How the canonical branch is made to contain the change."""

    FAST_FORWARD = "fast_forward"
    MERGE = "merge"
    SQUASH = "squash"
    MERGE_API = "merge_api"
    SQUASH_API = "squash_api"


class TipGuard(StrEnum):
    """What refuses a landing on a tip that moved: our own leased atomic push, or GitHub's "up to date"."""

    ATOMIC_PUSH = "atomic_push"
    STRICT_PROTECTION = "strict_protection"


class GateKind(StrEnum):
    """The one gate a landing rests on."""

    REQUIRED_CHECKS = "required_checks"
    VERIFIER = "verifier"


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One check that made the gate green, as it goes into the intent and the proof."""

    kind: str
    context: str
    app_id: int | None
    run_id: int
    conclusion: str
    started_at: str | None
    completed_at: str | None


@dataclass(frozen=True, slots=True)
class Gate:
    """A green gate: its kind, and the checks it rests on (empty only for the executor's verifier run)."""

    kind: GateKind
    checks: tuple[GateCheck, ...]


@dataclass(frozen=True, slots=True)
class LandPlan:
    """One landing, fixed before the intent: from exactly `expected_tip`, the tree `tree`, tested at `tested`."""

    method: Method
    tip_guard: TipGuard
    expected_tip: Sha
    tested: Sha
    tested_tree: Sha
    reviewed_head: Sha
    verified_base: Sha
    gate: Gate


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """Bring the head branch up to date: a merge of `tip` into `head` with the tree that merge-tree gives."""

    head: Sha
    tip: Sha
    tree: Sha


@dataclass(frozen=True, slots=True)
class ConfirmLanding:
    """Settle the open intent against the remote before anything else."""

    intent: str
    reason: Reason = Reason.INTENT_UNSETTLED
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """Complete the task: its proof is verified, or its report is approved."""

    reason: Reason
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do any more; the publication is closed."""

    reason: Reason
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """Something must change first. Sticky: only an operator's retry ends it; otherwise it ends when the fact is
    gone."""

    reason: Reason
    sticky: bool
    facts: Facts = field(default_factory=dict)
    owner: Owner = Owner.OPERATOR


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again later. `deadline_ms` is counted from the start of this wait; None: no deadline of its own.

    `fingerprint` is set while a block or a send-back awaits a second reading; `next_look_at` is set where the moment is
    known, otherwise the back-off decides. `go_behind`: give up the place at the front of the line.
    """

    reason: Reason
    owner: Owner
    facts: Facts = field(default_factory=dict)
    next_look_at: int | None = None
    deadline_ms: int | None = None
    suspected: Reason | None = None
    fingerprint: str | None = None
    go_behind: bool = False


@dataclass(frozen=True, slots=True)
class Propose:
    """Push the evidence's head to the task's branch (`head_not_pushed`), or open its pull request."""

    reason: Reason
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunGate:
    """Ask the contract gate for a verdict on this evidence."""

    reason: Reason = Reason.GATE_NOT_RUN
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Return:
    """Give the task back with the findings: the attempt is spent (rejected) or credited (environment)."""

    reason: Reason
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendBack:
    """The same task returns with a directive (`rebase_onto_tip`, `contract_changed`), credited."""

    reason: Reason
    directive: str
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdateBranch:
    """Bring the head up to date, then wait for its checks again."""

    plan: UpdatePlan
    reason: Reason = Reason.CANONICAL_MOVED
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Land:
    """Make the canonical branch contain the change, as planned."""

    plan: LandPlan
    reason: Reason = Reason.GATE_GREEN
    facts: Facts = field(default_factory=dict)


Decision: TypeAlias = (
    ConfirmLanding | Finish | Nothing | Block | Wait | Propose | RunGate | Return | SendBack | UpdateBranch | Land
)


def name(decision: Decision) -> str:
    """The stable word for a decision: its class name in snake case (`run_gate`, `send_back` …)."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(decision).__name__).lstrip("_")
