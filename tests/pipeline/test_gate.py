"""The contract gate: good evidence is approved; each thing that is wrong with it is found, by code and by path."""

from dataclasses import replace

import pytest

from pipeline.contract import CONTRACT_PATH, Contract, LandRules
from pipeline.evidence import OperatorResult, RepositoryChange, Run
from pipeline.facts import VerdictResult
from pipeline.gate import (
    ChangedFile,
    CloneFacts,
    LandedChange,
    judge,
    judge_report,
    unreadable_contract,
    verifier_green,
)
from pipeline.verdicts import Verdict
from tests.pipeline.builders import BASE, HEAD, HEAD_TREE, TIP, sha

RUN = Run(("make", "test"), 0, 1, 2, "a" * 64, "", dirty=False)
CONTRACT = Contract("c" * 64, "hub", (("make", "test"),), land=LandRules(allowed_paths=("src/**", "README.md")))
EVIDENCE = RepositoryChange("e" * 64, HEAD, HEAD_TREE, TIP, None, (("M", "src/a.py"),), (RUN,), "Changes a")
FILE = ChangedFile("M", "src/a.py", "100644", "100644", sha(21), sha(22), 5)
CLONE = CloneFacts(HEAD, HEAD_TREE, contains_base=True, changed=(FILE,))


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def changed(file: ChangedFile) -> tuple[RepositoryChange, CloneFacts]:
    """Evidence and clone of a change to this one file, which agree on it."""
    return replace(EVIDENCE, files=((file.status, file.path),)), replace(CLONE, changed=(file,))


def test_good_evidence_is_approved() -> None:
    verdict = judge(CONTRACT, EVIDENCE, CLONE)
    assert (verdict.result, verdict.findings) == (VerdictResult.APPROVED, ())
    assert (verdict.evidence_digest, verdict.contract_digest) == ("e" * 64, "c" * 64)
    assert verifier_green(CONTRACT, EVIDENCE)


CLONES: list[tuple[str, CloneFacts]] = [
    ("head_not_on_remote", replace(CLONE, remote_head=BASE)),
    ("head_not_on_remote", replace(CLONE, remote_head=None)),
    ("tree_differs", replace(CLONE, head_tree=sha(99))),
    ("tree_differs", replace(CLONE, head_tree=None)),
    ("base_not_contained", replace(CLONE, contains_base=False)),
    ("diff_empty", replace(CLONE, changed=())),
    ("files_differ", replace(CLONE, changed=(FILE, replace(FILE, path="src/b.py")))),
    ("files_differ", replace(CLONE, changed=(replace(FILE, status="D"),))),
]


@pytest.mark.parametrize(("code", "clone"), CLONES)
def test_what_the_clone_shows_counts_and_not_what_was_claimed(code: str, clone: CloneFacts) -> None:
    verdict = judge(CONTRACT, EVIDENCE, clone)
    assert (verdict.result, codes(verdict)) == (VerdictResult.REJECTED, [code])


RUNS: list[tuple[str, tuple[Run, ...]]] = [
    ("run_missing", ()),
    ("run_missing", (replace(RUN, argv=("make", "test", "-k", "one")),)),
    ("run_missing", (replace(RUN, argv=("true",)),)),
    ("run_failed", (replace(RUN, exit=1),)),
    ("run_failed", (replace(RUN, dirty=True),)),
    ("run_failed", (replace(RUN, ended_at=0),)),
    ("run_failed", (RUN, replace(RUN, exit=2))),
]


@pytest.mark.parametrize(("code", "runs"), RUNS)
def test_the_last_run_of_each_command_must_have_passed_cleanly(code: str, runs: tuple[Run, ...]) -> None:
    evidence = replace(EVIDENCE, runs=runs)
    assert codes(judge(CONTRACT, evidence, CLONE)) == [code]
    assert not verifier_green(CONTRACT, evidence)


def test_a_failure_that_was_run_again_counts_no_more() -> None:
    assert codes(judge(CONTRACT, replace(EVIDENCE, runs=(replace(RUN, exit=1), RUN)), CLONE)) == []


def test_without_a_command_nothing_is_verified() -> None:
    assert not verifier_green(replace(CONTRACT, test_commands=()), EVIDENCE)


FILES: list[tuple[list[str], ChangedFile]] = [
    (["path_not_allowed"], replace(FILE, path="docs/a.md")),
    (["path_not_allowed"], replace(FILE, path="srcs/a.py")),
    (["submodule_changed"], replace(FILE, new_mode="160000")),
    (["submodule_changed"], replace(FILE, old_mode="160000")),
    (["symlink_leaves_tree"], replace(FILE, new_mode="120000", link="../../x")),
    (["symlink_leaves_tree"], replace(FILE, new_mode="120000", link="/etc/passwd")),
    (["symlink_leaves_tree"], replace(FILE, new_mode="120000", link="b/../../../x")),
    (["symlink_leaves_tree"], replace(FILE, new_mode="120000", link=None)),
    ([], replace(FILE, new_mode="120000", link="../README.md")),
    (["workflow_not_permitted", "path_not_allowed"], replace(FILE, path=".github/workflows/ci.yml")),
    ([], replace(FILE, path="README.md")),
    ([], replace(FILE, path="src/deep/down.py")),
]


@pytest.mark.parametrize(("found", "file"), FILES)
def test_forbidden_things_are_found_with_their_path(found: list[str], file: ChangedFile) -> None:
    verdict = judge(CONTRACT, *changed(file))
    assert codes(verdict) == found
    assert {finding.path for finding in verdict.findings} <= {file.path}


def test_a_workflow_may_change_where_the_app_is_permitted_to() -> None:
    evidence, clone = changed(replace(FILE, path=".github/workflows/ci.yml"))
    contract = replace(CONTRACT, land=LandRules())
    assert codes(judge(contract, evidence, replace(clone, may_change_workflows=True))) == []


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [("**", "a/b", True), ("a/**", "a/b/c", True), ("a/**", "ab", False), ("a/*/t/**", "a/x/t/y", True),
     ("*.py", "x.py", True), ("*.py", "x.pyc", False), ("A/**", "a/b", False)],
)  # fmt: skip
def test_a_pattern_has_one_meaning(pattern: str, path: str, covered: bool) -> None:
    contract = replace(CONTRACT, land=LandRules(allowed_paths=(pattern,)))
    assert (codes(judge(contract, *changed(replace(FILE, path=path)))) == []) is covered


@pytest.mark.parametrize(("limit", "found"), [(4, ["too_many_lines"]), (5, [])])
def test_a_change_may_be_as_large_as_the_contract_says(limit: int, found: list[str]) -> None:
    assert codes(judge(replace(CONTRACT, land=LandRules(max_lines=limit)), EVIDENCE, CLONE)) == found
    two = replace(CLONE, changed=(FILE, replace(FILE, path="src/b.py")))
    evidence = replace(EVIDENCE, files=(("M", "src/a.py"), ("M", "src/b.py")))
    assert codes(judge(replace(CONTRACT, land=LandRules(max_files=1)), evidence, two)) == ["too_many_files"]


def test_taking_back_what_landed_lately_needs_a_person_and_is_no_rejection() -> None:
    clone = replace(CLONE, recent=(LandedChange(BASE, "src/a.py", sha(22), sha(21)),))
    verdict = judge(CONTRACT, EVIDENCE, clone)
    assert (verdict.result, codes(verdict)) == (VerdictResult.APPROVED, ["undoes_landed_lines"])
    assert verdict.findings[0].weight == "person"
    elsewhere = replace(CLONE, recent=(LandedChange(BASE, "src/b.py", sha(22), sha(21)),))
    assert codes(judge(CONTRACT, EVIDENCE, elsewhere)) == []


def test_editing_the_contract_needs_a_person() -> None:
    evidence, clone = changed(replace(FILE, path=CONTRACT_PATH))
    verdict = judge(replace(CONTRACT, land=LandRules()), evidence, clone)
    assert (verdict.result, codes(verdict)) == (VerdictResult.APPROVED, ["contract_edited"])


@pytest.mark.parametrize(
    ("summary", "result"),
    [("The cache is cold after each restart, because its key holds the process id.", VerdictResult.APPROVED),
     ("done", VerdictResult.REJECTED), ("done " * 40, VerdictResult.REJECTED), (" " * 100, VerdictResult.REJECTED)],
)  # fmt: skip
def test_a_report_says_something(summary: str, result: VerdictResult) -> None:
    assert judge_report(OperatorResult("e" * 64, summary)).result is result


def test_a_contract_that_cannot_be_read_is_not_the_work_s_fault() -> None:
    verdict = unreadable_contract("e" * 64, CONTRACT_PATH, 3, "a tab")
    assert (verdict.result, codes(verdict)) == (VerdictResult.ENVIRONMENT, ["contract_broken"])
    assert (verdict.findings[0].path, verdict.findings[0].line) == (CONTRACT_PATH, 3)


def test_the_digest_of_a_verdict_is_of_all_it_says() -> None:
    good = judge(CONTRACT, EVIDENCE, CLONE)
    bad = judge(CONTRACT, EVIDENCE, replace(CLONE, changed=()))
    assert len({good.digest, bad.digest, replace(good, contract_digest="0" * 64).digest}) == 3
    assert good.digest == judge(CONTRACT, EVIDENCE, CLONE).digest
