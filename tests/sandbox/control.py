"""The control surface for drivers that are not in this process: `/_sandbox/…`, JSON in and out (docs/sandbox.md).

It is not part of GitHub, needs no credential, and is never counted in the request log.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flask import Flask, Response, request

from tests.sandbox.deliveries import Mishap
from tests.sandbox.gitdir import GitDir, GitFailed
from tests.sandbox.making import Maker, checks_rule, key_pair, pull_request_rule
from tests.sandbox.orders import Order, OrderBook
from tests.sandbox.referee import Referee
from tests.sandbox.reply import Refused, not_found
from tests.sandbox.rest_app import delivery_item
from tests.sandbox.rest_pulls import open_pull
from tests.sandbox.rest_repository import protection_of
from tests.sandbox.world import App, Json, Repository

MINT = "/access_tokens"
LONGEST_WAIT_S = 120.0
ORDER_FIELDS = ("skip", "apply", "status", "body", "headers", "hold", "delay_ms", "drop", "stale", "malformed")


class Control:
    """The handlers; each takes the body and the path arguments, and answers with JSON."""

    def __init__(self, maker: Maker, orders: OrderBook, referee: Referee) -> None:
        self.maker, self.world = maker, maker.world
        self.orders, self.referee = orders, referee

    def _repository(self, args: Json) -> Repository:
        found = self.world.repository(f"{args['owner']}/{args['repo']}")
        if found is None:
            raise not_found()
        return found

    def _app(self, args: Json) -> App:
        found = self.world.apps.get(int(args["app_id"]))
        if found is None:
            raise not_found()
        return found

    def _order(self, args: Json) -> Order:
        found = next((o for o in self.orders.orders if o.id == int(args["order_id"])), None)
        if found is None:
            raise not_found()
        return found

    def make_repository(self, body: Json, _args: Json) -> Json:
        source = Path(body["source"]) if "source" in body else None
        made = self.maker.repository(
            body["name"],
            body.get("files"),
            source=source,
            default_branch=body.get("default_branch", "main"),
            private=body.get("private", True),
        )
        for option in ("mergeable_after_reads", "allow"):
            setattr(made, option, body.get(option, getattr(made, option)))
        if "ref_namespaces" in body:
            made.ref_namespaces = tuple(body["ref_namespaces"])
        return {"id": made.id, "name": made.full_name, "path": str(made.path), "refs": made.known_refs}

    def make_app(self, body: Json, _args: Json) -> Json:
        slug = body["slug"]
        names = ("permissions", "owner", "webhook_url", "webhook_secret", "events", "public_key_pem")
        installation = self.maker.app(slug, **{name: body[name] for name in names if name in body})
        private = None if "public_key_pem" in body else key_pair(slug)[0]
        app = installation.app
        made = {"id": app.id, "slug": slug, "client_id": app.client_id, "installation_id": installation.id}
        return {**made, "private_key": private}

    def set_webhook(self, body: Json, args: Json) -> Json:
        self.maker.set_webhook(self._app(args), body["url"], body["secret"])
        return {}

    def make_person(self, body: Json, _args: Json) -> Json:
        owner = self.maker.person(body["login"])
        return {"login": owner.login, "id": owner.id, "token": owner.token}

    def make_ruleset(self, body: Json, args: Json) -> Json:
        rules = list(body.get("rules", []))
        if body.get("required_checks"):
            checks = [(check["context"], check.get("app_id")) for check in body["required_checks"]]
            rules.append(checks_rule(checks, body.get("strict", False)))
        if body.get("pull_request"):
            rules.append(pull_request_rule(body.get("approvals", 0)))
        more = {name: body[name] for name in ("name", "include", "bypass_actors", "enforcement") if name in body}
        return {"id": self.maker.ruleset(self._repository(args), rules, **more).id}

    def protect(self, body: Json, args: Json) -> Json:
        """The body of GitHub's own operation, and the branch."""
        with self.world.lock:
            self._repository(args).protections[body["branch"]] = protection_of(body)
        return {}

    def commit(self, body: Json, args: Json) -> Json:
        more = {name: body[name] for name in ("message", "author") if name in body}
        return {"sha": self.maker.commit(self._repository(args), body["on"], body["files"], **more)}

    def move_ref(self, body: Json, args: Json) -> Json:
        self.maker.move(self._repository(args), body["ref"], body.get("sha"), body.get("by", "somebody"))
        return {}

    def refs(self, _body: Json, args: Json) -> Json:
        return dict(GitDir(self._repository(args).path).refs())

    def open_pull(self, body: Json, args: Json) -> Json:
        with self.world.lock:
            author = self.world.owner(body.get("by", "somebody"), "User")
            return {"number": open_pull(self.maker.courier, self._repository(args), author, body).number}

    def comment(self, body: Json, args: Json) -> Json:
        by = body.get("by", "somebody")
        return {"id": self.maker.comment(self._repository(args), int(args["number"]), body["body"], by).id}

    def place_order(self, body: Json, _args: Json) -> Json:
        more = {name: body[name] for name in ORDER_FIELDS if name in body}
        return _order(self.orders.add(body["method"], body["path"], body.get("times", 1), **more))

    def list_orders(self, _body: Json, _args: Json) -> Json:
        return {"orders": [_order(order) for order in self.orders.orders]}

    def release(self, _body: Json, args: Json) -> Json:
        found = self._order(args)
        found.release()
        return _order(found)

    def wait_order(self, body: Json, args: Json) -> Json:
        """Waits until a request stands at the order's hold; `reached` says whether one came in time."""
        found = self._order(args)
        found.wait_reached(min(float(body.get("timeout_s", 20)), LONGEST_WAIT_S))
        return _order(found)

    def mishap(self, body: Json, _args: Json) -> Json:
        self.maker.courier.mishaps.append(Mishap(body["kind"], body.get("event", "*"), body.get("times", 1)))
        return {}

    def calls(self, _body: Json, _args: Json) -> Json:
        """Counts by method and route, and by caller; token mints stand apart."""
        with self.world.lock:
            seen = list(self.world.requests)
        mints = [r for r in seen if r.route.endswith(MINT)]
        rest = [r for r in seen if not r.route.endswith(MINT)]
        names = [(r.caller, r.route if r.route.startswith("git ") else f"{r.method} {r.route}") for r in rest]
        callers = sorted({caller for caller, _ in names})
        return {
            "total": len(rest),
            "token_mints": len(mints),
            "calls": Counter(name for _, name in names),
            "by_caller": {who: Counter(name for caller, name in names if caller == who) for who in callers},
        }

    def forget_calls(self, _body: Json, _args: Json) -> Json:
        with self.world.lock:
            self.world.requests.clear()
        return {}

    def requests(self, _body: Json, _args: Json) -> Json:
        with self.world.lock:
            return {"requests": [asdict(entry) for entry in self.world.requests]}

    def deliveries(self, _body: Json, _args: Json) -> Json:
        with self.world.lock:
            return {"deliveries": [{**delivery_item(d), "app": d.app.slug} for d in self.world.deliveries]}

    def settle(self, body: Json, _args: Json) -> Json:
        return {"settled": self.maker.courier.settle(min(float(body.get("timeout_s", 20)), LONGEST_WAIT_S))}

    def violations(self, _body: Json, _args: Json) -> Json:
        return {"on": self.referee.description is not None, "violations": list(self.referee.violations)}

    def health(self, _body: Json, _args: Json) -> Json:
        return {"ready": True, "url": self.world.base_url}


def _order(order: Order) -> Json:
    state = {"reached": order.reached.is_set(), "released": order.released.is_set()}
    plain = ("id", "method", "path", "times", "used", "hold", "status")
    return {**{name: getattr(order, name) for name in plain}, **state}


ROUTES: list[tuple[str, str, Callable[[Control, Json, Json], Json]]] = [
    ("GET", "", Control.health),
    ("POST", "repositories", Control.make_repository),
    ("POST", "repositories/<owner>/<repo>/rulesets", Control.make_ruleset),
    ("POST", "repositories/<owner>/<repo>/protection", Control.protect),
    ("POST", "repositories/<owner>/<repo>/commits", Control.commit),
    ("POST", "repositories/<owner>/<repo>/refs", Control.move_ref),
    ("GET", "repositories/<owner>/<repo>/refs", Control.refs),
    ("POST", "repositories/<owner>/<repo>/pulls", Control.open_pull),
    ("POST", "repositories/<owner>/<repo>/pulls/<number>/comments", Control.comment),
    ("POST", "apps", Control.make_app),
    ("POST", "apps/<app_id>/webhook", Control.set_webhook),
    ("POST", "people", Control.make_person),
    ("POST", "orders", Control.place_order),
    ("GET", "orders", Control.list_orders),
    ("POST", "orders/<order_id>/release", Control.release),
    ("POST", "orders/<order_id>/wait", Control.wait_order),
    ("POST", "mishaps", Control.mishap),
    ("GET", "calls", Control.calls),
    ("DELETE", "calls", Control.forget_calls),
    ("GET", "requests", Control.requests),
    ("GET", "deliveries", Control.deliveries),
    ("POST", "settle", Control.settle),
    ("GET", "violations", Control.violations),
]


def register(flask: Flask, maker: Maker, orders: OrderBook, referee: Referee) -> None:
    """Adds the control surface to the application."""
    control = Control(maker, orders, referee)
    for method, path, handler in ROUTES:

        def view(handler: Callable[[Control, Json, Json], Json] = handler, **args: Any) -> Response:
            try:
                raw = request.get_data(cache=True)
                found, status = handler(control, json.loads(raw) if raw else {}, args), 200
            except Refused as refused:
                found, status = refused.body, refused.status
            except (KeyError, ValueError, TypeError, GitFailed) as error:
                found, status = {"message": f"{type(error).__name__}: {error}"}, 400
            return Response(json.dumps(found), status, content_type="application/json")

        flask.add_url_rule(f"/_sandbox/{path}", f"control {method} {path}", view, methods=[method])
