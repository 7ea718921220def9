"""Operations about the App itself, its installations, its deliveries, and the service."""

import json
from typing import Any

from tests.sandbox import shape, shape_repository
from tests.sandbox.auth import mint
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.reply import Answer, Refused, not_found
from tests.sandbox.world import Delivery, Installation, Json

RATE_LIMIT = 5000


@operation("GET", "/app", by="app")
def get_app(call: Call) -> Json:
    count = sum(1 for i in call.world.installations.values() if i.app is call.app)
    return {**shape.app(call.base, call.app), "installations_count": count}


@operation("GET", "/app/installations", by="app")
def list_installations(call: Call) -> Collection:
    mine = [i for i in call.world.installations.values() if i.app is call.app]
    return Collection(mine, lambda one: shape.installation(call.base, one))


@operation("GET", "/app/installations/{installation_id}", by="app")
def get_installation(call: Call) -> Json:
    return shape.installation(call.base, _installation(call))


@operation("POST", "/app/installations/{installation_id}/access_tokens", by="app")
def create_token(call: Call) -> Answer:
    token = mint(call.world, _installation(call), call.body)
    chosen = token.repository_ids
    named = None
    if chosen is not None:
        named = [shape_repository.repository(call.base, call.world.repositories[i]) for i in sorted(chosen)]
    return Answer(201, shape.token(token, named))


def _installation(call: Call) -> Installation:
    known = call.world.installations.get(call.number("installation_id"))
    if known is None or known.app is not call.app:
        raise not_found()
    return known


@operation("GET", "/repos/{owner}/{repo}/installation", by="app")
def get_repository_installation(call: Call) -> Json:
    known = call.world.installation_of(call.app, call.repository)
    if known is None:
        raise not_found()
    return shape.installation(call.base, known)


@operation("GET", "/installation/repositories")
def list_installation_repositories(call: Call) -> Collection:
    token = call.caller.token
    if token is None:
        raise Refused(403, "You must authenticate with an installation access token in order to list repositories.")
    seen = [r for r in call.world.repositories_of(token.installation) if call.caller.sees(r)]
    selection = "all" if token.repository_ids is None and token.installation.repository_ids is None else "selected"
    extra = {"repository_selection": selection}
    return Collection(seen, lambda one: shape_repository.repository(call.base, one), "repositories", extra)


@operation("GET", "/app/hook/config", by="app")
def get_hook_config(call: Call) -> Json:
    return {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": call.app.webhook_url or ""}


@operation("PATCH", "/app/hook/config", by="app")
def update_hook_config(call: Call) -> Json:
    """A new address or secret; deliveries that are already queued go there too."""
    call.app.webhook_url = call.body.get("url", call.app.webhook_url)
    call.app.webhook_secret = call.body.get("secret", call.app.webhook_secret)
    return get_hook_config(call)


@operation("GET", "/app/hook/deliveries", by="app")
def list_deliveries(call: Call) -> Answer:
    """Newest first, by cursor. A delivery that is still under way is not in the log yet."""
    size = min(max(int(call.query.get("per_page", "30")), 1), 100)
    cursor = call.query.get("cursor")
    mine = [d for d in reversed(call.world.deliveries) if d.app is call.app and d.status not in UNLOGGED]
    if cursor is not None:
        mine = [d for d in mine if d.id <= int(cursor)]
    headers = {}
    if len(mine) > size:
        following = f"{call.base}/app/hook/deliveries?per_page={size}&cursor={mine[size].id}"
        headers["Link"] = f'<{following}>; rel="next"'
    return Answer(200, [delivery_item(one) for one in mine[:size]], headers)


UNLOGGED = ("pending", "kept back")


@operation("GET", "/app/hook/deliveries/{delivery_id}", by="app")
def get_delivery(call: Call) -> Json:
    one = _delivery(call)
    request = {"headers": one.headers, "payload": json.loads(one.raw)}
    response: Json = {"headers": {}, "payload": one.answer}
    return {**delivery_item(one), "url": one.app.webhook_url or "", "request": request, "response": response}


@operation("POST", "/app/hook/deliveries/{delivery_id}/attempts", by="app")
def redeliver(call: Call) -> Answer:
    call.courier.redeliver(_delivery(call))
    return Answer(202, {})


def _delivery(call: Call) -> Delivery:
    number = call.number("delivery_id")
    found = next((d for d in call.world.deliveries if d.id == number and d.app is call.app), None)
    if found is None:
        raise not_found()
    return found


def delivery_item(one: Delivery) -> Json:
    return {
        "id": one.id,
        "guid": one.guid,
        "delivered_at": shape.moment(one.at_ms),
        "redelivery": one.redelivery,
        "duration": one.duration_ms / 1000,
        "status": one.status,
        "status_code": one.status_code,
        "event": one.event,
        "action": one.action,
        "installation_id": one.installation_id,
        "repository_id": one.repository_id,
        "throttled_at": None,
    }


@operation("GET", "/rate_limit", by="anyone")
def rate_limit(call: Call) -> Json:
    reset = call.world.clock() // 1000 // 3600 * 3600 + 3600
    one = {"limit": RATE_LIMIT, "used": 0, "remaining": RATE_LIMIT, "reset": reset}
    return {"resources": {"core": one, "search": one, "graphql": one}, "rate": one}


@operation("GET", "/meta", by="anyone")
def meta(call: Call) -> dict[str, Any]:
    return {"verifiable_password_authentication": False, "hooks": ["127.0.0.0/8"], "git": ["127.0.0.0/8"]}
