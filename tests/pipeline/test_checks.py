"""Green is said by each required check at once, by the newest run of each producer, and never by silence."""

import random
from typing import Any

import pytest

from pipeline.checks import CONCLUSIONS, Green, Judgement, NotRequired, Pending, Red, judge, newest
from pipeline.facts import Check, CheckKind, RequiredCheck
from tests.pipeline.builders import CI_APP, check

ANY, PINNED = RequiredCheck("ci/test", None, "ruleset"), RequiredCheck("ci/test", CI_APP, "ruleset")
STATUS: dict[str, Any] = {"kind": CheckKind.STATUS, "app": None}

MEANINGS = {
    "success": Green, "failure": Red, "timed_out": Red, "startup_failure": Red, "error": Red,
    "action_required": Pending, "cancelled": Pending, "neutral": Pending, "skipped": Pending, "stale": Pending,
    "pending": Pending, "a_new_word": Pending, "": Pending,
}  # fmt: skip


@pytest.mark.parametrize("required", [ANY, PINNED], ids=["unpinned", "pinned"])
@pytest.mark.parametrize(("word", "meaning"), MEANINGS.items())
def test_each_conclusion_of_a_required_run_means_one_thing(
    word: str, meaning: type[Judgement], required: RequiredCheck
) -> None:
    assert isinstance(judge([required], [check(word)]), meaning)
    as_status = judge([required], [check(word, **STATUS)])
    assert isinstance(as_status, meaning if required is ANY else Pending)


def test_the_table_has_no_word_that_is_not_tested() -> None:
    assert set(CONCLUSIONS) <= set(MEANINGS)


@pytest.mark.parametrize("status", ["queued", "in_progress", "waiting", "requested", "pending", ""])
def test_a_run_that_has_not_ended_waits_whatever_it_concluded(status: str) -> None:
    assert isinstance(judge([ANY], [check("success", status=status)]), Pending)


@pytest.mark.parametrize("word", sorted(CONCLUSIONS))
def test_an_accepted_conclusion_counts_for_the_check_it_names_only(word: str) -> None:
    acceptable = {"neutral", "skipped", "cancelled", "stale", "action_required"}
    here, elsewhere = frozenset({("ci/test", word)}), frozenset({("ci/docs", word)})
    assert isinstance(judge([ANY], [check(word)], here), Green) is (word in acceptable | {"success"})
    assert isinstance(judge([ANY], [check(word)], elsewhere), Green) is (word == "success")
    assert isinstance(judge([ANY], [check(word, status="in_progress")], here), Pending)


def test_no_requirement_is_no_pass() -> None:
    assert judge([], [check()]) == NotRequired()


def test_an_absent_check_waits() -> None:
    assert judge([PINNED], []) == Pending("ci/test", "absent", CI_APP)
    assert judge([PINNED], [check(context="ci/other")]) == Pending("ci/test", "absent", CI_APP)


def test_a_green_run_of_the_wrong_app_is_named_as_such() -> None:
    assert judge([PINNED], [check(app=99)]) == Pending("ci/test", "wrong_app", CI_APP, 99)


@pytest.mark.parametrize(
    ("older", "newer", "meaning"), [("success", "failure", Red), ("failure", "success", Green),
                                    ("cancelled", "success", Green), ("success", "cancelled", Pending)],
)  # fmt: skip
def test_the_newest_run_counts_whatever_the_order_of_the_list(
    older: str, newer: str, meaning: type[Judgement]
) -> None:
    runs = [check(older, number=5), check(newer, number=9)]
    assert isinstance(judge([PINNED], runs), meaning)
    assert isinstance(judge([PINNED], runs[::-1]), meaning)


def test_two_producers_of_one_name_must_agree_where_none_is_pinned() -> None:
    runs = [check("failure", number=1, app=1), check("success", number=2, app=2)]
    assert judge([ANY], runs) == Red("ci/test", 1, "failure")
    assert isinstance(judge([RequiredCheck("ci/test", 2, "r")], runs), Green)


def test_a_run_and_a_status_of_one_name_are_two_producers() -> None:
    assert isinstance(judge([ANY], [check("success", number=9), check("failure", number=1, **STATUS)]), Red)


def test_a_skipped_aggregate_waits_and_the_hundredth_run_counts() -> None:
    assert isinstance(judge([ANY], [check("skipped")]), Pending)
    many = [check(number=i, context=f"c{i}") for i in range(100)]
    assert isinstance(judge([ANY], [*many, check("failure", number=101)]), Red)


def test_a_failure_outranks_a_wait_and_a_wait_outranks_a_pass() -> None:
    required = [RequiredCheck(name, None, "r") for name in ("a", "b", "c")]
    a, b, c = check(context="a"), check("pending", context="b", number=2), check("failure", context="c", number=3)
    assert isinstance(judge(required, [a, b, c]), Red)
    assert isinstance(judge(required, [a, b]), Pending)
    assert isinstance(judge(required[:1], [a]), Green)


def test_the_order_of_the_pages_says_nothing() -> None:
    words = ["success", "failure", "cancelled"]
    runs: list[Check] = [check(words[i % 3], number=i, app=i % 4) for i in range(30)]
    shuffled = random.Random(3).sample(runs, len(runs))
    assert newest(shuffled) == newest(runs)
    assert judge([ANY], shuffled) == judge([ANY], runs)
