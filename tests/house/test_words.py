"""The project speaks of itself only, and keeps no secret."""

import re

import pytest

from tests.house.tree import text_files

OUTSIDE = {
    "a path of somebody's machine": r"(?<![\w.*}>)-])/(?:home|root|Users|work)/[\w.]",
    "the host of a package registry": r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org)\b",
    "where a package was found": r"^\s*--(?:index-url|extra-index-url|find-links|trusted-host)\b",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}",
    "a token of GitHub": r"\bgh[pousr]_[A-Za-z0-9]{36}\b",
    "a left-over of a merge": r"^(?:<{7}|>{7}) ",
}


def found(pattern: str) -> list[str]:
    expression = re.compile(pattern, re.MULTILINE)
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1} {match[0]!r}"
        for path, text in text_files()
        for match in expression.finditer(text)
    ]


@pytest.mark.parametrize("what", OUTSIDE)
def test_the_tree_holds_nothing_of_the_kind(what: str) -> None:
    assert found(OUTSIDE[what]) == []


@pytest.mark.parametrize(
    ("what", "example"),
    [
        ("a path of somebody's machine", "see {}home/alice/x"),
        ("a path of somebody's machine", "'{}root/.cache'"),
        ("the host of a package registry", "https:{0}{0}pypi.{1}/simple"),
        ("where a package was found", "--index{2}url x"),
        ("a private key", "-----BEGIN PRIVATE KEY{2}----\n" + "A" * 64),
        ("a token of GitHub", "gh{3}" + "a" * 36),
        ("a left-over of a merge", "<" * 7 + " HEAD"),
    ],
)
def test_and_would_be_found_out(what: str, example: str) -> None:
    text = example.format("/", "org", "-", "p_")
    assert re.search(OUTSIDE[what], text, re.MULTILINE)
