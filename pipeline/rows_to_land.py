"""Rows 7 to 14 of the decision table: the review, the change against the tip, the line, the gate, the landing."""

from pipeline.checks import NotRequired, Pending
from pipeline.decisions import (
    Block,
    Decision,
    Finish,
    Land,
    Owner,
    Return,
    RunGate,
    SendBack,
    UpdateBranch,
    UpdatePlan,
    Wait,
)
from pipeline.errors import FactValue
from pipeline.facts import Change, Snapshot, VerdictResult
from pipeline.landing import gate_of, plan, road
from pipeline.reading import change_of, judgement_of, known, reason
from pipeline.reasons import Reason

# --- 7 and 8: the review, and the change against the tip


def reviewed(s: Snapshot) -> Decision | None:
    """The gate has judged this evidence; what it did not approve returns to the pool."""
    if s.verdict is None:
        return RunGate(facts={"evidence": s.evidence.digest})
    if s.verdict.result is VerdictResult.REJECTED:
        return Return(Reason.VERDICT_REJECTED)
    if s.verdict.result is VerdictResult.ENVIRONMENT:
        return Return(Reason.VERDICT_ENVIRONMENT)
    return None


def unreadable(s: Snapshot) -> Decision | None:
    """Evidence whose commits cannot be taken in: nothing about it can be read, so it is judged and returned at once."""
    return None if s.evidence.readable else reviewed(s)


def merges(s: Snapshot) -> Decision | None:
    """The change merges with the tip, brings nothing back that was taken off it, and meets the tip's own contract."""
    change = change_of(s)
    if not change.contract_met_at_tip:
        return _send_back(s, Reason.CONTRACT_CHANGED, "contract_changed", change)
    if not change.builds_on_tip:
        return _send_back(s, Reason.CANONICAL_MOVED, "rebase_onto_tip", change)
    if change.merged_tree is None:
        return _send_back(s, Reason.CONFLICT, "rebase_onto_tip", change)
    return None


def _send_back(s: Snapshot, reason: Reason, directive: str, change: Change) -> Decision:
    facts: dict[str, FactValue] = {"head": change.head, "tip": change.tip}
    if s.task.sent_back >= s.limits.send_backs_max:
        return Block(Reason.SEND_BACKS_SPENT, sticky=True, facts=facts | {"wanted": reason.value})
    return SendBack(reason, directive, facts)


# --- 9 and 10: persons, and the line


def persons(s: Snapshot) -> Decision | None:
    """What only people can give: a waved-through finding, approvals, resolved conversations."""
    if s.verdict is not None and s.verdict.person_needed:
        return Wait(reason(s.verdict.person_needed[0], "person_needed"), Owner.PERSON)
    author = _author_must_update(s)
    if author is not None:
        return author
    rules = known(s.remote.rules, "rules")
    if not (rules.approvals_required or rules.conversations_required):
        return None
    reviews = known(s.remote.reviews, "reviews")
    if reviews.changes_requested or reviews.approvals < rules.approvals_required:
        missing: dict[str, FactValue] = {
            "approvals": reviews.approvals,
            "required": rules.approvals_required,
            "changes_requested": reviews.changes_requested,
        }
        return Wait(Reason.APPROVALS_MISSING, Owner.PERSON, missing)
    if rules.conversations_required and reviews.conversations_open:
        return Wait(Reason.CONVERSATIONS_OPEN, Owner.PERSON, {"open": reviews.conversations_open})
    return None


def _author_must_update(s: Snapshot) -> Decision | None:
    """The head of a fork is its author's to update: beside the line, so that nobody waits behind it."""
    pull = known(s.remote.pull_request, "pull_request")
    if pull is None or pull.head_repository_id == s.repository.id or change_of(s).contains_tip:
        return None
    if isinstance(judgement_of(s), NotRequired):
        return None
    return Wait(Reason.AUTHOR_MUST_UPDATE, Owner.PERSON, {"number": pull.number})


def in_turn(s: Snapshot) -> Decision | None:
    """Only the first goes on, but a change that is green on the present tip may pass, a bounded number of times."""
    if not s.line.before:
        return None
    gate = gate_of(judgement_of(s), s.evidence, change_of(s), known(s.remote.tip, "tip"))
    if gate is not None and s.line.passed < s.limits.passes_max:
        return None
    return Wait(Reason.NOT_FIRST, Owner.HUB, {"before": list(s.line.before[:5]), "place": len(s.line.before) + 1})


# --- 11 to 14: up to date, green, landed


def up_to_date(s: Snapshot) -> Decision | None:
    """The change stands on the present tip; the hub updates its own branches, others are sent back."""
    change = change_of(s)
    if isinstance(judgement_of(s), NotRequired):
        if change.tip != s.evidence.verified_base:
            return _send_back(s, Reason.CANONICAL_MOVED, "rebase_onto_tip", change)
        return None
    if change.contains_tip:
        return None
    if known(s.remote.rules, "rules").linear_history or change.merged_tree is None:
        return _send_back(s, Reason.CANONICAL_MOVED, "rebase_onto_tip", change)
    return UpdateBranch(UpdatePlan(change.head, change.tip, change.merged_tree), facts={"tip": change.tip})


def checks_in(s: Snapshot) -> Decision | None:
    """Every required check has reported; one that never does loses its place, and at last blocks."""
    judgement = judgement_of(s)
    if not isinstance(judgement, Pending):
        return None
    facts: dict[str, FactValue] = {"context": judgement.context, "state": judgement.state}
    if judgement.state == "wrong_app":
        facts |= {"expected_app": judgement.expected_app, "found_app": judgement.found_app}
    since = s.publication.checks_since
    if since is None or s.now - since < s.limits.ci_deadline_ms:
        return Wait(Reason.CHECKS_PENDING, Owner.CI, facts, deadline_ms=s.limits.ci_deadline_ms)
    if s.line.yielded + 1 >= s.limits.yields_max:
        return Block(Reason.CHECK_NEVER_FINISHED, sticky=True, facts=facts, owner=Owner.CI)
    return Wait(Reason.CHECKS_OVERDUE, Owner.CI, facts, deadline_ms=s.limits.ci_deadline_ms, go_behind=True)


def land(s: Snapshot) -> Decision | None:
    """Row 13 and 14: land on one green gate, or say that there is none."""
    change = change_of(s)
    gate = gate_of(judgement_of(s), s.evidence, change, known(s.remote.tip, "tip"))
    way = road(known(s.remote.rules, "rules"), s.policy)
    if gate is None or way is None:
        return Block(Reason.NO_GATE, sticky=False, facts={"head": change.head, "tip": change.tip})
    return Land(plan(way, gate, s.evidence, change), facts={"tip": change.tip, "head": change.head})


def report_finish(_: Snapshot) -> Decision | None:
    """An approved report completes its task; there is nothing to land."""
    return Finish(Reason.REPORT_APPROVED)
