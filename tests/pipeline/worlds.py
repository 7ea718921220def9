"""Made-up worlds: near-green snapshots with a few things wrong, and what makes a fact worse."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from pipeline.checks import CONCLUSIONS
from pipeline.decide import decide
from pipeline.decisions import Wait
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
from tests.pipeline.builders import BASE, NOW, OWN_APP, TIP_TREE, check, green, put, report, sha, unruled

FACTS = ("tip", "head", "pull_request", "rules", "permissions", "checks", "reviews", "change")
HUGE = 10**30

# What can be wrong, by path. Green values stand among them, so that one world may have several ways back.
WRONG: dict[str, list[Any]] = {
    "intent": [IntentFacts("int_1", "pub_1"), IntentFacts("int_2", "pub_2")],
    "task.state": list(State),
    "task.attempts_left": [0, -1, HUGE],
    "task.sent_back": [2, 99],
    "task.environment_credits": [3],
    "task.stop_requested": [True],
    "task.held": [True],
    "task.project_paused": [True],
    "publication.landing": list(LandingRecord),
    "publication.refused_landings": [8, HUGE],
    "publication.superseded": [True],
    "publication.checks_since": [None, NOW - 3_600_000, NOW + HUGE],
    "publication.pushed_head": [None, BASE],
    "publication.blocked_for": ["check_failed", "no_gate", "conflict", "no_such_word", ""],
    "publication.blocked_sticky": [True],
    "evidence.current": [False],
    "evidence.verifier_green": [False],
    "evidence.verified_base": [BASE, ""],
    "evidence.head": [BASE],
    "verdict": [None],
    "verdict.result": list(VerdictResult),
    "verdict.person_needed": [("contract_edited",), ("undoes_landed_lines",), ("no_such_word",)],
    "verdict.deterministic": [True],
    "verdict.contract_broken": [True],
    "line.before": [("pub_0",), ("pub_0", "pub_3")],
    "line.passed": [3, HUGE],
    "line.front_ms": [HUGE],
    "line.yielded": [2, HUGE],
    "policy.required_checks": [("ci/more",), ("mac/landing",), ("mac/review",)],
    "policy.accepted": [frozenset({("ci/test", w)}) for w in (*CONCLUSIONS, "", "in_progress")],
    "policy.method": ["merge", "squash", "merge_api", "octopus"],
    "remote.read_at": [0, NOW + HUGE],
    "remote.rate_limited_until": [NOW + 5, NOW + HUGE],
    "remote.head": [Known(None), Known(BASE)],
    "remote.tip": [Known(sha(77)), Known("")],
    "remote.permissions": [Known(frozenset())],
    "remote.pull_request": [Known(None)],
    "remote.pull_request.open": [False],
    "remote.pull_request.merged": [True],
    "remote.pull_request.base": ["rel", "\ud800"],
    "remote.pull_request.head_ref": ["mac/other"],
    "remote.pull_request.head_sha": [BASE],
    "remote.pull_request.head_repository_id": [2],
    "remote.rules": [Known(Rules())],
    "remote.rules.strict": [False],
    "remote.rules.pull_request_required": [True],
    "remote.rules.approvals_required": [1],
    "remote.rules.conversations_required": [True],
    "remote.rules.linear_history": [True],
    "remote.rules.signatures_required": [True],
    "remote.rules.merge_queue": [True],
    "remote.rules.push_restricted": [True],
    "remote.rules.app_can_bypass": [True],
    "remote.rules.unknown": [("new_rule",)],
    "remote.rules.required_checks": [
        tuple(RequiredCheck(context, app, "ruleset") for context, app in pairs)
        for pairs in ([("ci/test", None)], [("ci/test", 99)], [("mac/review", None)], [("mac/landing", None)],
                      [("x", OWN_APP)], [("mac/review", 99)], [("ci/test", 15), ("ci/more", None)])
    ],
    "remote.checks": [
        Known(()),
        Known((check(None, status="in_progress"),)),
        *(Known((check(word),)) for word in (*CONCLUSIONS, None, "", "a_new_word")),
        *(Known((check(number=50), check(word, number=51))) for word in CONCLUSIONS),
        Known((check(number=50), check("failure", number=9))),
        Known((check(kind=CheckKind.STATUS, app=None, status="success"),)),
    ],
    "remote.reviews.approvals": [1],
    "remote.reviews.changes_requested": [1],
    "remote.reviews.conversations_open": [1],
    "remote.change.head": [BASE],
    "remote.change.tip": [sha(78)],
    "remote.change.contains_tip": [False],
    "remote.change.contains_verified_base": [False],
    "remote.change.contained_in_tip": [True],
    "remote.change.belongs": [False],
    "remote.change.merged_tree": [None, TIP_TREE],
    "remote.change.contract_met_at_tip": [False],
}  # fmt: skip


def change(snapshot: Snapshot, path: str, value: Any) -> Snapshot:
    """The snapshot with one thing changed, or as it was where the thing is not there to change."""
    try:
        return put(snapshot, path, value)
    except (AttributeError, TypeError):
        return snapshot


@st.composite
def snapshots(draw: st.DrawFn, wrong_max: int = 3) -> Snapshot:
    """A near-green snapshot with up to `wrong_max` things wrong, facts unread, and sometimes a first reading
    behind it that agrees."""
    snapshot: Snapshot = draw(st.sampled_from([green, green, green, unruled, unruled, report]))()
    for _ in range(draw(st.integers(0, wrong_max))):
        path = draw(st.sampled_from(sorted(WRONG)))
        snapshot = change(snapshot, path, draw(st.sampled_from(WRONG[path])))
    if draw(st.integers(0, 9)) == 0:
        snapshot = put(snapshot, f"remote.{draw(st.sampled_from(FACTS))}", Unknown("time_out"))
    first = decide(snapshot) if draw(st.booleans()) else None
    if isinstance(first, Wait) and first.fingerprint and first.suspected:
        seen = Suspicion(first.suspected.value, first.fingerprint, snapshot.remote.read_at - 3_000)
        snapshot = replace(snapshot, earlier=seen)
    return snapshot


@dataclass(frozen=True)
class Worse:
    """One way in which a fact gets worse: its name, and the change, that leaves a snapshot alone where it does not
    apply."""

    name: str
    apply: Callable[[Snapshot], Snapshot]


def _set(name: str, path: str, value: Any) -> Worse:
    """A fact that takes this value. What was not read does not get worse by being read, whatever it turns out to be."""

    def apply(s: Snapshot) -> Snapshot:
        room, _, fact = path.partition(".")
        read_now = isinstance(value, Known) and isinstance(getattr(getattr(s, room), fact, None), Unknown)
        return s if read_now else change(s, path, value)

    return Worse(name, apply)


def _checks(name: str, conclusion: str | None, status: str = "completed") -> Worse:
    """Every check of the head ends in another word than success."""

    def apply(s: Snapshot) -> Snapshot:
        if isinstance(s.remote.checks, Unknown):
            return s
        judged = tuple(replace(c, conclusion=conclusion, status=status) for c in s.remote.checks.value)
        return put(s, "remote.checks", Known(judged))

    return Worse(name, apply)


def _more(path: str, item: Any) -> Worse:
    def apply(s: Snapshot) -> Snapshot:
        rules = s.remote.rules
        return s if isinstance(rules, Unknown) else change(s, path, (*rules.value.required_checks, item))

    return Worse("a check more is required", apply)


STICKY = ("publication.blocked_sticky", True)

WORSE: tuple[Worse, ...] = (
    *(_set(f"{fact} is unread", f"remote.{fact}", Unknown("time_out")) for fact in FACTS if fact != "reviews"),
    *(_checks(f"checks are {word}", word) for word in (*CONCLUSIONS, "a_new_word", "", None) if word != "success"),
    _checks("checks run", None, "in_progress"),
    _set("checks are gone", "remote.checks", Known(())),
    _more("remote.rules.required_checks", RequiredCheck("ci/never", None, "ruleset")),
    _set("permissions are gone", "remote.permissions", Known(frozenset())),
    _set("a stop is asked for", "task.stop_requested", True),
    _set("a hold", "task.held", True),
    _set("a pause", "task.project_paused", True),
    _set("a rate limit", "remote.rate_limited_until", NOW + HUGE * 2),
    _set("a rule that nobody knows", "remote.rules.unknown", ("new_rule",)),
    _set("a merge queue", "remote.rules.merge_queue", True),
    _set("no push is admitted", "remote.rules.push_restricted", True),
    _set("the App could bypass", "remote.rules.app_can_bypass", True),
    _set("the tip moved", "remote.tip", Known(sha(0xABC))),
    _set("the head moved", "remote.head", Known(sha(0xABD))),
    _set("the head is a stranger's", "remote.change.belongs", False),
    _set("the head lacks the tip", "remote.change.contains_tip", False),
    _set("the head lacks its base", "remote.change.contains_verified_base", False),
    _set("it conflicts", "remote.change.merged_tree", None),
    _set("the tip has it", "remote.change.contained_in_tip", True),
    _set("the pull request is closed", "remote.pull_request.open", False),
    _set("the pull request is gone", "remote.pull_request", Known(None)),
    _set("the pull request is aimed elsewhere", "remote.pull_request.base", "rel"),
    _set("no verdict", "verdict", None),
    _set("rejected", "verdict.result", VerdictResult.REJECTED),
    _set("the environment failed", "verdict.result", VerdictResult.ENVIRONMENT),
    _set("the contract is broken", "verdict.contract_broken", True),
    _set("a person is needed", "verdict.person_needed", ("contract_edited",)),
    _set("newer evidence", "evidence.current", False),
    _set("a newer attempt", "publication.superseded", True),
    Worse("a sticky block", lambda s: change(put(s, "publication.blocked_for", "no_gate"), *STICKY)),
    _set("refused too often", "publication.refused_landings", 8),
    _set("cancelled", "task.state", State.CANCELLED),
    _set("landed unproven", "publication.landing", LandingRecord.UNPROVEN),
    _set("an open intent", "intent", IntentFacts("int_2", "pub_2")),
    _set("too long at the front", "line.front_ms", HUGE),
)

# Reasons that `decide` never gives, each with who gives it.
ELSEWHERE = {
    Reason.SLOT_TAKEN: "the land slot is asked for after the decision, by the publication worker",
    Reason.FAILED_ALIKE: "an attempt that fails hands in no evidence, so that nothing is decided about it",
}

