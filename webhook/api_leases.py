"""`/v1/leases`: the executors' side of the hub. A lease is bound to the token's worker and fenced by its own token.

Every call after the lease names the fence in `Mac-Lease-Token`; a write under a fence that has ended changes nothing.
"""

import json

from flask import Blueprint, Response, jsonify, request

from ledger import evidence, leases, projects, tasks
from ledger.access import Scope
from ledger.reclaim import reclaim_if_due
from ledger.session import Transaction
from pipeline.errors import InvariantBroken, Rejected
from pipeline.refusals import Refusal
from webhook import auth, hub, once, shown
from webhook.schemas import LeaseRequest, Release, ReleaseClass, read, read_evidence

blueprint = Blueprint("leases", __name__, url_prefix="/v1/leases")


@blueprint.post("")
@auth.needs(Scope.EXECUTOR)
def take() -> Response:
    """201: one leased attempt. 204: nothing to do."""
    wanted, worker = read(LeaseRequest, request.get_data()), _worker()
    reclaim_if_due(hub.current().ledger)

    def lease(tx: Transaction) -> once.Done | None:
        only = None if wanted.projects is None else [projects.get(tx, name).id for name in wanted.projects]
        leased = leases.lease_in(tx, worker, only)
        return None if leased is None else once.Done(201, shown.lease(leased))

    return once.together(lease)


@blueprint.post("/<lease>/heartbeat")
@auth.needs(Scope.EXECUTOR)
def heartbeat(lease: str) -> Response:
    """Renewed, with the order to go on or to stop."""
    beat = leases.heartbeat(hub.current().ledger, lease, _fence(), _worker())
    return jsonify({"order": beat.order, "expires_in_ms": beat.expires_in_ms, "messages": []})


@blueprint.get("/<lease>/read-token")
@auth.needs(Scope.EXECUTOR)
def read_token(lease: str) -> Response:
    """A token that reads the contents of the lease's repository, and nothing else. It is never stored."""
    here = hub.current()
    with here.ledger.write() as tx:  # the lease is locked, not changed
        held = leases.held(tx, lease, _fence(), _worker())
        project = projects.get(tx, tasks.get(tx, held.task_id).project_id)
        now = tx.now()
    if project.repository_id is None or project.installation_id is None:
        raise InvariantBroken(f"{project.name} has a lease and was never read")
    minted = here.minter.mint(project.repository_id, project.installation_id, now)
    answer = jsonify({"token": minted.token, "expires_at": minted.expires_at})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@blueprint.post("/<lease>/bundle")
@auth.needs(Scope.EXECUTOR)
def bundle(lease: str) -> Response:
    """The commits of the attempt, as a git bundle. A later one replaces it until the evidence is in."""
    here = hub.current()
    limit = here.bounds.bundle_bytes_max
    request.max_content_length = limit + 1  # one more than is taken, so that the ledger's own refusal names the limit
    if (request.content_length or 0) > limit:
        raise Rejected(Refusal.BUNDLE_TOO_LARGE, {"limit": limit})
    stored = evidence.store_bundle(here.ledger, lease, _fence(), _worker(), request.get_data())
    return once.answer(once.Done(201, {"sha256": stored.sha256, "size_bytes": stored.size_bytes}))


@blueprint.post("/<lease>/evidence")
@auth.needs(Scope.EXECUTOR)
def hand_in(lease: str) -> Response:
    """201: the evidence is in, the lease has ended, the review begins."""
    raw = request.get_data()
    read_evidence(raw)
    document = json.loads(raw)  # exactly what was sent: the digest is the executor's own

    def submit(tx: Transaction) -> once.Done:
        taken = evidence.submit_in(tx, lease, _fence(), _worker(), document)
        facts = {"evidence": taken.evidence_id, "digest": taken.digest, "publication": taken.publication_id}
        return once.Done(201, {**facts, "task": taken.task_id})

    return once.together(submit)


@blueprint.post("/<lease>/release")
@auth.needs(Scope.EXECUTOR)
def release(lease: str) -> Response:
    """Given back without evidence. What was withdrawn is nobody's failure and waits for no back-off."""
    said = read(Release, request.get_data())
    failure = None if said.failure is ReleaseClass.WITHDRAWN else said.failure.value
    ledger = hub.current().ledger
    used = said.usage.input_tokens + said.usage.output_tokens
    leases.release(
        ledger,
        lease,
        _fence(),
        _worker(),
        failure_class=failure,
        failure_code=said.code,
        sentence=said.sentence,
        tokens=used,
    )
    return jsonify({"released": lease})


def _worker() -> str:
    worker = auth.actor().worker_id
    if worker is None:
        raise InvariantBroken("an executor's token is bound to a worker")
    return worker


def _fence() -> int:
    given = request.headers.get("Mac-Lease-Token", "")
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Rejected(Refusal.FIELD_INVALID, {"field": "Mac-Lease-Token", "problem": "it is the token of the lease"})
    return int(given)
