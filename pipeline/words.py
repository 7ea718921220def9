"""Every sentence that the hub says to people, in one place: one reason, one sentence, on every surface.

What comes from outside (titles, bodies, branch names) is hostile here: `plain` takes every mention, reference,
keyword and directive out of it before it goes into a commit message, a pull request or a check run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.decisions import Decision, name
from pipeline.reasons import Reason
from pipeline.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Words:
    """What a reason means, and what would change it (None where nothing needs to)."""

    means: str
    would_change: str | None = None


WORDS: Mapping[Reason, Words] = {
    Reason.INTENT_UNSETTLED: Words("A landing was begun; the hub reads the remote to settle it."),
    Reason.INTENT_OPEN: Words("Another landing on this branch is being settled.", "That landing is settled."),
    Reason.PROOF_VERIFIED: Words("The landing is proven."),
    Reason.REPORT_APPROVED: Words("The report is approved."),
    Reason.TASK_TERMINAL: Words("The task is {state}; nothing is left to do."),
    Reason.STOPPED: Words("The task is stopped.", "An operator starts it again."),
    Reason.SUPERSEDED: Words("A newer attempt has taken over."),
    Reason.NOT_OURS: Words("The task is {state}; this publication is over."),
    Reason.LANDED_UNPROVEN: Words(
        "The change is on the branch, and the hub could not prove how.", "An operator looks at it and retries."
    ),
    Reason.LANDED_UNATTRIBUTED: Words(
        "The change is on the branch, but the hub did not put it there.", "An operator looks at it and retries."
    ),
    Reason.ALREADY_CONTAINED: Words(
        "The branch contains this change already, without the hub ({how}).", "An operator looks at it and retries."
    ),
    Reason.REJECTED_FOR_GOOD: Words("The work was rejected, and no attempt is left.", "An operator grants a retry."),
    Reason.BUDGET_SPENT: Words("The environment failed too often.", "An operator mends it and grants a retry."),
    Reason.FAILED_ALIKE: Words("Two workers failed at this for the same reason ({code}).", "New work with another task."),
    Reason.SEND_BACKS_SPENT: Words("The task was sent back as often as it may be.", "An operator grants a retry."),
    Reason.LANDINGS_REFUSED: Words("The landing was refused {refused} times.", "An operator grants a retry."),
    Reason.FRONT_TIME_SPENT: Words("The change stood at the front of the line too long.", "An operator grants a retry."),
    Reason.CHECK_NEVER_FINISHED: Words("The check {context} never finished.", "An operator mends CI and grants a retry."),
    Reason.UNKNOWN: Words("The hub could not read {fact} ({why}).", "The next look reads it."),
    Reason.UNCONFIRMED: Words("One reading says so; the hub waits for a second one that agrees.", "The next look."),
    Reason.PROJECT_PAUSED: Words("The project is paused.", "An operator resumes it."),
    Reason.HELD: Words("The task is held.", "An operator releases it."),
    Reason.RATE_LIMITED: Words("GitHub asked the hub to wait.", "The limit ends."),
    Reason.SLOT_TAKEN: Words("Another worker is moving this branch.", "It is done, or its slot expires."),
    Reason.HEAD_NOT_PUSHED: Words("The head is not on the task's branch yet; the hub pushes it."),
    Reason.PULL_REQUEST_ABSENT: Words("There is no pull request yet; the hub opens it."),
    Reason.PULL_REQUEST_CLOSED: Words("The pull request #{number} is closed.", "Somebody reopens it."),
    Reason.PULL_REQUEST_RETARGETED: Words(
        "The pull request #{number} aims at {base}.", "Somebody aims it at the canonical branch again."
    ),
    Reason.HEAD_NOT_OF_EVIDENCE: Words(
        "The head on the remote is {found}, which is not of this evidence.", "The branch stands at the evidence again."
    ),
    Reason.PERMISSION_MISSING: Words("The App lacks permissions: {missing}.", "An owner grants them."),
    Reason.NO_GUARDED_METHOD: Words(
        "These rules leave no guarded way to land.",
        "Require mac/review with branches up to date, or admit the App to push.",
    ),
    Reason.MERGE_QUEUE_REQUIRED: Words("The branch requires a merge queue.", "The rule is lifted for this branch."),
    Reason.UNKNOWN_RULE: Words("The branch has rules that this version does not know: {rules}.", "They are lifted."),
    Reason.APP_CAN_BYPASS: Words(
        "The App could bypass the rules that it must obey.", "An owner takes the App off the bypass list."
    ),
    Reason.OWN_CHECK_REQUIRED: Words(
        "The branch requires {context}, which the hub reports only after landing.", "The requirement is dropped."
    ),
    Reason.IMPOSSIBLE_CHECK: Words(
        "The required check {context} is pinned to an App that does not report it.", "The pin is mended."
    ),
    Reason.CHECK_FAILED: Words("The required check {context} is {conclusion}.", "It is run again and passes."),
    Reason.CONTRACT_BROKEN: Words("The contract on the branch cannot be read.", "It is mended, and a retry granted."),
    Reason.GATE_NOT_RUN: Words("The gate has not judged this evidence yet."),
    Reason.VERDICT_REJECTED: Words("The gate rejected the evidence; the task returns with its findings."),
    Reason.VERDICT_ENVIRONMENT: Words("The environment failed, not the work; the task returns."),
    Reason.CONFLICT: Words("The change conflicts with the tip; the task returns to be rebased."),
    Reason.CONTRACT_CHANGED: Words("The contract on the tip asks for more; the task returns to meet it."),
    Reason.CANONICAL_MOVED: Words("The branch has moved on."),
    Reason.CONTRACT_EDITED: Words("The change edits the contract that judges it.", "A person waves it through."),
    Reason.UNDOES_LANDED_LINES: Words("The change takes back what landed lately.", "A person waves it through."),
    Reason.APPROVALS_MISSING: Words("{approvals} of {required} approvals are given.", "People approve it."),
    Reason.CONVERSATIONS_OPEN: Words("{open} conversations are open.", "They are resolved."),
    Reason.AUTHOR_MUST_UPDATE: Words("The author's branch is behind.", "The author brings it up to date."),
    Reason.NOT_FIRST: Words("Others are before it in the line (place {place}).", "Its turn comes."),
    Reason.CHECKS_PENDING: Words("The required check {context} is {state}.", "It passes."),
    Reason.CHECKS_OVERDUE: Words("The required check {context} is overdue ({state}).", "It passes."),
    Reason.NO_GATE: Words("Neither a required check nor a verifier run vouches for this head.", "One of them does."),
    Reason.GATE_GREEN: Words("Everything is settled; the hub lands it."),
}


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def explain(reason: Reason, facts: Mapping[str, object]) -> str:
    """The sentence for a reason. A fact that is missing shows as `?`: a sentence never fails for want of a fact."""
    shown = {k: ", ".join(map(str, v)) if isinstance(v, list | tuple) else v for k, v in facts.items()}
    return WORDS[reason].means.format_map(_Lenient(shown))


def would_change(reason: Reason) -> list[str]:
    """What would change a decision with this reason, as sentences; empty where the hub goes on by itself."""
    sentence = WORDS[reason].would_change
    return [] if sentence is None else [sentence]


# --- what comes from outside

_CLOSING = re.compile(r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(\s*:?\s+)(?=\S*#|https?://)", re.IGNORECASE)
_SKIP = re.compile(
    r"\[\s*(?:skip|no)[\s-]*(?:ci|actions|checks?)\s*\]|\[\s*(?:ci|actions)[\s-]*skip\s*\]|\*\*\*no_ci\*\*\*",
    re.IGNORECASE,
)
_TRAILER = re.compile(r"^(\s*[A-Za-z0-9-]+)(\s*):", re.MULTILINE)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_REFERENCE = re.compile(r"[@#&]|\bGH-", re.IGNORECASE)  # & too: an entity can spell the other two
_ZERO_WIDTH = "\u2060"


def plain(text: str, chars_max: int = 200) -> str:
    """Text from outside, made harmless: no mention, reference, closing keyword, skip directive or trailer is left in
    it."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _SKIP.sub("(skip directive removed)", text)
    text = _CLOSING.sub(r"\1" + _ZERO_WIDTH + r"\2", text)
    text = _REFERENCE.sub(lambda found: found[0] + _ZERO_WIDTH, text)
    text = re.sub(r"(https?):(?=//)", r"\1" + _ZERO_WIDTH + ":", text, flags=re.IGNORECASE)
    text = _TRAILER.sub(r"\1\2" + _ZERO_WIDTH + ":", text)
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def one_line(text: str, chars_max: int = 72) -> str:
    """A harmless single line, for subjects and titles."""
    return plain(" ".join(text.split()), chars_max) or "untitled"


# --- pull requests, commits, check runs


def pull_request_title(title: str) -> str:
    """The title of the pull request that the hub opens for a task."""
    return one_line(title, 120)


def pull_request_body(task: str, body: str, summary: str) -> str:
    """Its body: what was asked, what the executor says it did, and which task it belongs to."""
    return (
        f"{plain(body, 4000)}\n\n---\n\n**What the executor says**\n\n{plain(summary, 4000)}\n\n"
        f"Opened by mac hub for `{task}`. The hub reviews the recorded evidence, lands the change and proves it; "
        "merging by hand leaves the task without a proof."
    )


def commit_message(title: str, task: str, number: int | None) -> str:
    """The message of a commit that the hub builds; the trailer that attributes it to its intent is added to it."""
    origin = f"Lands pull request {number} for {task}." if number is not None else f"Lands {task}."
    return f"{one_line(title)}\n\n{origin}\n"


def update_message(task: str, tip: str) -> str:
    """The message of an update commit on a task's branch."""
    return f"Bring the branch up to date\n\nMerges {tip[:12]} into the change of {task}.\n"


@dataclass(frozen=True, slots=True)
class Report:
    """A check run as the hub reports it: conclusion None means that it is in progress."""

    name: str
    title: str
    summary: str
    conclusion: str | None


REVIEW, LANDING = "mac/review", "mac/landing"


def review_report(verdict: Verdict) -> Report:
    """The `mac/review` check run of a verdict: success only for an approved one that needs no person."""
    waiting = [f for f in verdict.findings if f.weight == "person"]
    conclusions = {"rejected": "failure", "environment": "neutral"}
    conclusion = conclusions.get(verdict.result.value, "action_required" if waiting else "success")
    titles = {
        "success": "The evidence meets the contract",
        "action_required": "A person must wave this through",
        "failure": "The evidence does not meet the contract",
        "neutral": "Not judged: the environment failed",
    }
    lines = [f"- `{f.code}` {plain(f.path or '', 300)} {plain(f.sentence, 500)}" for f in verdict.findings[:50]]
    digests = f"Evidence `{verdict.evidence_digest[:16]}`, contract `{verdict.contract_digest[:16]}`."
    return Report(REVIEW, titles[conclusion], "\n".join([digests, "", *lines]).strip(), conclusion)


def landing_report(decision: Decision) -> Report:
    """The `mac/landing` check run: the same decision and reason that the API and the command line show."""
    kind = name(decision)
    sentence = explain(decision.reason, decision.facts)
    conclusion = {"block": "action_required", "finish": "success", "return": "failure", "send_back": "neutral"}.get(kind)
    changes = "".join(f"\n\nWhat would change it: {s}" for s in would_change(decision.reason))
    return Report(LANDING, f"{kind}: {decision.reason.value}", plain(sentence, 1000) + changes, conclusion)


def told_as(decision: Decision) -> tuple[str, str]:
    """The pair of words under which a decision is known everywhere: what is done, and why."""
    return name(decision), decision.reason.value


def landed_report(landed: str, proof: str) -> Report:
    """The `mac/landing` check run of a proven landing."""
    return Report(LANDING, "Landed and proven", f"Landed as {landed}. Proof `{proof}`.", "success")
