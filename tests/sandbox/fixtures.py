"""The pytest fixture `github`: a fresh sandbox that is judged when the test ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.sandbox import Sandbox


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Sandbox]:
    """A running sandbox; unused orders and breaches of GitHub's description fail the test."""
    with Sandbox.start(tmp_path / "github") as started:
        yield started
