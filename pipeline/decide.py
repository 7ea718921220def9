"""What happens next with one publication: a total function from a snapshot to exactly one decision with one reason.

The rows of `TABLE` are asked in order, and the first that answers is the decision. A row reads remote facts by `known`;
when one that it needs was not read, the decision is to wait for it *at that row*, so no later row can act on half a
picture. A block or a send-back that rests on the remote counts only when two readings, some seconds apart, agree.
"""

from collections.abc import Callable

from pipeline import rows_before_review as before
from pipeline import rows_to_land as after
from pipeline.canonical import digest
from pipeline.decisions import Block, Decision, Owner, SendBack, Wait
from pipeline.facts import Deliverable, Snapshot
from pipeline.reading import Unread
from pipeline.reasons import Reason

Row = Callable[[Snapshot], Decision | None]


def decide(snapshot: Snapshot) -> Decision:
    """The decision for this snapshot. Total: it raises for none, and never answers `Land` without a green gate."""
    rows = REPORT_TABLE if snapshot.task.deliverable is Deliverable.REPORT else TABLE
    try:
        for row in rows:
            decision = row(snapshot)
            if decision is not None:
                return _confirmed(decision, snapshot)
    except Unread as unread:
        return _wait_for(unread, snapshot)
    return Wait(Reason.UNKNOWN, Owner.HUB, {"fact": "decision", "why": "no_row_answered"})


def _wait_for(unread: Unread, s: Snapshot) -> Wait:
    until = s.remote.rate_limited_until
    if until is not None and until > s.now:
        return Wait(Reason.RATE_LIMITED, Owner.HUB, {"until": until}, next_look_at=until)
    return Wait(Reason.UNKNOWN, Owner.HUB, {"fact": unread.fact, "why": unread.why})


# --- two readings that agree

REMOTE_BLOCKS = frozenset(
    {
        Reason.ALREADY_CONTAINED,
        Reason.PULL_REQUEST_CLOSED,
        Reason.PULL_REQUEST_RETARGETED,
        Reason.HEAD_NOT_OF_EVIDENCE,
        Reason.PERMISSION_MISSING,
        Reason.NO_GUARDED_METHOD,
        Reason.MERGE_QUEUE_REQUIRED,
        Reason.UNKNOWN_RULE,
        Reason.APP_CAN_BYPASS,
        Reason.OWN_CHECK_REQUIRED,
        Reason.IMPOSSIBLE_CHECK,
        Reason.CHECK_FAILED,
        Reason.SEND_BACKS_SPENT,
        Reason.NO_GATE,
    }
)


def _confirmed(decision: Decision, s: Snapshot) -> Decision:
    """The decision itself, or a wait for the reading that confirms it."""
    if not isinstance(decision, Block | SendBack):
        return decision
    if isinstance(decision, Block) and decision.reason not in REMOTE_BLOCKS:
        return decision
    if s.publication.blocked_for == decision.reason.value:
        return decision
    fingerprint = digest({"reason": decision.reason.value, "facts": dict(decision.facts)})
    earlier = s.earlier
    agrees = earlier is not None and (earlier.reason, earlier.fingerprint) == (decision.reason.value, fingerprint)
    if earlier is not None and agrees and s.remote.read_at - earlier.first_at >= s.limits.confirm_ms:
        return decision
    first_at = earlier.first_at if earlier is not None and agrees else s.remote.read_at
    return Wait(
        Reason.UNCONFIRMED,
        Owner.HUB,
        decision.facts,
        next_look_at=max(first_at + s.limits.confirm_ms, s.now),
        suspected=decision.reason,
        fingerprint=fingerprint,
    )


TABLE: tuple[Row, ...] = (
    before.open_intent,
    before.proven,
    before.over,
    before.unprovable,
    before.spent,
    after.unreadable,
    before.contained,
    before.asked_to_wait,
    before.permissions,
    before.pull_request_stands,
    before.proposed,
    before.rules_allow,
    before.no_check_failed,
    after.reviewed,
    after.merges,
    after.persons,
    after.in_turn,
    after.up_to_date,
    after.checks_in,
    after.land,
)

REPORT_TABLE: tuple[Row, ...] = (
    before.open_intent,
    before.proven,
    before.over,
    before.unprovable,
    before.spent,
    before.asked_to_wait,
    after.reviewed,
    after.report_finish,
)
