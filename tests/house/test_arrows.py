"""The arrows between the rooms hold, and each would be noticed if it were broken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT, python_files

LINT = Path(sys.executable).parent / "lint-imports"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [str(LINT), "--no-cache"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_every_arrow_holds() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("room", "line", "broken"),
    [
        ("pipeline", "import os", "The mind is pure"),
        ("pipeline", "import ledger", "The arrow between the rooms"),
        ("ledger", "import subprocess", "The memory calls nobody"),
        ("ledger", "import workers", "The arrow between the rooms"),
        ("workers", "import flask", "The hands serve nothing"),
        ("workers", "import webhook", "The arrow between the rooms"),
        ("workers", "import ledger.tables", "Only the ledger knows its tables"),
        ("webhook", "import github", "The doors have no hands"),
        ("webhook", "import workers", "The arrow between the rooms"),
        ("webhook", "import tests", "The arrow between the rooms"),
    ],
)
def test_a_broken_arrow_is_noticed(room: str, line: str, broken: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path in python_files("webhook", "pipeline", "ledger", "workers"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/__init__.py").touch()
    (tmp_path / room / "intruder.py").write_text(f"{line}\n", encoding="utf-8")
    done = lint(tmp_path)
    assert done.returncode == 1
    assert f"{broken} BROKEN" in done.stdout
