"""Where GitHub's published description is on this machine, and how it gets here.

It is data of GitHub's and no part of this project. `MAC_GITHUB_DESCRIPTION` names a folder with `rest.json`,
`webhooks.json` and `webhook-examples.json`; else `../shared/github` beside the project is taken; else a cache folder
of the person who runs the tests, which `fetch` fills by `npm pack` (the packages are only unpacked, never installed).
"""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.sandbox.world import Json

NAMED_FOLDER = os.environ.get("SANDBOX_DESCRIPTION") or os.environ.get("MAC_GITHUB_DESCRIPTION")
"""Read when the process starts: tests run without any setting from outside. The first is what a test run hands down."""

PACKAGES = {
    "rest.json": ("@octokit/openapi@23.0.2", "package/generated/api.github.com.json"),
    "webhooks.json": ("@octokit/openapi-webhooks@12.1.0", "package/generated/api.github.com.json"),
    "webhook-examples.json": ("@octokit/webhooks-examples@7.6.1", "package/api.github.com/index.json"),
}
"""Each file, the package that it comes from, and its place there. All three are published under the MIT licence."""

EVENTS = (
    "branch_protection_rule", "check_run", "check_suite", "create", "delete", "installation", "installation_repositories",
    "installation_target", "issue_comment", "merge_group", "ping", "pull_request", "pull_request_review", "push", "status",
)  # fmt: skip
PROSE = ("description", "summary", "examples", "example", "externalDocs", "x-github", "tags")
PACK_S = 120


class NotFetched(Exception):
    """The description could not be brought here; the words say why."""


def cache_folder(name: str) -> Path:
    """A folder outside of the project for what is fetched once and used by many runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mac-hub-tests" / name


def description_folder() -> Path | None:
    """Where the description is on this machine, if anywhere. A folder that was named is the only one looked into."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "github"
    candidates = [Path(NAMED_FOLDER)] if NAMED_FOLDER else [beside, cached()]
    return next((folder for folder in candidates if (folder / "rest.json").is_file()), None)


@cache
def cached() -> Path:
    """The folder in the cache for exactly these versions."""
    return cache_folder("-".join(["github", *(package.rpartition("@")[2] for package, _ in PACKAGES.values())]))


def fetch(operations: frozenset[tuple[str, str]], into: Path) -> Path:
    """Brings the description here, cut down to these operations and to the events of `EVENTS`.

    Raises `NotFetched` without npm, and when npm cannot get the packages.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetched("npm is not on this machine")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as work:
        made = Path(work) / "made"
        made.mkdir()
        for file, (package, inside) in PACKAGES.items():
            whole = packed(npm, package, inside, Path(work))
            (made / file).write_text(json.dumps(_cut(file, whole, operations)))
        if not into.exists():
            made.rename(into)
    return into


def packed(npm: str, package: str, inside: str, work: Path) -> Any:
    """One JSON file out of a package, by `npm pack`. Raises `NotFetched`."""
    argv = [npm, "pack", "--silent", "--fetch-retries=1", package]
    try:
        done = subprocess.run(argv, cwd=work, capture_output=True, text=True, timeout=PACK_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotFetched(f"npm pack {package} took more than {PACK_S} s") from error
    if done.returncode != 0:
        raise NotFetched(f"npm pack {package} failed: {done.stderr[-300:].strip()}")
    archive = work / done.stdout.strip().splitlines()[-1]
    with tarfile.open(archive) as opened:
        content = opened.extractfile(inside)
        if content is None:
            raise NotFetched(f"{package} has no {inside}")
        return json.load(content)


def _cut(file: str, whole: Any, operations: frozenset[tuple[str, str]]) -> Any:
    if file == "webhook-examples.json":
        return {one["name"]: one["examples"] for one in whole}
    if file == "webhooks.json":
        wanted = {name.replace("_", "-") for name in EVENTS}
        hooks = {n: e for n, e in whole["webhooks"].items() if any(n == w or n.startswith(f"{w}-") for w in wanted)}
        bodies = {n: {"post": {"requestBody": e["post"]["requestBody"]}} for n, e in hooks.items()}
        return {"webhooks": (kept := _plain(bodies)), "components": _reached(kept, whole["components"])}
    paths: Json = {}
    for path, methods in whole["paths"].items():
        kept_here = {m: _plain(e) for m, e in methods.items() if (m.upper(), path) in operations}
        if kept_here:
            paths[path] = kept_here
    return {"paths": paths, "components": _reached(paths, whole["components"])}


def _plain(node: Any, named: bool = False) -> Any:
    """Without the prose. Inside `properties` and other maps of names, every key is a name."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    maps = ("properties", "schemas", "responses", "parameters", "headers")
    return {k: _plain(v, k in maps and not named) for k, v in node.items() if named or k not in PROSE}


def _reached(start: Any, components: Json) -> Json:
    """The components that are referred to, directly or by one another."""
    found: Json = {}
    waiting = list(_references(start))
    while waiting:
        kind, name = waiting.pop().split("/")[2:4]
        if name not in found.setdefault(kind, {}):
            found[kind][name] = _plain(components[kind][name])
            waiting += _references(found[kind][name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for item in node.values():
            yield from _references(item)
