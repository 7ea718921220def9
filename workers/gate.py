"""Asking the contract gate: reads what the clone shows of an evidence, and hands it to the mind for a verdict."""

from dataclasses import dataclass
from typing import Final

from pipeline import gate
from pipeline.contract import CONTRACT_PATH, Contract, parse
from pipeline.errors import Rejected
from pipeline.evidence import OperatorResult, RepositoryChange
from pipeline.facts import Sha, VerdictResult
from pipeline.refusals import Refusal
from pipeline.verdicts import Verdict
from workers.mirror import Mirror
from workers.objects import SYMLINK_MODE, ChangedFile

RECENT_COMMITS_MAX: Final = 20
_LINK_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, with the digest of the contract it was reached under, and whether the executor's runs are all
    green."""

    verdict: Verdict
    verifier_green: bool


def contract_at(mirror: Mirror, sha: Sha) -> Contract:
    """The contract as it stands at a commit. Raises `Rejected(contract_broken)` with the line, also when it is
    absent."""
    content = mirror.blob(sha, CONTRACT_PATH)
    if content is None:
        problem = f"there is none at {sha[:12]}"
        raise Rejected(Refusal.CONTRACT_BROKEN, {"path": CONTRACT_PATH, "line": 1, "problem": problem})
    return parse(content)


def judge_change(
    mirror: Mirror, evidence: RepositoryChange, remote_head: Sha | None, *, may_change_workflows: bool
) -> Judged:
    """The verdict on a change, under the contract of its verified base. Nothing is checked out, nothing is executed."""
    try:
        contract = contract_at(mirror, evidence.verified_base)
    except Rejected as broken:
        line, problem = broken.facts.get("line"), str(broken.facts.get("problem"))
        verdict = gate.unreadable_contract(evidence.digest, CONTRACT_PATH, line if isinstance(line, int) else 1, problem)
        return Judged(verdict, verifier_green=False)
    clone = clone_facts(mirror, evidence, remote_head, may_change_workflows=may_change_workflows)
    verdict = gate.judge(contract, evidence, clone)
    return Judged(verdict, gate.verifier_green(contract, evidence))


def meets(mirror: Mirror, contract: Contract, evidence: RepositoryChange) -> bool:
    """Whether the evidence meets another contract than its own as well: the newer one of the tip."""
    clone = clone_facts(mirror, evidence, evidence.head, may_change_workflows=True)
    return gate.judge(contract, evidence, clone).result is VerdictResult.APPROVED


def judge_report(evidence: OperatorResult) -> Judged:
    """The verdict on a report."""
    return Judged(gate.judge_report(evidence), verifier_green=False)


def clone_facts(
    mirror: Mirror, evidence: RepositoryChange, remote_head: Sha | None, *, may_change_workflows: bool
) -> gate.CloneFacts:
    """What the mirror shows of the evidence: trees, ancestry, the diff, and what the last commits of the base
    changed."""
    base, head = evidence.verified_base, evidence.head
    changed = mirror.changes(base, head)
    links = mirror.objects([c.new_blob for c in changed if c.new_mode == SYMLINK_MODE])
    return gate.CloneFacts(
        remote_head=remote_head,
        head_tree=mirror.tree_of(head),
        contains_base=mirror.is_ancestor(base, head),
        changed=tuple(_changed(c, links) for c in changed),
        recent=tuple(_recent(mirror, base, {c.path for c in changed})),
        may_change_workflows=may_change_workflows,
    )


def _changed(changed: ChangedFile, links: dict[Sha, tuple[str, bytes]]) -> gate.ChangedFile:
    link = links.get(changed.new_blob) if changed.new_mode == SYMLINK_MODE else None
    return gate.ChangedFile(
        status=changed.status,
        path=changed.path,
        old_mode=changed.old_mode,
        new_mode=changed.new_mode,
        old_blob=changed.old_blob,
        new_blob=changed.new_blob,
        lines=(changed.added or 0) + (changed.removed or 0),
        link=link[1][:_LINK_BYTES_MAX].decode("utf-8", "replace") if link is not None else None,
    )


def _recent(mirror: Mirror, base: Sha, paths: set[str]) -> list[gate.LandedChange]:
    """The last first-parent commits of the base, path by path, as far as this change touches the same paths."""
    found: list[gate.LandedChange] = []
    commits = mirror.first_parents(base, limit=RECENT_COMMITS_MAX)
    parents = {sha: commit.parents for sha, commit in mirror.commits(commits).items()}
    for commit in commits:
        if not parents[commit]:
            continue
        found += [
            gate.LandedChange(commit, c.path, c.old_blob, c.new_blob)
            for c in mirror.changes(parents[commit][0], commit)
            if c.path in paths
        ]
    return found
