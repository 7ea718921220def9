"""`/v1/tokens` and `/v1/keys`: tokens for clients, and the public keys that check the hub's proofs."""

from flask import Blueprint, Response, jsonify, request

from ledger import access
from ledger.access import Scope
from ledger.session import Transaction
from pipeline.signing import SigningKey
from webhook import auth, hub, once
from webhook.schemas import NewToken, read

blueprint = Blueprint("tokens", __name__, url_prefix="/v1")


@blueprint.post("/tokens")
@auth.needs(Scope.ADMIN)
def create() -> Response:
    """201: a new token. Its secret is in this one answer and nowhere else; a repeated request answers without it."""
    wanted = read(NewToken, request.get_data())

    def issue(tx: Transaction) -> once.Done:
        made = access.issue(
            tx, scope=wanted.scope, label=wanted.label, worker_name=wanted.worker, actor=auth.actor().name
        )
        document = {"id": made.token_id, "scope": made.scope.value, "worker": made.worker_id, "token": made.secret}
        return once.Done(201, document, shown_once=("token",))

    return once.together(issue)


@blueprint.get("/keys")
@auth.open_to_all("public keys are public: anybody may check a proof")
def keys() -> Response:
    """The public proof keys. Empty where this process was not given the proof key to derive one from."""
    secret = hub.current().settings.proof_key
    known = [] if secret is None else [SigningKey.from_text(secret.get_secret_value()).public]
    return jsonify({"keys": [{"id": key.id, "algorithm": "ed25519", "public": key.text()} for key in known]})
