"""What every test gets: an environment without settings of the machine it runs on, and a clean home."""

import os
from pathlib import Path

import pytest

from tests.sandbox.fixtures import github

__all__ = ["github"]

pytest_plugins = ["tests.sandbox.plugin"]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("MAC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MAC_HOME", str(tmp_path_factory.getbasetemp() / "mac-home"))
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The folder of the project itself, for tests that read its files."""
    return Path(__file__).resolve().parent.parent
