"""The contract gate: contract, evidence and what the clone shows, in; a verdict with findings, out.

The hub runs no tests. It holds what the executor recorded against the contract of the verified base and against the
commits themselves. Each finding has a code, a sentence and, where there is one, a path.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from pipeline.canonical import digest
from pipeline.contract import CONTRACT_PATH, Contract
from pipeline.evidence import SUMMARY_CHARS_MIN, OperatorResult, RepositoryChange, Run
from pipeline.facts import Sha, VerdictResult
from pipeline.verdicts import Finding, Verdict

WORKFLOWS = ".github/workflows/"
SYMLINK, SUBMODULE = "120000", "160000"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One path that differs between verified base and head, as git shows it. Modes are octal texts, blobs are shas (all
    zeros where there is none); `link` is the target of a symbolic link at the head."""

    status: str
    path: str
    old_mode: str
    new_mode: str
    old_blob: Sha
    new_blob: Sha
    lines: int
    link: str | None = None


@dataclass(frozen=True, slots=True)
class LandedChange:
    """One path as a recent commit of the canonical branch changed it, to see whether the head takes it back."""

    commit: Sha
    path: str
    old_blob: Sha
    new_blob: Sha


@dataclass(frozen=True, slots=True)
class CloneFacts:
    """What the clone shows of the evidence. `remote_head`: where the head's ref stands on the remote (None:
    nowhere)."""

    remote_head: Sha | None
    head_tree: Sha | None
    contains_base: bool
    changed: tuple[ChangedFile, ...]
    recent: tuple[LandedChange, ...] = ()
    may_change_workflows: bool = False


def judge(contract: Contract, evidence: RepositoryChange, clone: CloneFacts) -> Verdict:
    """The verdict on a change. Approved means that no finding rejects; findings for a person are kept beside it."""
    findings = [*_identity(evidence, clone), *_diff(contract, evidence, clone), *_runs(contract, evidence)]
    if not findings:
        findings += _persons(clone)
    rejected = any(f.weight == "reject" for f in findings)
    result = VerdictResult.REJECTED if rejected else VerdictResult.APPROVED
    return Verdict(result, evidence.digest, contract.digest, tuple(findings))


def judge_report(evidence: OperatorResult) -> Verdict:
    """The verdict on a report, by a fixed rule: its summary says something. Approved, never accepted."""
    said = " ".join(evidence.summary.split())
    findings: tuple[Finding, ...] = ()
    if len(said) < SUMMARY_CHARS_MIN or len(set(said.lower().split())) < 6:
        findings = (Finding("summary_empty", "The summary says too little to be a result."),)
    result = VerdictResult.REJECTED if findings else VerdictResult.APPROVED
    return Verdict(result, evidence.digest, REPORT_CONTRACT, findings)


REPORT_CONTRACT = digest({"schema": "mac.report_contract.v1"})


def unreadable_contract(evidence_digest: str, path: str, line: int, problem: str) -> Verdict:
    """The verdict where the contract itself cannot be read: nothing is judged, and it is not the work's fault."""
    finding = Finding("contract_broken", f"The contract cannot be read: {problem}.", "environment", path, line)
    return Verdict(VerdictResult.ENVIRONMENT, evidence_digest, digest({"broken": problem, "line": line}), (finding,))


def unreadable_evidence(evidence_digest: str, code: str, problem: str) -> Verdict:
    """The verdict where the commits themselves cannot be taken in: there is nothing that could be judged."""
    contract = digest({"schema": "mac.no_contract.v1"})
    return Verdict(VerdictResult.REJECTED, evidence_digest, contract, (Finding(code, problem),))


def verifier_green(contract: Contract, evidence: RepositoryChange) -> bool:
    """Whether every command of the contract has a run that passed at this head, with nothing dirty."""
    return bool(contract.test_commands) and not list(_runs(contract, evidence))


def _identity(evidence: RepositoryChange, clone: CloneFacts) -> Iterable[Finding]:
    if clone.remote_head != evidence.head:
        where = clone.remote_head or "nowhere"
        yield Finding("head_not_on_remote", f"The remote's ref stands at {where}, not at the evidence's head.")
    if clone.head_tree != evidence.tree:
        yield Finding("tree_differs", "The head's tree is not the tree of the evidence.")
    if not clone.contains_base:
        yield Finding("base_not_contained", "The head does not contain the verified base.")


def _diff(contract: Contract, evidence: RepositoryChange, clone: CloneFacts) -> Iterable[Finding]:
    if not clone.changed:
        yield Finding("diff_empty", "The change is empty.")
        return
    claimed = {(status[:1], path) for status, path in evidence.files}
    actual = {(c.status[:1], c.path) for c in clone.changed}
    for path in sorted({path for _, path in claimed ^ actual})[:10]:
        yield Finding("files_differ", "The recorded list of files does not agree with the diff here.", path=path)
    for changed in clone.changed:
        yield from _forbidden(changed, clone)
        if not any(_covers(pattern, changed.path) for pattern in contract.land.allowed_paths):
            yield Finding("path_not_allowed", "The contract does not allow a change here.", path=changed.path)
    yield from _size(contract, clone.changed)


def _size(contract: Contract, changed: Sequence[ChangedFile]) -> Iterable[Finding]:
    files, lines = len(changed), sum(c.lines for c in changed)
    if contract.land.max_files is not None and files > contract.land.max_files:
        yield Finding("too_many_files", f"{files} files changed; the contract allows {contract.land.max_files}.")
    if contract.land.max_lines is not None and lines > contract.land.max_lines:
        yield Finding("too_many_lines", f"{lines} lines changed; the contract allows {contract.land.max_lines}.")


def _forbidden(changed: ChangedFile, clone: CloneFacts) -> Iterable[Finding]:
    if SUBMODULE in (changed.old_mode, changed.new_mode):
        yield Finding("submodule_changed", "A submodule is added, removed or moved.", path=changed.path)
    if changed.new_mode == SYMLINK and (changed.link is None or _leaves_tree(changed.path, changed.link)):
        yield Finding("symlink_leaves_tree", "A symbolic link points out of the tree.", path=changed.path)
    if changed.path.startswith(WORKFLOWS) and not clone.may_change_workflows:
        yield Finding("workflow_not_permitted", "The App may not change workflow files.", path=changed.path)


def _leaves_tree(path: str, link: str) -> bool:
    if link.startswith("/"):
        return True
    depth = len(PurePosixPath(path).parts) - 1
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _covers(pattern: str, path: str) -> bool:
    """A shell pattern over the whole path, where a star also covers slashes: `a/**` covers everything below a."""
    return fnmatchcase(path, pattern)


def _runs(contract: Contract, evidence: RepositoryChange) -> Iterable[Finding]:
    for command in contract.test_commands:
        runs = [run for run in evidence.runs if run.argv == command]
        words = " ".join(command)
        if not runs:
            yield Finding("run_missing", f"There is no recorded run of `{words}`.")
        elif not _passed(runs[-1]):
            yield Finding("run_failed", f"The last recorded run of `{words}` did not pass cleanly.")


def _passed(run: Run) -> bool:
    return run.exit == 0 and not run.dirty and run.ended_at >= run.started_at


def _persons(clone: CloneFacts) -> Iterable[Finding]:
    if any(c.path == CONTRACT_PATH for c in clone.changed):
        yield Finding("contract_edited", "The change edits the contract that judges it.", "person", CONTRACT_PATH)
    landed = {(r.path, r.new_blob, r.old_blob): r.commit for r in clone.recent}
    for changed in clone.changed:
        commit = landed.get((changed.path, changed.old_blob, changed.new_blob))
        if commit is not None:
            sentence = f"The change takes back exactly what {commit[:12]} landed here."
            yield Finding("undoes_landed_lines", sentence, "person", changed.path)
