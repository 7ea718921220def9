"""The ten steps of a proof, one function each. A step answers None when it holds, or a sentence that says what does
not."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.canonical import Json, digest
from pipeline.decisions import GateKind, Method, TipGuard
from pipeline.facts import Sha

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_DIGEST = re.compile(r"[0-9a-f]{64}")

INTENT_FIELDS = (
    "intent", "repository", "repository_id", "canonical_ref", "task", "attempt", "publication", "pull_request",
    "expected_tip", "landed_tree", "tested_sha", "tested_tree", "reviewed_head_sha", "verified_base_sha", "updates",
    "method", "tip_guard", "gate", "evidence_digest", "verdict_digest", "contract_digest", "slot_token",
    "hub_revision", "committed_at", "chain",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """A commit as git shows it. `trailer` is the value of its Mac-Intent trailer, where it has one."""

    tree: Sha
    parents: tuple[Sha, ...]
    trailer: str | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of a landing: the commit that its tag object names, and the signed intent in it (None: unsigned by
    us)."""

    commit: Sha
    intent: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class GitFacts:
    """What a repository says, read by the caller: the tip, the commits that the proof names, which of them are
    ancestors of which, and the trees that merge-tree gives for the recorded updates. A pair that is missing does not
    hold."""

    tip: Sha | None
    commits: Mapping[Sha, CommitFacts] = field(default_factory=dict)
    ancestors: frozenset[tuple[Sha, Sha]] = frozenset()
    merges: Mapping[tuple[Sha, Sha], Sha] = field(default_factory=dict)
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger holds: the intent's document, the readings, and the sha that a merge answer named (or None)."""

    intent: Mapping[str, Json]
    readings: Sequence[Mapping[str, Json]]
    answered: Sha | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement as read; `problem` says why it is none."""

    document: Mapping[str, Any]
    predicate: Mapping[str, Any]
    problem: str | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the steps may look at."""

    statement: Statement
    git: GitFacts
    recorded: Recorded | None
    key_id: str | None

    @property
    def said(self) -> Mapping[str, Any]:
        """What the proof says of itself."""
        return self.statement.predicate


Step = Callable[[Evidence], str | None]


def whole(e: Evidence) -> str | None:
    """Step 1."""
    if e.statement.problem is not None:
        return e.statement.problem
    if e.said["status"] != "pass" or e.said["remote_verified"] is not True:
        return "the status is not pass, or it does not claim a remote reading"
    names = ("canonical_branch_sha", "landed_sha", "landed_tree", "tested_sha", "tested_tree", "reviewed_head_sha",
             "verified_base_sha", "expected_tip")  # fmt: skip
    for name in names:
        if not isinstance(e.said[name], str) or not _SHA.fullmatch(e.said[name]):
            return f"{name} is not a whole sha"
    for name in ("evidence_digest", "verdict_digest", "contract_digest", "intent_digest"):
        if not isinstance(e.said[name], str) or not _DIGEST.fullmatch(e.said[name]):
            return f"{name} is not a whole digest"
    missing = [name for name in (*INTENT_FIELDS, "readings") if name not in e.said]
    if missing:
        return f"{missing[0]} is missing"
    unknown = sorted(set(e.said) - {*INTENT_FIELDS, *names, "readings", "status", "remote_verified", "intent_digest"})
    if unknown:
        return f"{unknown[0]} is not a field of a proof"
    return _subject(e)


def _subject(e: Evidence) -> str | None:
    subject = [{"name": e.said["canonical_ref"], "digest": {"gitCommit": e.said["landed_sha"]}}]
    if e.statement.document["subject"] != subject:
        return "the statement is not about the landed commit on the canonical branch"
    if not str(e.said["canonical_ref"]).startswith("refs/heads/"):
        return "the canonical ref is not a branch"
    if set(e.statement.document) != {"_type", "subject", "predicateType", "predicate"}:
        return "the statement has fields of its own"
    return None


def attributed(e: Evidence) -> str | None:
    """Step 2."""
    landed, intent = e.said["landed_sha"], e.said["intent"]
    marker = e.git.marker
    if marker is not None:
        if marker.commit != landed:
            return "the marker of this intent names another commit"
        if marker.intent is None or marker.intent.get("intent") != intent:
            return "the marker does not carry this intent, signed"
        return None
    commit = e.git.commits.get(landed)
    if commit is not None and commit.trailer == intent:
        return None
    if e.recorded is not None and e.recorded.answered == landed:
        return None
    return "no marker, no trailer and no recorded answer attributes the landed commit to this intent"


def on_expected_tip(e: Evidence) -> str | None:
    """Step 3."""
    tip, landed = e.said["expected_tip"], e.said["landed_sha"]
    if Method(e.said["method"]) is Method.FAST_FORWARD:
        if landed != e.said["tested_sha"]:
            return "a fast-forward lands the tested head itself"
        held = (tip, landed) in e.git.ancestors and tip != landed
        return None if held else "the expected tip is not an ancestor of the landed commit"
    parents = e.git.commits[landed].parents
    return None if parents and parents[0] == tip else "the expected tip is not the first parent of the landed commit"


def tree_tested(e: Evidence) -> str | None:
    """Step 4."""
    if e.said["landed_tree"] != e.said["tested_tree"]:
        return "the landed tree is not the tested tree"
    for name, tree in (("landed_sha", "landed_tree"), ("tested_sha", "tested_tree")):
        commit = e.git.commits.get(e.said[name])
        if commit is None:
            return f"{name} is not in the repository"
        if commit.tree != e.said[tree]:
            return f"git gives another tree for {name}"
    return None


def changes_something(e: Evidence) -> str | None:
    """Step 5."""
    before = e.git.commits.get(e.said["expected_tip"])
    if before is None:
        return "the expected tip is not in the repository"
    return "the landed tree equals the tree of the expected tip" if before.tree == e.said["landed_tree"] else None


def reviewed_plus_updates(e: Evidence) -> str | None:
    """Step 6."""
    head = e.said["reviewed_head_sha"]
    for update in e.said["updates"]:
        commit = e.git.commits.get(update["commit"])
        if update["head"] != head or commit is None:
            return "an update commit does not continue the reviewed head"
        if commit.parents != (head, update["tip"]) or commit.tree != update["tree"]:
            return "an update commit has other parents or another tree than recorded"
        if e.git.merges.get((head, update["tip"])) != update["tree"]:
            return "an update commit's tree is not the one that merge-tree gives"
        head = update["commit"]
    return None if head == e.said["tested_sha"] else "the tested head is not the reviewed head plus its updates"


def gate_green(e: Evidence) -> str | None:
    """Step 7."""
    gate = e.said["gate"]
    if gate["sha"] != e.said["tested_sha"]:
        return "the gate was read for another commit"
    if not gate["read_at"] <= e.said["committed_at"]:
        return "the gate was read after the intent"
    if GateKind(gate["kind"]) is GateKind.VERIFIER:
        stands = (
            e.said["expected_tip"] == e.said["verified_base_sha"] and e.said["tested_sha"] == e.said["reviewed_head_sha"]
        )
        return None if stands and not gate["checks"] else "the verifier ran on another tip or another head"
    if not gate["checks"]:
        return "no check stands behind the gate"
    accepted = [tuple(pair) for pair in gate["accepted"]]
    for check in gate["checks"]:
        if check["conclusion"] != "success" and (check["context"], check["conclusion"]) not in accepted:
            return f"{check['context']} is {check['conclusion']}"
    return None


def read_back(e: Evidence) -> str | None:
    """Step 8."""
    tip, landed = e.said["canonical_branch_sha"], e.said["landed_sha"]
    over_git = [r for r in e.said["readings"] if r["via"] == "git"]
    if not over_git or over_git[-1]["sha"] != tip:
        return "no reading over git gave this tip"
    if not all(r["at"] >= e.said["committed_at"] for r in over_git):
        return "the branch was read before the intent"
    if landed != tip and (landed, tip) not in e.git.ancestors:
        return "the landed commit is not reachable from the tip that was read back"
    if e.git.tip is None:
        return "the canonical branch is not in the repository"
    if landed != e.git.tip and (landed, e.git.tip) not in e.git.ancestors:
        return "the landed commit is not on the canonical branch"
    return None


def as_recorded(e: Evidence) -> str | None:
    """Step 9."""
    intent = {"schema": "mac.intent.v1", **{name: e.said[name] for name in INTENT_FIELDS}}
    api = TipGuard(e.said["tip_guard"]) is TipGuard.STRICT_PROTECTION
    intent["landed_sha"] = None if api else e.said["landed_sha"]
    if digest(intent) != e.said["intent_digest"]:
        return "the fields are not those of the intent's digest"
    marker = e.git.marker.intent if e.git.marker is not None else None
    for source, held in (("ledger", e.recorded.intent if e.recorded else None), ("marker", marker)):
        if held is not None and dict(held) != intent:
            differ = sorted(n for n in {*held, *intent} if held.get(n) != intent.get(n))
            return f"{differ[0]} is not what the {source} recorded"
    if e.recorded is not None and list(e.recorded.readings) != list(e.said["readings"]):
        return "the readings are not the recorded ones"
    if e.recorded is None and marker is None:
        return "neither a ledger nor a marker holds this intent"
    return None


def signed(e: Evidence) -> str | None:
    """Step 10."""
    return None if e.key_id is not None else "no known key of the hub signed this proof"


STEPS: tuple[tuple[str, Step], ...] = (
    ("whole", whole),
    ("attributed", attributed),
    ("on_expected_tip", on_expected_tip),
    ("tree_tested", tree_tested),
    ("changes_something", changes_something),
    ("reviewed_plus_updates", reviewed_plus_updates),
    ("gate_green", gate_green),
    ("read_back", read_back),
    ("as_recorded", as_recorded),
    ("signed", signed),
)
