"""What is declared is there: programs, lock, wheel, contract and targets."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOMS, ROOT, files

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROGRAMS: dict[str, str] = PROJECT["scripts"]
VERBS: dict[str, str] = PROJECT["entry-points"]["mac.commands"]
TARGETS = {"setup", "demo", "up", "test", "test-all", "sim", "bench", "soak", "lint", "docs", "clean", "help"}


@pytest.mark.parametrize("target", [*PROGRAMS.values(), *VERBS.values()])
def test_every_program_and_verb_can_be_called(target: str) -> None:
    module, _, name = target.partition(":")
    assert callable(getattr(import_module(module), name))


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(line) for line in [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]]


def locked() -> Iterator[tuple[str, str, list[str]]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=\S)", text.strip()):
        first, *rest = [line.strip().rstrip("\\").strip() for line in entry.splitlines()]
        name, _, version = first.partition("==")
        yield canonicalize_name(name), version, rest


def test_the_lock_holds_everything_that_is_declared_in_the_declared_range() -> None:
    versions = {name: version for name, version, _ in locked()}
    astray = [str(r) for r in requirements() if not r.specifier.contains(versions.get(canonicalize_name(r.name), "0"))]
    assert astray == []


def test_everything_in_the_lock_is_pinned_by_hash_and_by_nothing_else() -> None:
    entries = list(locked())
    assert len(entries) > len(requirements())
    for name, version, hashes in entries:
        assert version, name
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), name


def test_the_wheel_holds_the_four_rooms_and_no_tests(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(ROOMS)
    ours = {str(path) for path in files() if path.parts[0] in ROOMS}
    assert ours <= names


def test_our_own_contract_asks_only_for_targets_that_exist() -> None:
    contract = yaml.safe_load((ROOT / ".mac/project.yaml").read_text(encoding="utf-8"))
    assert contract["schema"] == "mac.repository_contract.v1"
    assert contract["project"] == PROJECT["name"]
    assert contract["bootstrap"] == {"command": "make setup", "creates": ".venv"}
    assert contract["test"]["command"].split() == ["make", "test"]


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["make", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_make_alone_lists_every_target() -> None:
    listed = make(ROOT)
    assert listed.returncode == 0
    assert {line.split()[1] for line in listed.stdout.splitlines()} == TARGETS


@pytest.mark.parametrize("target", ["demo", "up", "sim", "bench", "soak"])
def test_a_target_whose_program_is_missing_says_so_and_fails(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    refused = make(tmp_path, "-o", "setup", target)
    assert refused.returncode != 0
    assert "does not exist yet" in refused.stderr


def test_setup_does_nothing_when_the_environment_bears_the_stamp_of_the_lock(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    asked = make(tmp_path, "--question", "setup")
    assert asked.returncode == 1, "without an environment there is something to do"
    stamp = re.search(r"\.venv/\.installed-[0-9a-f]{40,}", make(tmp_path, "--dry-run", "setup").stdout)
    assert stamp is not None
    (tmp_path / ".venv").mkdir()
    (tmp_path / stamp[0]).touch()
    assert "pip" not in make(tmp_path, "--dry-run", "setup").stdout
    with (tmp_path / "requirements.lock").open("a", encoding="utf-8") as lock:
        lock.write("\n")
    assert "pip" in make(tmp_path, "--dry-run", "setup").stdout


def test_the_gate_of_a_change_is_a_program() -> None:
    gate = ROOT / ".ci/run"
    assert os.access(gate, os.X_OK)
    text = gate.read_text(encoding="utf-8")
    assert re.findall(r"^step (\S+)$", text, re.MULTILINE) == ["test", "demo", "lint", "test-all"]


def test_the_programs_run_from_one_installation() -> None:
    assert len({Path(str(import_module(room).__file__)).parent.parent for room in ROOMS}) == 1
    assert sys.version_info >= (3, 11)
