"""Evidence is checked for shape, refused at the first field that is wrong, and has one digest."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Rejected
from pipeline.evidence import OperatorResult, RepositoryChange, evidence_digest, parse
from tests.pipeline.builders import HEAD, HEAD_TREE, TIP

RUN = {
    "argv": ["make", "test"], "exit": 0, "started_at": 1, "ended_at": 2, "output_sha256": "a" * 64,
    "output_excerpt": "", "dirty": False,
}  # fmt: skip
GOOD: dict[str, Any] = {
    "schema": "mac.evidence.v1", "kind": "repository_change", "head": HEAD, "tree": HEAD_TREE, "verified_base": TIP,
    "files": [{"path": "a", "status": "M"}], "runs": [RUN], "summary": "Adds a", "usage": {"input_tokens": 5},
}  # fmt: skip


def refused(document: Any) -> str:
    with pytest.raises(Rejected) as caught:
        parse(document)
    assert caught.value.code == "evidence_invalid"
    return str(caught.value.facts["field"])


def test_a_change_is_read_whole() -> None:
    change = parse(GOOD)
    assert isinstance(change, RepositoryChange)
    assert (change.head, change.tree, change.verified_base, change.ref) == (HEAD, HEAD_TREE, TIP, None)
    assert (change.files, change.runs[0].argv) == ((("M", "a"),), ("make", "test"))


def test_a_report_is_read() -> None:
    result = parse({"schema": "mac.evidence.v1", "kind": "operator_result", "summary": "It is so"})
    assert isinstance(result, OperatorResult)


def test_the_digest_is_of_the_content_and_not_of_its_order() -> None:
    assert evidence_digest(GOOD) == evidence_digest(dict(reversed(GOOD.items()))) == parse(GOOD).digest
    assert evidence_digest({**GOOD, "usage": {"input_tokens": 6}}) != evidence_digest(GOOD)


@pytest.mark.parametrize("field", ["schema", "kind", "head", "tree", "verified_base", "files", "runs", "summary"])
@pytest.mark.parametrize("value", [None, 7, "x" * 30_000, {"a": 1}, True], ids=["null", "number", "long", "map", "yes"])
def test_a_field_of_the_wrong_kind_is_named(field: str, value: Any) -> None:
    assert refused({**GOOD, field: value}) == field
    assert refused({k: v for k, v in GOOD.items() if k != field}) == field


@pytest.mark.parametrize("field", sorted(RUN))
def test_a_field_of_a_run_is_named_with_its_path(field: str) -> None:
    assert refused({**GOOD, "runs": [RUN, {k: v for k, v in RUN.items() if k != field}]}) == f"runs[1].{field}"
    assert refused({**GOOD, "runs": [{**RUN, field: None}]}) == f"runs[0].{field}"


@pytest.mark.parametrize("argv", [[], [1], [None], [["a"]], "make"])
def test_the_words_of_a_command_are_texts(argv: Any) -> None:
    assert refused({**GOOD, "runs": [{**RUN, "argv": argv}]}) == "runs[0].argv"


@pytest.mark.parametrize("sha", ["", "abc", HEAD.upper().replace("0", "A"), HEAD + "0", HEAD + "\n", HEAD[:39]])
def test_a_sha_that_is_not_whole_is_refused(sha: str) -> None:
    assert refused({**GOOD, "head": sha}) == "head"


@pytest.mark.parametrize(
    "ref",
    ["main", "refs/tags/x", "refs/heads/", "refs/heads/a:refs/heads/main", "refs/heads/a b", "refs/heads/a..b",
     "refs/heads/a\n", "refs/heads/.a", "refs/heads/a/.b", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a/",
     "refs/heads/a//b", "refs/heads/@{a", "refs/heads/a*", "+refs/heads/a", "--upload-pack=x", 7, True],
)  # fmt: skip
def test_a_ref_that_git_would_read_otherwise_is_refused(ref: Any) -> None:
    assert refused({**GOOD, "ref": ref}) == "ref"


@pytest.mark.parametrize("ref", ["refs/heads/a", "refs/heads/mac/task_1", "refs/heads/--upload-pack=x", "refs/heads/ä"])
def test_a_branch_is_a_branch_whatever_it_is_called(ref: str) -> None:
    assert getattr(parse({**GOOD, "ref": ref}), "ref", None) == ref


def _deep() -> Any:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize("value", [1.5, float("nan"), "\ud800", {"a": 2.0}, {1: 2}, _deep()],
                         ids=["fraction", "nan", "surrogate", "inner", "key", "deep"])  # fmt: skip
def test_what_has_no_digest_is_refused_and_is_no_bug_of_ours(value: Any) -> None:
    assert refused({**GOOD, "usage": value}) == "evidence"


@pytest.mark.parametrize("document", [None, [], "x", 7])
def test_what_is_no_object_is_refused(document: Any) -> None:
    assert refused(document) == "evidence"


@given(st.dictionaries(st.sampled_from([*GOOD, "ref"]), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_any_document_is_read_or_refused(changes: dict[str, Any]) -> None:
    with suppress(Rejected):
        parse({**GOOD, **changes})
