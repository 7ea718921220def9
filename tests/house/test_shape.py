"""Small rooms, small modules, small functions, and nothing left for later."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.tree import ROOMS, ROOT, files, functions, parsed, public, python_files, text_files

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

FOLDERS = {*ROOMS, "tests", "docs", ".ci", ".mac"}
ROOT_FILES = {
    ".dockerignore",
    ".gitattributes",
    ".gitignore",
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "Procfile",
    "README.md",
    "compose.yaml",
    "pyproject.toml",
    "requirements.lock",
}
# A module that is named for nothing holds everything in the end.
NAMELESS = {"utils", "util", "helpers", "helper", "services", "service", "common", "misc", "shared"}
# Legal as modules of ours, but nobody could tell which one an import means.
TAKEN = {"flask", "github", "redis", "rq", "requests", "sqlalchemy", "logging", "queue", "signal", "types", "json"}


@pytest.mark.parametrize("path", python_files(*ROOMS), ids=str)
def test_a_module_fits_into_a_head(path: Path) -> None:
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX


def test_a_function_fits_onto_a_screen() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in python_files(*ROOMS)
        for node in functions(path)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_every_module_has_a_name_that_says_what_it_is() -> None:
    names = {path: part.removesuffix(".py") for path in python_files(*ROOMS) for part in path.parts[1:]}
    assert {path: name for path, name in names.items() if name in NAMELESS | TAKEN} == {}


def test_everything_public_says_what_it_guarantees() -> None:
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path in python_files(*ROOMS)
        for node in public(path)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_module_says_what_it_is() -> None:
    assert [str(path) for path in python_files(*ROOMS, "tests") if not ast.get_docstring(parsed(path))] == []


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|NotImplemented" r"Error)\b")
    code = [path for path in files() if path.suffix in {".py", ".sql", ".html", ".js", ".css", ".md", ".yaml", ".toml"}]
    found = [
        f"{path}:{number}"
        for path, text in text_files()
        if path in code
        for number, line in enumerate(text.splitlines(), 1)
        if later.search(line)
    ]
    assert found == []


def test_the_top_of_the_tree_holds_only_what_was_agreed() -> None:
    assert {path.parts[0] for path in files() if len(path.parts) > 1} - FOLDERS == set()
    assert {str(path) for path in files() if len(path.parts) == 1} - ROOT_FILES == set()


def test_every_folder_with_python_is_a_package() -> None:
    folders = {path.parent for path in python_files(*ROOMS, "tests")}
    assert [str(folder) for folder in folders if not (ROOT / folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_typed(room: str) -> None:
    assert (ROOT / room / "py.typed").is_file()


def test_every_exception_from_a_rule_names_the_rule_and_the_reason() -> None:
    exception = re.compile(r"#\s*(?:noqa|type:\s*ignore)(?P<rest>.*)")
    reasoned = re.compile(r"(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[a-z, -]+\])\s+(?:#|-|–|—)\s*\S.{5,}")
    bare = [
        f"{path}:{number}"
        for path in python_files(*ROOMS, "tests")
        if path != Path("tests/house/test_shape.py")
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1)
        if (found := exception.search(line)) and not reasoned.match(found["rest"])
    ]
    assert bare == []
