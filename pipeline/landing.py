"""Which method lands a change, and what guards the tip while it does. No method without a guard.

A fast-forward alone is no guard: a branch that was rewound would take removed commits back. So every method either
pushes under a lease on the exact tip, or asks GitHub in a set-up where GitHub itself refuses a head that is not up to
date.
"""

from dataclasses import dataclass

from pipeline.checks import Green, Judgement, NotRequired
from pipeline.decisions import Gate, GateKind, LandPlan, Method, TipGuard
from pipeline.facts import (
    Change,
    EvidenceFacts,
    IntentFacts,
    LandPolicy,
    RequiredCheck,
    Rules,
    Sha,
    TaskFacts,
    VerdictFacts,
    VerdictResult,
)
from pipeline.states import State

REVIEW_CHECK = "mac/review"
PUSHED = frozenset({Method.FAST_FORWARD, Method.MERGE, Method.SQUASH})

# What the App asks for, and what it cannot do without; `administration` is what reading classic protection takes.
WANTED_PERMISSIONS = {
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "pull_requests": "write",
    "statuses": "read",
    "workflows": "write",
}
NEEDED_PERMISSIONS = frozenset(f"{name}:{level}" for name, level in WANTED_PERMISSIONS.items() if name != "workflows")


@dataclass(frozen=True, slots=True)
class Road:
    """A method with its guard."""

    method: Method
    tip_guard: TipGuard


def may_move_refs(task: TaskFacts, verdict: VerdictFacts | None, intent: IntentFacts | None, publication: str) -> bool:
    """Whether the next decision may well be one that moves refs, so that the look is best taken under the land slot.

    Read under the slot at once, a green change is read once instead of twice. A look that was taken without the slot
    and finds that it must move refs takes it then, and reads again.
    """
    if intent is not None:
        return intent.publication == publication
    approved = verdict is not None and verdict.result is VerdictResult.APPROVED and not verdict.person_needed
    return approved and task.state is State.LANDING and not (task.stop_requested or task.held or task.project_paused)


def required_checks(rules: Rules, policy: LandPolicy) -> tuple[RequiredCheck, ...]:
    """What must be green before a landing: the rules' checks and the contract's, without the hub's own review check.

    `mac/review` may be required on the branch; its success is the approved verdict, which is asked for anyway.
    """
    named = {check.context for check in rules.required_checks}
    extra = (RequiredCheck(name, None, "contract") for name in policy.required_checks if name not in named)
    return tuple(c for c in (*rules.required_checks, *extra) if c.context != REVIEW_CHECK)


def road(rules: Rules, policy: LandPolicy) -> Road | None:
    """The method for a branch with these rules, or None when none is guarded.

    Pull requests, linear history or signatures ask for the merge API, which is guarded only where "up to date" is
    enforced. Required checks alone let the tested head itself be pushed. Without rules the contract chooses.
    """
    if rules.push_restricted or rules.merge_queue:
        return None
    if rules.pull_request_required or rules.linear_history or rules.signatures_required:
        if not (rules.strict and required_checks_enforced(rules)):
            return None
        squashed = rules.linear_history or policy.method == Method.SQUASH
        return Road(Method.SQUASH_API if squashed else Method.MERGE_API, TipGuard.STRICT_PROTECTION)
    if required_checks(rules, policy):
        return Road(Method.FAST_FORWARD, TipGuard.ATOMIC_PUSH)
    if policy.method not in PUSHED:
        return None
    return Road(Method(policy.method), TipGuard.ATOMIC_PUSH)


def required_checks_enforced(rules: Rules) -> bool:
    """Whether GitHub itself demands a check: only then does "up to date" refuse a head that is behind."""
    return bool(rules.required_checks)


def gate_of(judgement: Judgement, evidence: EvidenceFacts, change: Change, tip: Sha) -> Gate | None:
    """The one gate of a landing, or None when it is not green.

    The head that lands must contain the tip and the verified base, and bring nothing that was taken off the branch.
    Required checks count at that head. Without any, the executor's verifier run counts, and only on the very tip that
    it ran on, for the very head that it ran at.
    """
    if not (change.contains_tip and change.contains_verified_base and change.builds_on_tip):
        return None
    if isinstance(judgement, Green) and judgement.checks:
        return Gate(GateKind.REQUIRED_CHECKS, judgement.checks)
    if isinstance(judgement, NotRequired):
        stands = evidence.verifier_green and tip == evidence.verified_base and change.head == evidence.head
        return Gate(GateKind.VERIFIER, ()) if stands else None
    return None


def plan(way: Road, gate: Gate, evidence: EvidenceFacts, change: Change) -> LandPlan:
    """The landing as it will stand in the intent: from exactly this tip, with exactly the tree that was tested."""
    return LandPlan(
        method=way.method,
        tip_guard=way.tip_guard,
        expected_tip=change.tip,
        tested=change.head,
        tested_tree=change.head_tree,
        reviewed_head=evidence.head,
        verified_base=evidence.verified_base,
        gate=gate,
    )
