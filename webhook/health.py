"""Is this process alive, what is it, and can it serve? Asked by load balancers and by whoever checks a rollout."""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from flask import Blueprint, Response, jsonify
from sqlalchemy.exc import SQLAlchemyError

from ledger import migrate
from pipeline.errors import HubError
from webhook import auth, hub

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@auth.open_to_all("whoever watches the process has no token; it says nothing about the work")
def healthz() -> Response:
    """Alive. Names the revision of the code that runs, not of what was deployed."""
    here = hub.current()
    return jsonify({"status": "alive", "revision": here.revision, "schema": here.schema})


@blueprint.get("/readyz")
@auth.open_to_all("a load balancer has no token; it says nothing about the work")
def readyz() -> tuple[Response, int]:
    """200 while the ledger answers and has the schema that this process knows, otherwise 503."""
    try:
        migrate.verify(hub.current().ledger.engine)
    except (HubError, SQLAlchemyError) as problem:
        return jsonify({"status": "not_ready", "problem": getattr(problem, "code", "ledger_unreachable")}), 503
    return jsonify({"status": "ready"}), 200


def running_revision(root: Path) -> str:
    """What code this is: `MAC_REVISION` of a built image, else the commit of a checkout at `root`, else the version
    of the distribution. The commit is read from git's files, as no program is run here; once, at start, so that a later
    checkout does not change the answer."""
    return os.environ.get("MAC_REVISION") or _commit(root) or _distribution()


def _commit(root: Path) -> str | None:
    try:
        folder = root / ".git"
        if folder.is_file():  # a linked worktree
            folder = Path(folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        common = folder / "commondir"
        shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
        return _resolved(shared, head.removeprefix("ref: "))
    except (OSError, UnicodeDecodeError):
        return None


def _resolved(folder: Path, ref: str) -> str | None:
    loose = folder / ref
    if loose.is_file():
        return loose.read_text(encoding="utf-8").strip()
    for line in (folder / "packed-refs").read_text(encoding="utf-8").splitlines():
        if line.endswith(f" {ref}"):
            return line.split(" ", 1)[0]
    return None


def _distribution() -> str:
    try:
        return version("mac-hub")
    except PackageNotFoundError:
        return "unknown"
