"""Judging an update of a branch, and a merge, against what the branch demands.

The sentences are those that GitHub answers on a push (GH006 for classic protection, GH013 for rulesets) and on a
merge; docs/sandbox.md names where each is on public record.
"""

import urllib.parse
from dataclasses import dataclass

from tests.sandbox.auth import Caller
from tests.sandbox.demands import Demands, Layer, demands_on
from tests.sandbox.gitdir import ZERO, GitDir
from tests.sandbox.shape_checks import latest, newest_statuses
from tests.sandbox.world import Pull, Repository, RequiredCheck

PASSING = ("success", "neutral", "skipped")


@dataclass(frozen=True)
class Update:
    """One ref's move, as receive-pack names it; `ZERO` stands for absence."""

    ref: str
    old: str
    new: str


@dataclass(frozen=True)
class Violation:
    """One sentence against an update, and the layer that it is from."""

    layer: Layer
    sentence: str


def check_state(repository: Repository, sha: str, required: RequiredCheck) -> str:
    """`passing`, `failing`, `pending` or `absent`: what a required check is at a commit.

    Runs and statuses of that name count together; a pinned one counts only from its App. As on the real thing,
    neutral and skipped pass, and one bad producer is enough to fail an unpinned name.
    """
    here = [r for r in repository.runs if r.suite.head_sha == sha and r.name == required.context]
    runs = [r for r in latest(here) if required.app_id in (None, r.suite.app.id)]
    statuses = [
        status
        for status in newest_statuses(repository, sha)
        if status.context == required.context and required.app_id in (None, status.app_id)
    ]
    found = [_word(run.status == "completed", run.conclusion in PASSING) for run in runs]
    found += [_word(status.state != "pending", status.state == "success") for status in statuses]
    for word in ("failing", "pending", "passing"):
        if word in found:
            return word
    return "absent"


def _word(finished: bool, good: bool) -> str:
    return "pending" if not finished else "passing" if good else "failing"


def check_sentences(repository: Repository, sha: str, checks: list[RequiredCheck]) -> list[str]:
    """What is said about the required checks that are not green; nothing if all are."""
    words = {check.context: check_state(repository, sha, check) for check in checks}
    open_ones = {context: word for context, word in words.items() if word != "passing"}
    if len(open_ones) > 1:
        kinds = {"failing": "failing", "pending": "in progress", "absent": "expected"}
        worst = next(text for word, text in kinds.items() if word in open_ones.values())
        return [f"{len(open_ones)} of {len(words)} required status checks are {worst}."]
    verbs = {"failing": "failing", "pending": "in progress", "absent": "expected"}
    return [f'Required status check "{context}" is {verbs[word]}.' for context, word in open_ones.items()]


def judge_update(repository: Repository, git: GitDir, caller: Caller, update: Update) -> list[Violation]:
    """Everything that stands against a direct move of a ref (a push, or the refs API)."""
    found: list[Violation] = []
    for demands in demands_on(repository, update.ref, caller, "push"):
        found += [Violation(demands.layer, text) for text in _sentences(repository, git, demands, update)]
    return found


def _sentences(repository: Repository, git: GitDir, demands: Demands, update: Update) -> list[str]:
    if update.new == ZERO:
        return ["Cannot delete this branch"] if demands.no_deletion else []
    if update.old == ZERO and demands.layer == "classic":
        return []
    said: list[str] = []
    if update.old == ZERO and demands.no_creation:
        said.append("Cannot create ref due to creations being restricted.")
    if update.old != ZERO and demands.no_update:
        said.append("Cannot update this protected ref.")
    if update.old != ZERO and demands.no_force and not git.is_ancestor(update.old, update.new):
        said.append("Cannot force-push to this branch")
    if demands.merge_queue:
        said.append("Changes must be made through the merge queue")
    if demands.pull_request:
        said.append("Changes must be made through a pull request.")
    said += history_sentences(git, demands, update)
    if update.old != ZERO or demands.checks_on_create:
        said += check_sentences(repository, update.new, demands.checks)
    return said


def history_sentences(git: GitDir, demands: Demands, update: Update) -> list[str]:
    """What the commits between old and new do not fulfil: linear history, signatures."""
    if not (demands.linear_history or demands.signatures):
        return []
    span = [update.new] if update.old == ZERO else [f"{update.old}..{update.new}"]
    said: list[str] = []
    if demands.linear_history and git.count("--merges", *span):
        said.append("This branch must not contain merge commits.")
    if demands.signatures and any(not git.commit(facts.sha).signed for facts in git.log(*span)):
        said.append("Commits must have verified signatures.")
    return said


def judge_merge(repository: Repository, git: GitDir, caller: Caller, pull: Pull, method: str) -> list[Violation]:
    """Everything that stands against merging a pull request by this method."""
    found: list[Violation] = []
    for demands in demands_on(repository, f"refs/heads/{pull.base_ref}", caller, "merge"):
        found += [Violation(demands.layer, text) for text in _merge_sentences(repository, git, demands, pull, method)]
    return found


def _merge_sentences(repository: Repository, git: GitDir, demands: Demands, pull: Pull, method: str) -> list[str]:
    said: list[str] = []
    if demands.merge_queue:
        said.append("Changes must be made through the merge queue")
    if demands.no_update:
        said.append("Cannot update this protected ref.")
    if approvals(pull) < demands.approvals:
        noun = "review is" if demands.approvals == 1 else "reviews are"
        said.append(f"At least {demands.approvals} approving {noun} required by reviewers with write access.")
    if demands.linear_history and method == "merge":
        said.append("This branch must not contain merge commits.")
    if demands.methods is not None and method not in demands.methods:
        said.append(f"{method.capitalize()} merges are not allowed on this branch.")
    if demands.strict and is_behind(git, pull):
        return said + expected_sentences(demands.checks)
    return said + check_sentences(repository, pull.head_sha, demands.checks)


def expected_sentences(checks: list[RequiredCheck]) -> list[str]:
    """What a merge of a head that is behind is told: all checks are expected, however green they are."""
    if len(checks) > 1:
        return [f"{len(checks)} of {len(checks)} required status checks are expected."]
    return [f'Required status check "{check.context}" is expected.' for check in checks]


def is_behind(git: GitDir, pull: Pull) -> bool:
    tip = git.tip(f"refs/heads/{pull.base_ref}")
    return tip is not None and not git.is_ancestor(tip, pull.head_sha)


def approvals(pull: Pull) -> int:
    """How many people's newest opinion is an approval; one that asks for changes makes it minus one."""
    newest: dict[int, str] = {}
    for review in pull.reviews:
        if review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED"):
            newest[review.user.id] = review.state
    if "CHANGES_REQUESTED" in newest.values():
        return -1
    return sum(1 for state in newest.values() if state == "APPROVED")


def push_text(base: str, repository: Repository, update: Update, violations: list[Violation]) -> list[str]:
    """The lines that a refused push reads after `remote:`."""
    classic = [v.sentence for v in violations if v.layer == "classic"]
    modern = [v.sentence for v in violations if v.layer == "ruleset"]
    lines: list[str] = []
    if classic:
        lines += [f"error: GH006: Protected branch update failed for {update.ref}.", ""]
        lines += [f"- {sentence}" for sentence in classic]
    if modern:
        where = f"{base}/{repository.full_name}/rules?ref={urllib.parse.quote(update.ref, safe='')}"
        lines.append(f"error: GH013: Repository rule violations found for {update.ref}.")
        lines += [f"Review all repository rules at {where}", ""]
        lines += [line for sentence in modern for line in (f"- {sentence}", "")]
    return lines


def refusal_reason(violations: list[Violation]) -> str:
    """What stands in brackets after `[remote rejected]`."""
    if any(v.layer == "classic" for v in violations):
        return "protected branch hook declined"
    return "push declined due to repository rule violations"


def merge_message(violations: list[Violation]) -> str:
    """The message of a 405 on a merge."""
    first = violations[0]
    if first.layer == "classic":
        return first.sentence
    modern = [v.sentence for v in violations if v.layer == "ruleset"]
    return "Repository rule violations found\n\n" + "\n\n".join(modern) + "\n\n"
