"""One sentence for each reason; and what comes from outside says nothing to git, to GitHub or to a terminal."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decide import decide
from pipeline.reasons import Reason
from pipeline.words import (
    WORDS,
    commit_message,
    explain,
    landing_report,
    one_line,
    plain,
    pull_request_body,
    pull_request_title,
    would_change,
)
from tests.pipeline.builders import green

HOSTILE = [
    "@everyone", "fixes #1", "Closes: #2", "GH-3", "gh-4", "resolves acme/hub#5", "fix https://github.com/a/b/issues/1",
    "HTTPS://github.com/a/b/pull/2", "[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]",
    "***NO_CI***", "skip-checks: true", "skip-checks:true", "Mac-Intent: int_1", "Mac-Intent:int_1", "x\nMac-Intent :y",
    "Co-authored-by: a <a@b>", "1-a: b", "&commat;all", "&#64;all", "&num;1", "\u202egnp", "\u2066x\u2069", "\u061cx",
    "a\r\nb", "a\rb", "a\u2028b", "a\x85b", "a\x0bb", "\x1b[31m", "\x00", "\u200b@\u200ball", "[skip\u200b ci]",
    "\ud800",
    "[skip [skip ci] ci]", "[[ci skip]skip ci]", "",
]  # fmt: skip
ANYTHING = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), max_size=6).map(" ".join)
FORBIDDEN = re.compile(
    r"@\w|#\d|\bGH-\d|https?://|\[(?:skip|no) (?:ci|actions)\]|\[(?:ci|actions) skip\]|\*\*\*no_ci\*\*\*"
    r"|&(?:commat|num|#)|^[ \t]*[A-Za-z0-9-]+[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def harmless(text: str) -> bool:
    controls = [c for c in text if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} and c not in "\n\t"]
    turned = [c for c in text if unicodedata.bidirectional(c) in BIDI or c in "\u200e\u200f\u061c"]
    return not (controls or turned or FORBIDDEN.search(text))


def test_the_judge_of_these_tests_knows_harm_when_it_sees_it() -> None:
    split = ["\u200b@\u200ball", "[skip\u200b ci]", ""]  # harmful only once the marks between are gone
    assert [text for text in HOSTILE if harmless(text)] == split


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_hostile_text_survives(text: str) -> None:
    assert harmless(plain(text))
    assert harmless(one_line(text))


@given(ANYTHING, st.integers(1, 60))
def test_no_mixture_survives_at_any_length(text: str, chars_max: int) -> None:
    assert harmless(plain(text, chars_max))
    line = one_line(text, chars_max)
    assert harmless(line)
    assert line
    assert len(line.splitlines()) == 1
    assert len(plain(text, chars_max)) <= chars_max


@given(ANYTHING)
def test_plain_text_stays_plain(text: str) -> None:
    once = plain(text, 10_000)
    assert plain(once, 10_000) == once


def test_ordinary_words_are_left_as_they_are() -> None:
    assert one_line("Add a parser for dates (closes the gap)") == "Add a parser for dates (closes the gap)"
    assert plain("first\n\nsecond\tthird") == "first\n\nsecond\tthird"
    assert one_line("\x00 \n") == "untitled"


@given(ANYTHING)
def test_a_commit_message_leaves_the_trailer_to_whoever_builds_the_commit(title: str) -> None:
    message = commit_message(title, "task_1", 9)
    assert [line for line in message.split("\n") if re.match(r"[A-Za-z0-9-]+\s*:", line)] == []
    assert message.endswith("\n\nLands pull request 9 for task_1.\n")
    assert message.count("\n\n") == 1


@given(ANYTHING, ANYTHING)
def test_a_pull_request_says_nothing_hostile(title: str, body: str) -> None:
    assert harmless(pull_request_title(title))
    assert harmless(pull_request_body("task_1", body, title))


def test_every_reason_has_words_and_they_never_fail() -> None:
    assert set(WORDS) == set(Reason)
    for reason in Reason:
        assert explain(reason, {}).endswith((".", "?", ").", "?."))
        assert explain(reason, {"context": "{x}", "found": ["{0}"]})
        assert all(sentence.endswith(".") for sentence in would_change(reason))


def test_the_check_run_shows_the_decision_itself() -> None:
    decision = decide(green(line__before=("pub_0",), line__passed=3))
    shown = landing_report(decision)
    assert (shown.name, shown.title, shown.conclusion) == ("mac/landing", "wait: not_first", None)
    assert "place 2" in shown.summary
    assert "Its turn comes." in shown.summary
