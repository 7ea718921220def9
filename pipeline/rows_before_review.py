"""Rows 1 to 6 of the decision table: what the ledger settles, what only an operator ends, what keeps a change from
landing."""

from pipeline.checks import Red
from pipeline.decisions import Block, ConfirmLanding, Decision, Finish, Nothing, Owner, Propose, Wait
from pipeline.errors import FactValue
from pipeline.facts import LandingRecord, PullRequest, Rules, Snapshot, VerdictResult
from pipeline.landing import REVIEW_CHECK, required_checks, road
from pipeline.reading import Unread, change_of, judgement_of, known, reason
from pipeline.reasons import Reason
from pipeline.states import TERMINAL, State

# --- 1 to 3: what the ledger alone settles


def open_intent(s: Snapshot) -> Decision | None:
    """Settle what was begun before anything else; nobody on the branch moves past an open intent."""
    if s.intent is None:
        return None
    if s.intent.publication == s.publication.id:
        return ConfirmLanding(s.intent.id)
    return Wait(Reason.INTENT_OPEN, Owner.HUB, {"intent": s.intent.id})


def proven(s: Snapshot) -> Decision | None:
    """A verified proof completes the task, if its completion was lost between two writes."""
    if s.publication.landing is LandingRecord.PROVEN and s.task.state not in TERMINAL:
        return Finish(Reason.PROOF_VERIFIED)
    return None


def over(s: Snapshot) -> Decision | None:
    """Nothing is left to do: the task ended, was stopped, or went to a newer attempt."""
    if s.task.state in TERMINAL:
        return Nothing(Reason.TASK_TERMINAL, {"state": s.task.state.value})
    if s.task.state is State.STOPPED or s.task.stop_requested:
        return Nothing(Reason.STOPPED)
    if s.publication.superseded or not s.evidence.current:
        return Nothing(Reason.SUPERSEDED)
    if s.task.state in (State.OPEN, State.CLAIMED):
        return Nothing(Reason.NOT_OURS, {"state": s.task.state.value})
    return None


# --- 4: blocks that only an operator ends


def unprovable(s: Snapshot) -> Decision | None:
    """Landed, but not proven to be ours; and every sticky block that stands: looking again never ends one."""
    if s.publication.landing is LandingRecord.UNPROVEN:
        return Block(Reason.LANDED_UNPROVEN, sticky=True)
    if s.publication.landing is LandingRecord.UNATTRIBUTED:
        return Block(Reason.LANDED_UNATTRIBUTED, sticky=True)
    if s.publication.blocked_for is not None and s.publication.blocked_sticky:
        return Block(reason(s.publication.blocked_for, "blocked_for"), sticky=True)
    return None


def spent(s: Snapshot) -> Decision | None:
    """A budget is spent: attempts, environment credits, refused landings, time at the front."""
    verdict = s.verdict
    if verdict is not None and verdict.contract_broken:
        return Block(Reason.CONTRACT_BROKEN, sticky=True, facts={"contract": verdict.contract_digest})
    rejected = verdict is not None and verdict.result is VerdictResult.REJECTED
    if rejected and verdict is not None and (verdict.deterministic or s.task.attempts_left <= 0):
        return Block(Reason.REJECTED_FOR_GOOD, sticky=True, facts={"attempts_left": s.task.attempts_left})
    environment = verdict is not None and verdict.result is VerdictResult.ENVIRONMENT
    if environment and s.task.environment_credits >= s.limits.environment_credits_max:
        return Block(Reason.BUDGET_SPENT, sticky=True, facts={"environment_credits": s.task.environment_credits})
    if s.publication.refused_landings >= s.limits.refused_landings_max:
        return Block(Reason.LANDINGS_REFUSED, sticky=True, facts={"refused": s.publication.refused_landings})
    if s.line.front_ms >= s.limits.front_ms_max:
        return Block(Reason.FRONT_TIME_SPENT, sticky=True, facts={"limit_ms": s.limits.front_ms_max})
    return None


def contained(s: Snapshot) -> Decision | None:
    """Landed by hand: the head is reachable, the merge gives the tip's own tree, or GitHub says merged without us."""
    change = change_of(s)
    found: dict[str, FactValue] = {"head": change.head}
    if change.contained_in_tip:
        return Block(Reason.ALREADY_CONTAINED, sticky=True, facts=found | {"how": "head_reachable"})
    if change.tip_tree in (change.merged_tree, change.head_tree):
        return Block(Reason.ALREADY_CONTAINED, sticky=True, facts=found | {"how": "tree_equal"})
    pull = known(s.remote.pull_request, "pull_request")
    if pull is not None and pull.merged:
        return Block(Reason.ALREADY_CONTAINED, sticky=True, facts=found | {"how": "merged_without_us"})
    return None


# --- 5: waits that somebody asked for


def asked_to_wait(s: Snapshot) -> Decision | None:
    """Somebody asked for it: a paused project, a held task, GitHub's own limit."""
    if s.task.project_paused:
        return Wait(Reason.PROJECT_PAUSED, Owner.OPERATOR)
    if s.task.held:
        return Wait(Reason.HELD, Owner.OPERATOR)
    until = s.remote.rate_limited_until
    if until is not None and until > s.now:
        return Wait(Reason.RATE_LIMITED, Owner.HUB, {"until": until}, next_look_at=until)
    return None


# --- 6: blocks that end by themselves when the fact is gone


def permissions(s: Snapshot) -> Decision | None:
    """The App may do here what a landing needs."""
    granted: frozenset[str] = known(s.remote.permissions, "permissions")
    missing = sorted(s.repository.needed_permissions - granted)
    return Block(Reason.PERMISSION_MISSING, sticky=False, facts={"missing": missing}) if missing else None


def pull_request_stands(s: Snapshot) -> Decision | None:
    """The pull request is open and aims at the canonical branch."""
    pull = known(s.remote.pull_request, "pull_request")
    if pull is None:
        return None
    if not pull.open:
        return Block(Reason.PULL_REQUEST_CLOSED, sticky=False, facts={"number": pull.number}, owner=Owner.PERSON)
    if pull.base != s.repository.canonical_branch:
        facts: dict[str, FactValue] = {"number": pull.number, "base": pull.base}
        return Block(Reason.PULL_REQUEST_RETARGETED, sticky=False, facts=facts, owner=Owner.PERSON)
    return None


def proposed(s: Snapshot) -> Decision | None:
    """The head stands on the task's branch, was recorded to stand there, and its pull request is open. What the hub
    itself had put there before is moved on, also where it died, or was overtaken, before it could record it."""
    head = known(s.remote.head, "head")
    change = change_of(s)
    pull = known(s.remote.pull_request, "pull_request")
    unsaid = change.belongs and head == s.evidence.head == change.head and head != s.publication.pushed_head
    earlier = not change.belongs and head in s.publication.own_heads | {s.publication.pushed_head}
    if head is None or unsaid or earlier:
        return Propose(Reason.HEAD_NOT_PUSHED, {"head": s.evidence.head})
    if not change.belongs or head != change.head:
        facts: dict[str, FactValue] = {"found": head, "evidence": s.evidence.head}
        return Block(Reason.HEAD_NOT_OF_EVIDENCE, sticky=False, facts=facts, owner=Owner.PERSON)
    if pull is None:
        return Propose(Reason.PULL_REQUEST_ABSENT, {"head": head})
    return _pull_request_head(s, pull, head)


def _pull_request_head(s: Snapshot, pull: PullRequest, head: str) -> Decision | None:
    if pull.head_ref != s.repository.head_branch and pull.head_repository_id == s.repository.id:
        facts: dict[str, FactValue] = {"found": pull.head_ref, "expected": s.repository.head_branch}
        return Block(Reason.HEAD_NOT_OF_EVIDENCE, sticky=False, facts=facts, owner=Owner.PERSON)
    if pull.head_sha != head:
        raise Unread("pull_request", "head_lags")
    return None


def rules_allow(s: Snapshot) -> Decision | None:
    """The rules of the branch are known, can be met, and leave a guarded way to land."""
    rules = known(s.remote.rules, "rules")
    if rules.unknown:
        return Block(Reason.UNKNOWN_RULE, sticky=False, facts={"rules": list(rules.unknown)})
    if rules.app_can_bypass:
        return Block(Reason.APP_CAN_BYPASS, sticky=False)
    if rules.merge_queue:
        return Block(Reason.MERGE_QUEUE_REQUIRED, sticky=False)
    impossible = _impossible(s, rules)
    if impossible is not None:
        return impossible
    if road(rules, s.policy) is None:
        return Block(Reason.NO_GUARDED_METHOD, sticky=False)
    return None


def _impossible(s: Snapshot, rules: Rules) -> Decision | None:
    """A requirement that nobody but the hub could meet, or that is pinned to somebody who never reports it."""
    for check in (*rules.required_checks, *required_checks(rules, s.policy)):
        facts: dict[str, FactValue] = {"context": check.context, "app": check.app_id}
        if check.context in s.repository.own_checks and check.context != REVIEW_CHECK:
            return Block(Reason.OWN_CHECK_REQUIRED, sticky=False, facts=facts)
        if check.context == REVIEW_CHECK and check.app_id not in (None, s.app_id):
            return Block(Reason.IMPOSSIBLE_CHECK, sticky=False, facts=facts)
        if check.context != REVIEW_CHECK and check.app_id == s.app_id:
            return Block(Reason.IMPOSSIBLE_CHECK, sticky=False, facts=facts)
    return None


def no_check_failed(s: Snapshot) -> Decision | None:
    """No required check is red."""
    judgement = judgement_of(s)
    if not isinstance(judgement, Red):
        return None
    facts: dict[str, FactValue] = {
        "context": judgement.context,
        "run": judgement.run_id,
        "conclusion": judgement.conclusion,
    }
    return Block(Reason.CHECK_FAILED, sticky=False, facts=facts, owner=Owner.CI)
