"""`/v1/proofs`: the signed envelopes, byte for byte, so that anybody can check them with a public key and a clone."""

from flask import Blueprint, Response

from ledger import proofs, tasks
from ledger.access import Scope
from webhook import auth, hub

blueprint = Blueprint("proofs", __name__, url_prefix="/v1/proofs")

MEDIA_TYPE = "application/vnd.dsse.envelope.v1+json"


@blueprint.get("/<task>")
@auth.needs(Scope.READ)
def show(task: str) -> Response:
    """The proof of a task. Refused: `task_unknown`, `proof_unknown`."""
    return envelope_of(task)


def envelope_of(task: str) -> Response:
    """The envelope as it was stored. Raises `Rejected(task_unknown | id_ambiguous | proof_unknown)`."""
    with hub.current().ledger.read() as tx:
        proof = proofs.proof_of(tx, tasks.get(tx, task).id)
    answer = Response(proof.envelope, content_type=MEDIA_TYPE)
    answer.headers["Mac-Proof-Digest"] = proof.digest
    return answer
