"""A contract is read whole or refused at its line; nothing in it opens a guard by accident."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contract import BYTES_MAX, parse
from pipeline.errors import Rejected

GOOD = """schema: mac.repository_contract.v1
project: hub
platforms: [linux]
toolchain:
  required_commands: [git]
bootstrap:
  command: make setup
  creates: .venv
test:
  command: make "all tests"
evidence:
  required: [repository_change]
land:
  method: merge
  required_checks: [ci/test]
  accepted_conclusions:
    ci/docs: [skipped, success]
  allowed_paths: [src/**]
  max_files: 10
  max_lines: 500
  delete_branch: no
"""


def refusal(content: str | bytes) -> Rejected:
    with pytest.raises(Rejected) as caught:
        parse(content.encode() if isinstance(content, str) else content)
    assert caught.value.code == "contract_broken"
    return caught.value


def test_a_good_contract_is_read_whole() -> None:
    contract = parse(GOOD.encode())
    assert contract.test_commands == (("make", "all tests"),)
    assert (contract.project, contract.bootstrap_command, contract.bootstrap_creates) == (
        "hub", ("make", "setup"), ".venv",
    )  # fmt: skip
    land = contract.land
    assert (land.method, land.required_checks, land.allowed_paths) == ("merge", ("ci/test",), ("src/**",))
    assert (land.max_files, land.max_lines, land.delete_branch) == (10, 500, False)
    assert land.accepted == {("ci/docs", "skipped"), ("ci/docs", "success")}
    assert land.policy().accepted == land.accepted


def test_what_is_not_said_is_strict() -> None:
    land = parse(b"schema: mac.repository_contract.v1\nproject: p\ntest: {command: [make a, make b]}\n").land
    assert (land.method, land.required_checks, land.accepted) == ("fast_forward", (), frozenset())


def test_line_ends_of_windows_change_the_digest_and_nothing_else() -> None:
    unix, windows = parse(GOOD.encode()), parse(GOOD.replace("\n", "\r\n").encode())
    assert unix.land == windows.land
    assert unix.digest != windows.digest


BROKEN = [
    ("mac.repository_contract.v1", "mac.repository_contract.v2", 1, "schema must be"),
    ("schema: mac.repository_contract.v1\n", "", 1, "schema is missing"),
    ("project: hub", "project: ''", 2, "project is missing"),
    ("project: hub", "project: 7", 2, "project must be a text"),
    ("project: hub", "project: [hub]", 2, "project must be a text"),
    ("project: hub", 'project: "a\\0b"', 2, "no text may hold"),
    ("project: hub", 'project: "\\ud800"', 2, "no text may hold"),
    ("project: hub", "project: hub\nproject: hub", 3, "project stands twice"),
    ("platforms: [linux]", "platforms: linux", 3, "must be a list of texts"),
    ("platforms: [linux]", "platforms: [1]", 3, "each of platforms must be a text"),
    ("platforms: [linux]", "platform: [linux]", 3, "does not know platform"),
    ("toolchain:\n", "toolchains:\n", 4, "does not know toolchains"),
    ("toolchain:\n  required_commands: [git]", "toolchain: git", 4, "must be a mapping"),
    ("  required_commands: [git]", "\trequired_commands: [git]", 5, "cannot start any token"),
    ("  creates: .venv", "  create: .venv", 8, "does not know create"),
    ('command: make "all tests"', "command: make 'all tests", 10, "cannot be split"),
    ('  command: make "all tests"', "  command: ' '", 10, "a command is empty"),
    ('  command: make "all tests"', "  command: []", 10, "at least one command"),
    ("method: merge", "method: octopus", 14, "land.method must be"),
    ("method: merge", "method: merge_api", 14, "land.method must be"),
    ("ci/docs: [skipped, success]", "ci/docs: [failure]", 17, "failure cannot be accepted"),
    ("ci/docs: [skipped, success]", "ci/docs: [timed_out]", 17, "timed_out cannot be accepted"),
    ("ci/docs: [skipped, success]", "ci/docs: [startup_failure]", 17, "cannot be accepted"),
    ("ci/docs: [skipped, success]", "ci/docs: [pending]", 17, "pending cannot be accepted"),
    ("ci/docs: [skipped, success]", "ci/docs: [skiped]", 17, "skiped cannot be accepted"),
    ("ci/docs: [skipped, success]", "ci/docs: skipped", 17, "must be a list"),
    ("allowed_paths: [src/**]", "allowed_paths: []", 18, "at least one path"),
    ("allowed_paths: [src/**]", "allowed_paths:", 18, "must be a list"),
    ("max_files: 10", "max_files: 0", 19, "above zero"),
    ("max_files: 10", "max_files: -1", 19, "above zero"),
    ("max_files: 10", "max_files: 010", 19, "above zero"),
    ("max_files: 10", "max_files: ten", 19, "above zero"),
    ("max_files: 10", "max_files: " + "9" * 5_000, 19, "above zero"),
    ("max_files: 10", "max_files: 1.5", 19, "above zero"),
    ("delete_branch: no", "delete_branch: maybe", 21, "true or false"),
    ("delete_branch: no", "delete_branch: no\nland: {}", 22, "land stands twice"),
    ("delete_branch: no", "delete_branch: no\n--- {}", 22, ""),
    ("platforms: [linux]", "platforms: &p [linux]\ntoolchain: {required_commands: *p}", 4, "aliases"),
    ("project: hub", "<<: {project: hub}", 2, "a key must be a text"),
    ("project: hub", "on: hub", 2, "a key must be a text"),
    ("project: hub", "project: !!python/name:os.system x", 2, "project must be a text"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "problem"), BROKEN, ids=[row[1][:40] for row in BROKEN])
def test_what_is_wrong_is_refused_at_its_line(old: str, new: str, line: int, problem: str) -> None:
    assert GOOD.count(old) == 1
    refused = refusal(GOOD.replace(old, new))
    assert problem in str(refused.facts["problem"])
    assert refused.facts["line"] == line


@pytest.mark.parametrize(
    "content",
    ["", "# nothing", "[]", "text", b"\xff\xfe\xff", "a: [" * 20_000, "[" * 60_000, GOOD + "#" * BYTES_MAX, "\x07",
     "a: &a [*a]"],
)  # fmt: skip
def test_what_is_no_contract_at_all_is_refused(content: str | bytes) -> None:
    refusal(content)


def test_a_bomb_of_aliases_is_refused_before_it_is_read() -> None:
    bomb = "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(100))
    assert "aliases" in str(refusal(bomb).facts["problem"])


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: (GOOD + t).encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(Rejected):
        parse(content)
