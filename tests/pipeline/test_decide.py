"""Each row of the decision table: a green world, one change, one decision; and never a landing beside it."""

from typing import Any

import pytest

from pipeline.decide import decide
from pipeline.decisions import (
    Block,
    ConfirmLanding,
    Decision,
    Finish,
    GateKind,
    Land,
    Method,
    Nothing,
    Propose,
    Return,
    RunGate,
    SendBack,
    UpdateBranch,
    Wait,
    name,
)
from pipeline.facts import (
    CheckKind,
    IntentFacts,
    Known,
    LandingRecord,
    RequiredCheck,
    Rules,
    Snapshot,
    Suspicion,
    Unknown,
    VerdictResult,
)
from pipeline.reasons import Reason
from pipeline.states import State
from tests.pipeline.builders import (
    BASE,
    HEAD,
    HEAD_TREE,
    NOW,
    OWN_APP,
    TIP,
    TIP_TREE,
    check,
    green,
    put,
    report,
    sha,
    unruled,
)

NO_TIP = {"remote__change__contains_tip": False}
PENDING = Known((check(None, status="in_progress"),))
PR_RULES = Rules(required_checks=(RequiredCheck("ci/test", 15, "ruleset"),), pull_request_required=True)


def settled(snapshot: Snapshot) -> Decision:
    """The decision once a second reading, late enough, has agreed with the first."""
    first = decide(snapshot)
    if isinstance(first, Wait) and first.fingerprint and first.suspected:
        snapshot = put(snapshot, "earlier", Suspicion(first.suspected.value, first.fingerprint, NOW - 3_000))
    return decide(snapshot)


def test_a_green_change_lands_as_planned() -> None:
    decision = decide(green())
    assert isinstance(decision, Land)
    plan = decision.plan
    assert (plan.expected_tip, plan.tested, plan.tested_tree) == (TIP, HEAD, HEAD_TREE)
    assert (plan.method, plan.gate.kind, len(plan.gate.checks)) == (Method.FAST_FORWARD, GateKind.REQUIRED_CHECKS, 1)


def test_without_rules_the_verifier_run_is_the_gate() -> None:
    decision = decide(unruled())
    assert isinstance(decision, Land)
    assert (decision.plan.gate.kind, decision.plan.gate.checks) == (GateKind.VERIFIER, ())


ROWS: list[tuple[str, Snapshot, type[Decision], Reason]] = [
    ("an open intent is settled first", green(intent=IntentFacts("int_1", "pub_1")), ConfirmLanding,
     Reason.INTENT_UNSETTLED),
    ("the intent of a neighbour is waited for", green(intent=IntentFacts("int_2", "pub_2")), Wait, Reason.INTENT_OPEN),
    ("an open intent beats a stop", green(intent=IntentFacts("int_1", "pub_1"), task__stop_requested=True),
     ConfirmLanding, Reason.INTENT_UNSETTLED),
    ("an open intent beats a terminal task", green(intent=IntentFacts("int_1", "pub_1"), task__state=State.CANCELLED),
     ConfirmLanding, Reason.INTENT_UNSETTLED),
    ("a proof finishes", green(publication__landing=LandingRecord.PROVEN), Finish, Reason.PROOF_VERIFIED),
    ("a proof beats a stop", green(publication__landing=LandingRecord.PROVEN, task__stop_requested=True), Finish,
     Reason.PROOF_VERIFIED),
    ("a finished task is over", green(publication__landing=LandingRecord.PROVEN, task__state=State.COMPLETED), Nothing,
     Reason.TASK_TERMINAL),
    ("a stop ends it", green(task__stop_requested=True), Nothing, Reason.STOPPED),
    ("a stopped task is over", green(task__state=State.STOPPED), Nothing, Reason.STOPPED),
    ("a newer attempt takes over", green(publication__superseded=True), Nothing, Reason.SUPERSEDED),
    ("newer evidence takes over", green(evidence__current=False), Nothing, Reason.SUPERSEDED),
    ("a task that was given back is not ours", green(task__state=State.OPEN), Nothing, Reason.NOT_OURS),
    ("landed without proof", green(publication__landing=LandingRecord.UNPROVEN), Block, Reason.LANDED_UNPROVEN),
    ("landed by another", green(publication__landing=LandingRecord.UNATTRIBUTED), Block, Reason.LANDED_UNATTRIBUTED),
    ("a broken contract", green(verdict__contract_broken=True), Block, Reason.CONTRACT_BROKEN),
    ("rejected with no attempt left", green(verdict__result=VerdictResult.REJECTED, task__attempts_left=0), Block,
     Reason.REJECTED_FOR_GOOD),
    ("rejected alike by two", green(verdict__result=VerdictResult.REJECTED, verdict__deterministic=True), Block,
     Reason.REJECTED_FOR_GOOD),
    ("the environment failed too often",
     green(verdict__result=VerdictResult.ENVIRONMENT, task__environment_credits=3), Block, Reason.BUDGET_SPENT),
    ("refused eight times", green(publication__refused_landings=8), Block, Reason.LANDINGS_REFUSED),
    ("too long at the front", green(line__front_ms=24 * 3_600_000), Block, Reason.FRONT_TIME_SPENT),
    ("landed by hand", green(remote__change__contained_in_tip=True), Block, Reason.ALREADY_CONTAINED),
    ("the merge is the tip", green(remote__change__merged_tree=TIP_TREE), Block, Reason.ALREADY_CONTAINED),
    ("the head is the tip's tree", green(remote__change__head_tree=TIP_TREE), Block, Reason.ALREADY_CONTAINED),
    ("merged on GitHub", green(remote__pull_request__merged=True), Block, Reason.ALREADY_CONTAINED),
    ("the project is paused", green(task__project_paused=True), Wait, Reason.PROJECT_PAUSED),
    ("the task is held", green(task__held=True), Wait, Reason.HELD),
    ("GitHub asks to wait", green(remote__rate_limited_until=NOW + 5), Wait, Reason.RATE_LIMITED),
    ("a permission is missing", green(remote__permissions=Known(frozenset())), Block, Reason.PERMISSION_MISSING),
    ("the pull request is closed", green(remote__pull_request__open=False), Block, Reason.PULL_REQUEST_CLOSED),
    ("the pull request is aimed elsewhere", green(remote__pull_request__base="rel"), Block,
     Reason.PULL_REQUEST_RETARGETED),
    ("nothing is pushed", green(remote__head=Known(None)), Propose, Reason.HEAD_NOT_PUSHED),
    ("an older push of ours is moved on", green(remote__change__belongs=False), Propose, Reason.HEAD_NOT_PUSHED),
    ("a stranger's push", green(remote__change__belongs=False, publication__pushed_head=BASE), Block,
     Reason.HEAD_NOT_OF_EVIDENCE),
    ("a head that moved while reading", green(remote__head=Known(sha(99))), Block, Reason.HEAD_NOT_OF_EVIDENCE),
    ("pushed by a hub that could not say so", green(publication__pushed_head=None), Propose, Reason.HEAD_NOT_PUSHED),
    ("what an earlier attempt pushed, recorded or not", green(
        remote__change__belongs=False, remote__head=Known(BASE), publication__own_heads=frozenset({BASE})),
     Propose, Reason.HEAD_NOT_PUSHED),
    ("the pull request of another branch", green(remote__pull_request__head_ref="mac/other"), Block,
     Reason.HEAD_NOT_OF_EVIDENCE),
    ("no pull request", green(remote__pull_request=Known(None)), Propose, Reason.PULL_REQUEST_ABSENT),
    ("GitHub's head lags", green(remote__pull_request__head_sha=BASE), Wait, Reason.UNKNOWN),
    ("an unknown rule", green(remote__rules__unknown=("x",)), Block, Reason.UNKNOWN_RULE),
    ("the App could bypass", green(remote__rules__app_can_bypass=True), Block, Reason.APP_CAN_BYPASS),
    ("a merge queue", green(remote__rules__merge_queue=True), Block, Reason.MERGE_QUEUE_REQUIRED),
    ("our landing check is required",
     green(remote__rules__required_checks=(RequiredCheck("mac/landing", None, "ruleset"),)), Block,
     Reason.OWN_CHECK_REQUIRED),
    ("our landing check is required by the contract", green(policy__required_checks=("mac/landing",)), Block,
     Reason.OWN_CHECK_REQUIRED),
    ("a check that only we could report", green(remote__rules__required_checks=(RequiredCheck("x", OWN_APP, "r"),)),
     Block, Reason.IMPOSSIBLE_CHECK),
    ("our review, pinned to another", green(remote__rules__required_checks=(RequiredCheck("mac/review", 99, "r"),)),
     Block, Reason.IMPOSSIBLE_CHECK),
    ("no push is admitted", green(remote__rules__push_restricted=True), Block, Reason.NO_GUARDED_METHOD),
    ("pull requests without up to date", green(remote__rules=Known(PR_RULES)), Block, Reason.NO_GUARDED_METHOD),
    ("a method that nobody knows", unruled(policy__method="octopus"), Block, Reason.NO_GUARDED_METHOD),
    ("a red check", green(remote__checks=Known((check("failure"),))), Block, Reason.CHECK_FAILED),
    ("no verdict yet", green(verdict=None), RunGate, Reason.GATE_NOT_RUN),
    ("rejected with attempts left", green(verdict__result=VerdictResult.REJECTED), Return, Reason.VERDICT_REJECTED),
    ("the environment failed", green(verdict__result=VerdictResult.ENVIRONMENT), Return, Reason.VERDICT_ENVIRONMENT),
    ("the tip's contract asks for more", green(remote__change__contract_met_at_tip=False), SendBack,
     Reason.CONTRACT_CHANGED),
    ("what it was built on was taken off the branch", green(remote__change__builds_on_tip=False), SendBack,
     Reason.CANONICAL_MOVED),
    ("a conflict", green(remote__change__merged_tree=None), SendBack, Reason.CONFLICT),
    ("a conflict too many", green(remote__change__merged_tree=None, task__sent_back=2), Block,
     Reason.SEND_BACKS_SPENT),
    ("the contract is edited", green(verdict__person_needed=("contract_edited",)), Wait, Reason.CONTRACT_EDITED),
    ("landed lines are undone", green(verdict__person_needed=("undoes_landed_lines",)), Wait,
     Reason.UNDOES_LANDED_LINES),
    ("an approval is missing", green(remote__rules__approvals_required=1), Wait, Reason.APPROVALS_MISSING),
    ("conversations are open", green(remote__rules__conversations_required=True,
     remote__reviews__conversations_open=2), Wait, Reason.CONVERSATIONS_OPEN),
    ("a fork's author must update, beside the line",
     green(remote__pull_request__head_repository_id=2, line__before=("pub_0",), **NO_TIP), Wait,
     Reason.AUTHOR_MUST_UPDATE),
    ("somebody is first", green(line__before=("pub_0",), remote__checks=PENDING), Wait, Reason.NOT_FIRST),
    ("the tip moved", green(**NO_TIP), UpdateBranch, Reason.CANONICAL_MOVED),
    ("the tip moved under linear history", green(remote__rules__linear_history=True, **NO_TIP), SendBack,
     Reason.CANONICAL_MOVED),
    ("the tip moved without rules", unruled(evidence__verified_base=BASE), SendBack, Reason.CANONICAL_MOVED),
    ("a check runs", green(remote__checks=PENDING), Wait, Reason.CHECKS_PENDING),
    ("a check is absent", green(remote__checks=Known(())), Wait, Reason.CHECKS_PENDING),
    ("a check is overdue", green(remote__checks=PENDING, publication__checks_since=NOW - 3_600_000), Wait,
     Reason.CHECKS_OVERDUE),
    ("a check is overdue for the second time",
     green(remote__checks=PENDING, publication__checks_since=NOW - 3_600_000, line__yielded=1), Wait,
     Reason.CHECKS_OVERDUE),
    ("a check is overdue for the third time",
     green(remote__checks=PENDING, publication__checks_since=NOW - 3_600_000, line__yielded=2), Block,
     Reason.CHECK_NEVER_FINISHED),
    ("nothing vouches", unruled(evidence__verifier_green=False), Block, Reason.NO_GATE),
    ("the head lacks the verified base", unruled(remote__change__contains_verified_base=False), Block, Reason.NO_GATE),
    ("an approved report finishes", report(), Finish, Reason.REPORT_APPROVED),
    ("a report waits for its verdict", report(verdict=None), RunGate, Reason.GATE_NOT_RUN),
    ("a rejected report returns", report(verdict__result=VerdictResult.REJECTED), Return, Reason.VERDICT_REJECTED),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "kind", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_table(snapshot: Snapshot, kind: type[Decision], reason: Reason) -> None:
    decision = settled(snapshot)
    assert (name(decision), decision.reason) == (name_of(kind), reason)
    assert not isinstance(decide(snapshot), Land)


def name_of(kind: type[Decision]) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


@pytest.mark.parametrize("fact", ["tip", "head", "pull_request", "rules", "permissions", "checks", "change"])
def test_a_fact_that_was_not_read_is_waited_for(fact: str) -> None:
    decision = decide(put(green(), f"remote.{fact}", Unknown("time_out")))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.facts) == (Reason.UNKNOWN, {"fact": fact, "why": "time_out"})


def test_reviews_are_not_asked_for_where_no_rule_wants_them() -> None:
    assert isinstance(decide(green(remote__reviews=Unknown("time_out"))), Land)
    asked = decide(green(remote__reviews=Unknown("time_out"), remote__rules__approvals_required=1))
    assert asked.facts == {"fact": "reviews", "why": "time_out"}


def test_an_unread_fact_waits_at_its_row_and_an_earlier_row_goes_first() -> None:
    assert decide(green(remote__checks=Unknown("x"), remote__pull_request__open=False)).reason is Reason.UNCONFIRMED
    assert decide(green(remote__rules=Unknown("x"), verdict=None)).reason is Reason.UNKNOWN


def test_a_sticky_block_stands_whatever_the_remote_says() -> None:
    for changes in ({}, {"remote__change": Unknown("x")}, {"task__project_paused": True}):
        decision = decide(green(publication__blocked_for="check_failed", publication__blocked_sticky=True, **changes))
        assert decision == Block(Reason.CHECK_FAILED, sticky=True)


def test_a_block_on_facts_ends_with_the_fact() -> None:
    assert isinstance(decide(green(publication__blocked_for="check_failed")), Land)


def test_a_standing_block_needs_no_second_reading_again() -> None:
    red = green(remote__checks=Known((check("failure"),)), publication__blocked_for="check_failed")
    assert isinstance(decide(red), Block)


@pytest.mark.parametrize(
    ("read_at", "confirmed"), [(NOW, False), (NOW + 2_999, False), (NOW + 3_000, True), (NOW + 99_000, True)]
)
def test_a_block_on_the_remote_needs_two_readings_some_seconds_apart(read_at: int, confirmed: bool) -> None:
    red = green(remote__checks=Known((check("failure"),)))
    first = decide(red)
    assert isinstance(first, Wait)
    assert (first.reason, first.suspected) == (Reason.UNCONFIRMED, Reason.CHECK_FAILED)
    earlier = Suspicion("check_failed", first.fingerprint or "", NOW)
    second = decide(put(put(red, "earlier", earlier), "remote.read_at", read_at))
    assert isinstance(second, Block) is confirmed
    assert isinstance(second, Wait) is not confirmed


def test_a_second_reading_that_says_something_else_begins_anew() -> None:
    red = green(remote__checks=Known((check("failure"),)), earlier=Suspicion("check_failed", "other", NOW - 60_000))
    decision = decide(red)
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.next_look_at) == (Reason.UNCONFIRMED, NOW + 3_000)


@pytest.mark.parametrize(("passed", "lands"), [(0, True), (2, True), (3, False)])
def test_a_green_change_passes_those_before_it_three_times_at_most(passed: int, lands: bool) -> None:
    decision = decide(green(line__before=("pub_0",), line__passed=passed))
    assert isinstance(decision, Land) is lands
    assert (decision.reason is Reason.NOT_FIRST) is not lands


def test_an_overdue_check_gives_up_the_place_at_the_front() -> None:
    decision = decide(green(remote__checks=PENDING, publication__checks_since=NOW - 3_600_000))
    assert isinstance(decision, Wait)
    assert decision.go_behind
    earlier = decide(green(remote__checks=PENDING, publication__checks_since=NOW - 3_599_999))
    assert isinstance(earlier, Wait)
    assert not earlier.go_behind


def test_a_tip_that_moved_between_two_readings_is_no_picture() -> None:
    decision = decide(green(remote__tip=Known(sha(77))))
    assert decision.facts == {"fact": "change", "why": "tip_moved_while_reading"}


@pytest.mark.parametrize(
    ("linear", "method"), [(False, Method.MERGE_API), (True, Method.SQUASH_API)]
)  # fmt: skip
def test_where_pull_requests_are_required_and_strict_github_merges(linear: bool, method: Method) -> None:
    decision = decide(green(remote__rules__pull_request_required=True, remote__rules__linear_history=linear))
    assert isinstance(decision, Land)
    assert decision.plan.method is method


def test_our_own_review_check_is_not_part_of_the_gate() -> None:
    only_review = Rules(required_checks=(RequiredCheck("mac/review", OWN_APP, "r"),), strict=True)
    decision = decide(unruled(remote__rules=Known(only_review)))
    assert isinstance(decision, Land)
    assert decision.plan.gate.kind is GateKind.VERIFIER


@pytest.mark.parametrize("path", ["publication__blocked_for", "verdict__person_needed"])
def test_a_word_of_the_ledger_that_is_unknown_is_waited_for(path: str) -> None:
    value: Any = "no_such_reason" if "blocked" in path else ("no_such_reason",)
    decision = decide(green(publication__blocked_sticky=True, **{path: value}))
    assert decision.facts["why"] == "unknown_word"


def test_a_status_cannot_stand_in_for_a_pinned_run() -> None:
    decision = decide(green(remote__checks=Known((check(kind=CheckKind.STATUS, app=None),))))
    assert decision.facts["state"] == "wrong_app"
