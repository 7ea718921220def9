"""The files of the project, and the Python in its rooms, for the tests that read them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("webhook", "pipeline", "ledger", "workers")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef


@cache
def files() -> tuple[Path, ...]:
    """What belongs to the project, relative to its root: what git tracks or would add.

    Without git (an unpacked archive) everything but hidden folders, which then are caches and environments.
    """
    if (ROOT / ".git").exists():
        argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
        names = [name for name in listed.split("\0") if name]
        return tuple(sorted(Path(name) for name in names if (ROOT / name).is_file()))
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return tuple(sorted(path for path in found if not any(_is_cache(part) for part in path.parts)))


def _is_cache(part: str) -> bool:
    return part in {".venv", "__pycache__", ".demo", "build", "dist"} or part.endswith("_cache")


def python_files(*folders: str) -> tuple[Path, ...]:
    """The project's Python files below the given top-level folders."""
    return tuple(path for path in files() if path.suffix == ".py" and path.parts[0] in folders)


def text_files() -> Iterator[tuple[Path, str]]:
    """Every file that is UTF-8 text, with its text."""
    for path in files():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of one of the project's files."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function of a file, methods and inner ones too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            yield node


def public(path: Path) -> Iterator[Documented]:
    """What others may use of a file: its public functions and classes, and the public methods of those classes."""
    for node in parsed(path).body:
        if isinstance(node, Documented) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                methods = (inner for inner in node.body if isinstance(inner, Function))
                yield from (method for method in methods if not method.name.startswith("_"))
