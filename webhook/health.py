"""Is this process alive, what is it, and can it serve? Asked by load balancers and by whoever checks a rollout."""

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
