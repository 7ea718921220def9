"""The decision table under thousands of made-up worlds: total, steady, and never moved toward landing by bad news."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.decide import decide
from pipeline.decisions import Decision, Finish, GateKind, Land, TipGuard, Wait, name
from pipeline.facts import CheckKind, Deliverable, Known, Rules, Snapshot, Suspicion
from pipeline.landing import required_checks
from pipeline.reasons import Reason
from pipeline.states import TRANSITIONS, Event
from tests.pipeline.builders import GREEN, NOW, green, put, report, unruled
from tests.pipeline.worlds import ELSEWHERE, WORSE, WRONG, Worse, change, snapshots

MANY = settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(snapshots())
def test_every_snapshot_has_exactly_one_decision_and_always_the_same(snapshot: Snapshot) -> None:
    first = decide(snapshot)
    assert isinstance(first.reason, Reason)
    assert decide(snapshot) == first
    assert first.reason not in ELSEWHERE


def _holds(snapshot: Snapshot, plan_of: Land) -> None:
    """What must be so whenever something lands, stated from the facts and not by the code that decided."""
    plan, remote = plan_of.plan, snapshot.remote
    change, rules = remote.change, remote.rules
    assert isinstance(change, Known)
    assert isinstance(rules, Known)
    assert remote.tip == Known(plan.expected_tip)
    assert remote.head == Known(plan.tested)
    assert plan.tested_tree == change.value.head_tree != change.value.tip_tree
    assert change.value.contains_tip
    assert change.value.belongs
    assert snapshot.intent is None
    assert (snapshot.task.stop_requested, snapshot.task.held, snapshot.task.project_paused) == (False, False, False)
    if plan.tip_guard is TipGuard.STRICT_PROTECTION:
        assert rules.value.strict
        assert rules.value.required_checks
    wanted = required_checks(rules.value, snapshot.policy)
    if not wanted:
        assert plan.gate.kind is GateKind.VERIFIER
        assert snapshot.evidence.verifier_green
        assert (plan.expected_tip, plan.tested) == (snapshot.evidence.verified_base, snapshot.evidence.head)
        return
    assert isinstance(remote.checks, Known)
    assert {check.context for check in plan.gate.checks} == {check.context for check in wanted}
    for required in wanted:
        named = [c for c in remote.checks.value if c.context == required.context]
        counted = [c for c in named if required.app_id in (None, c.app_id)]
        last = max(counted, key=lambda c: c.id)
        accepted = (last.context, last.conclusion) in snapshot.policy.accepted
        assert last.conclusion == "success" or (
            accepted and last.conclusion in {"neutral", "skipped", "cancelled", "stale", "action_required"}
        )
        assert last.kind is CheckKind.STATUS or last.status == "completed"


@MANY
@given(snapshots())
def test_nothing_lands_without_a_green_gate_on_the_tip_that_was_observed(snapshot: Snapshot) -> None:
    decision = decide(snapshot)
    if isinstance(decision, Land):
        _holds(snapshot, decision)


@MANY
@given(snapshots(), st.sampled_from(WORSE))
def test_bad_news_never_moves_a_change_toward_landing(snapshot: Snapshot, worse: Worse) -> None:
    if not isinstance(decide(snapshot), Land):
        assert not isinstance(decide(worse.apply(snapshot)), Land), worse.name


@MANY
@given(snapshots(wrong_max=1), st.sampled_from(WORSE))
def test_what_lands_after_bad_news_is_something_that_the_news_does_not_touch(snapshot: Snapshot, worse: Worse) -> None:
    after = worse.apply(snapshot)
    if isinstance(decide(snapshot), Land) and isinstance(decide(after), Land):
        assert worse.name.startswith(("checks ", "a person", "rejected", "the pull", "the environment")), worse.name
        _holds(after, decide(after))  # type: ignore[arg-type]  # it is a landing, by the line above


@pytest.mark.parametrize("worse", WORSE, ids=[worse.name for worse in WORSE])
def test_a_green_change_stops_at_each_piece_of_bad_news(worse: Worse) -> None:
    after = worse.apply(GREEN)
    assert after != GREEN
    assert not isinstance(decide(after), Land)


@MANY
@given(snapshots())
def test_what_finishes_can_be_completed(snapshot: Snapshot) -> None:
    decision = decide(snapshot)
    if isinstance(decision, Finish):
        assert (snapshot.task.state, Event.COMPLETE) in TRANSITIONS


@MANY
@given(snapshots(), st.sampled_from(WORSE))
def test_a_report_is_never_landed_nor_moved_toward_its_end_by_bad_news(snapshot: Snapshot, worse: Worse) -> None:
    snapshot = put(snapshot, "task.deliverable", Deliverable.REPORT)
    before, after = decide(snapshot), decide(worse.apply(snapshot))
    assert not isinstance(before, Land)
    if before.reason is not Reason.REPORT_APPROVED:
        assert after.reason is not Reason.REPORT_APPROVED, worse.name


REPORT_STOPS = {
    "a stop is asked for", "a hold", "a pause", "a rate limit", "no verdict", "rejected", "the environment failed",
    "the contract is broken", "newer evidence", "a newer attempt", "a sticky block", "cancelled", "an open intent",
    "refused too often", "too long at the front", "landed unproven",
}  # fmt: skip


@pytest.mark.parametrize("worse", WORSE, ids=[worse.name for worse in WORSE])
def test_an_approved_report_stops_at_what_concerns_it_and_at_nothing_else(worse: Worse) -> None:
    finishes = decide(worse.apply(report())).reason is Reason.REPORT_APPROVED
    assert finishes is (worse.name not in REPORT_STOPS)


def worlds() -> list[Snapshot]:
    """Every way to be wrong, alone and with each other one, and those alone where a check is overdue, no rule is set,
    or a report is asked for; each also with a first reading behind it."""
    ways = [(path, value) for path, values in WRONG.items() for value in values]
    overdue = green(remote__checks=Known(()), publication__checks_since=NOW - 3_600_000)
    bases = [green(), unruled(), report(), overdue]
    alone = [change(base, *way) for base in bases for way in ways]
    pairs = [change(change(GREEN, *one), *other) for one, other in combinations(ways, 2)]
    found = [*bases, *alone, *pairs]
    return [*found, *(agreed for s in found if (agreed := _agreed(s)) is not None)]


def _agreed(snapshot: Snapshot) -> Snapshot | None:
    first = decide(snapshot)
    if not (isinstance(first, Wait) and first.suspected and first.fingerprint):
        return None
    seen = Suspicion(first.suspected.value, first.fingerprint, snapshot.remote.read_at - 3_000)
    return put(snapshot, "earlier", seen)


def test_the_worlds_reach_every_reason_but_those_that_others_give() -> None:
    histogram = Counter(_kind(decide(snapshot)) for snapshot in worlds())
    for (kind, reason), count in sorted(histogram.items()):
        print(f"{kind:16} {reason:26} {count:6}")  # noqa: T201 - the histogram is read by people
    assert {reason for _, reason in histogram} == {reason.value for reason in Reason if reason not in ELSEWHERE}
    assert {kind for kind, _ in histogram} == {
        "confirm_landing", "finish", "nothing", "block", "wait", "propose", "run_gate", "return", "send_back",
        "update_branch", "land",
    }  # fmt: skip


def _kind(decision: Decision) -> tuple[str, str]:
    return name(decision), decision.reason.value


def test_rules_that_were_read_empty_are_not_rules_that_were_not_read() -> None:
    assert isinstance(decide(unruled(remote__rules=Known(Rules()))), Land)
