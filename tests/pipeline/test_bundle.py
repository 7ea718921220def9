"""The header of a bundle is read without git, from bytes that anybody may have sent."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bundle import LINES_MAX, header
from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from tests.pipeline.builders import BASE, HEAD

GOOD = f"# v2 git bundle\n-{BASE} the base\n{HEAD} refs/heads/x\n\nPACK".encode()


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_what_git_itself_writes_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    base = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "bundle", "create", "-q", "b.bundle", f"{base}..main")
    read = header((tmp_path / "b.bundle").read_bytes())
    assert read.tips == (("refs/heads/main", git(tmp_path, "rev-parse", "main")),)
    assert read.prerequisites == (base,)


def test_the_header_ends_at_the_empty_line() -> None:
    assert header(GOOD).tips == (("refs/heads/x", HEAD),)
    assert header(GOOD).prerequisites == (BASE,)
    assert header(GOOD.replace(b"v2", b"v3").replace(b"\n-", b"\n@object-format=sha1\n-")) == header(GOOD)


@pytest.mark.parametrize(
    "content",
    [b"", b"PACK", b"# v9 git bundle\n\n", b"# v2 git bundle", GOOD.replace(b"\n\n", b"\n"),
     GOOD.replace(HEAD.encode(), b"abc"), GOOD.replace(b"refs/heads/x", b"refs/heads/x y"),
     GOOD.replace(b"\n", b"\r\n"), b"# v2 git bundle\n" + f"{HEAD} r\n".encode() * (LINES_MAX + 1) + b"\n"],
)  # fmt: skip
def test_what_is_no_bundle_is_refused(content: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        header(content)
    assert caught.value.code == "bundle_invalid"


@given(st.binary() | st.binary().map(lambda rest: b"# v2 git bundle\n" + rest) | st.binary().map(GOOD.__add__))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(Rejected):
        header(content)


def test_a_filtered_bundle_is_refused_because_it_does_not_hold_what_it_names() -> None:
    filtered = GOOD.replace(b"# v2 git bundle\n", b"# v3 git bundle\n@filter=blob:none\n")
    with pytest.raises(Rejected) as refused:
        header(filtered)
    assert refused.value.refusal is Refusal.BUNDLE_INVALID
    assert header(filtered.replace(b"@filter=blob:none", b"@object-format=sha1")).tips
