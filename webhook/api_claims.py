"""Claims from outside the executors' side: why a task is offered to nobody, and leases that have expired.

Expired leases are taken back whenever somebody who may read asks for anything, at most once in a while, so that what is
shown is not older than that; what goes wrong in doing so is logged, and the answer comes all the same.
"""

from flask import Blueprint, Flask, Response, jsonify, request

from ledger import leases, reports
from ledger.access import Scope
from ledger.reclaim import reclaim_if_due
from webhook import auth, hub, shown

blueprint = Blueprint("claims", __name__, url_prefix="/v1")


def install(app: Flask) -> None:
    """Take expired leases back before each read. Call it after the doors were closed: whoever is not let in causes
    nothing."""
    app.before_request(_before_a_read)


@blueprint.get("/tasks/<task>/why-unclaimed")
@auth.needs(Scope.READ)
def why_unclaimed(task: str) -> Response:
    """Every condition that keeps the task from being leased, and what would change each. None: it waits its turn."""
    with hub.current().ledger.read() as tx:
        return jsonify(shown.outside(reports.why_unclaimed(tx, task)))


@blueprint.post("/admin/reclaim")
@auth.needs(Scope.ADMIN)
def reclaim() -> Response:
    """End expired leases now, a bounded number; how many were ended by this very request."""
    return jsonify({"ended": leases.reclaim(hub.current().ledger)})


def _before_a_read() -> None:
    if request.method == "GET" and request.path.startswith("/v1/"):
        reclaim_if_due(hub.current().ledger)
