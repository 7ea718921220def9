"""The REST half of the front: routing, authentication, permissions, pages, ETags and the headers of every answer."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, request
from werkzeug.wrappers import Request as BaseRequest

from tests.sandbox import control, rest_app, rest_checks, rest_git, rest_pulls, rest_repository, rest_talk
from tests.sandbox.auth import Caller, identify
from tests.sandbox.deliveries import Courier
from tests.sandbox.endpoints import OPERATIONS, Call, Collection, Operation
from tests.sandbox.making import Maker
from tests.sandbox.orders import OrderBook
from tests.sandbox.paging import etag_of, page_of
from tests.sandbox.permissions import accepted, allowed
from tests.sandbox.referee import Referee
from tests.sandbox.reply import Answer, Refused, forbidden, not_found
from tests.sandbox.world import Json, Repository, World

ROOMS = (rest_app, rest_checks, rest_git, rest_pulls, rest_repository, rest_talk)
"""Importing them is what registers their operations."""

NOTE = "sandbox.note"
MANY_SEGMENTS = ("branch", "ref", "basehead")


@dataclass
class Note:
    """What the handler tells the request log."""

    route: str = ""
    caller: str = "nobody"


class Rest:
    """Answers REST requests out of one world."""

    def __init__(self, world: World, courier: Courier, referee: Referee) -> None:
        self.world, self.courier, self.referee = world, courier, referee
        self._request_ids: Iterator[int] = itertools.count(1)
        self._spent: dict[str, int] = {}

    def handle(self, operation: Operation, args: dict[str, str]) -> Response:
        note = request.environ.get(NOTE) or Note()
        note.route = operation.route
        caller = Caller()
        judge_request(self.referee, operation.method, operation.route)
        try:
            with self.world.lock:
                caller = identify(self.world, request.headers.get("Authorization"))
                answer = self._answer(operation, args, caller)
        except Refused as refused:
            answer = Answer(refused.status, refused.body, refused.headers)
        note.caller = caller.name
        response = self._finish(operation, caller, answer)
        self.referee.judge_answer(operation.method, operation.route, response.status_code, answer.body)
        return response

    def _answer(self, operation: Operation, args: dict[str, str], caller: Caller) -> Answer:
        _admit(operation, caller)
        repository = self._repository(operation, args, caller)
        if isinstance(repository, Answer):
            return repository
        token = caller.token
        if repository is not None and token is not None and not allowed(
            token.permissions, operation.method, operation.route
        ):
            raise forbidden()
        body = _body()
        base, query = request.host_url.rstrip("/"), request.args.to_dict()
        call = Call(self.world, self.courier, caller, base, args, query, body, repository)
        found = operation.handler(call)
        if isinstance(found, Collection):
            return page_of(found, _numeric_url(base, repository), query)
        return found if isinstance(found, Answer) else Answer(200, found)

    def _repository(self, operation: Operation, args: dict[str, str], caller: Caller) -> Repository | Answer | None:
        """The repository that is meant; one that was renamed answers 301, one that is not seen 404."""
        if "repo" not in args:
            return None
        full_name = f"{args['owner']}/{args['repo']}"
        known = self.world.repository(full_name)
        if known is None:
            moved_to = self.world.renamed(full_name)
            if moved_to is None or not caller.sees(moved_to):
                raise not_found()
            where = _numeric_url(request.host_url.rstrip("/"), moved_to)
            return Answer(301, {"message": "Moved Permanently", "url": where}, {"Location": where})
        if operation.by != "app" and not caller.sees(known):
            raise not_found()
        return known

    def _finish(self, operation: Operation, caller: Caller, answer: Answer) -> Response:
        raw = b"" if answer.body is None else json.dumps(answer.body).encode()
        response = Response(raw, answer.status, dict(answer.headers))
        response.headers["Content-Type"] = "application/json; charset=utf-8"
        if answer.status == 200 and operation.method == "GET":
            response.headers["ETag"] = etag_of(raw)
            response.headers["Cache-Control"] = "private, max-age=60, s-maxage=60"
            if request.headers.get("If-None-Match") == response.headers["ETag"]:
                response.status_code = 304
                response.set_data(b"")
        self._common_headers(operation, caller, response)
        return response

    def _common_headers(self, operation: Operation, caller: Caller, response: Response) -> None:
        now_s = self.world.clock() // 1000
        window = f"{caller.name}:{now_s // 3600}"
        spent = self._spent.get(window, 0) + (response.status_code != 304)
        self._spent[window] = spent
        number = next(self._request_ids)
        response.headers.update(
            {
                "X-GitHub-Request-Id": f"{number:04X}:SAND:{number:08X}",
                "X-GitHub-Media-Type": "github.v3; format=json",
                "X-GitHub-Api-Version-Selected": "2022-11-28",
                "X-RateLimit-Limit": str(rest_app.RATE_LIMIT),
                "X-RateLimit-Used": str(spent),
                "X-RateLimit-Remaining": str(max(rest_app.RATE_LIMIT - spent, 0)),
                "X-RateLimit-Reset": str((now_s // 3600 + 1) * 3600),
                "X-RateLimit-Resource": "core",
            }
        )
        if accepted(operation.method, operation.route):
            response.headers["X-Accepted-GitHub-Permissions"] = accepted(operation.method, operation.route)


def _admit(operation: Operation, caller: Caller) -> None:
    if operation.by == "app" and caller.app is None:
        raise Refused(401, "A JSON web token could not be decoded")
    public_read = operation.method == "GET" and "{repo}" in operation.route and caller.app is None
    if operation.by == "token" and caller.token is None and caller.person is None and not public_read:
        raise Refused(401, "Requires authentication" if caller.app is None else "Bad credentials")


def _body() -> Json:
    raw = request.get_data(cache=True)
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise Refused(400, "Problems parsing JSON") from None
    if body is not None and not isinstance(body, dict):
        raise Refused(400, "Body should be a JSON object")
    return body or {}


def judge_request(referee: Referee, method: str, route: str, asked: BaseRequest | None = None) -> None:
    """Puts a request before the referee, also one that will be refused; a body that is no JSON has a refusal of its own."""
    seen = asked or request
    try:
        body = json.loads(seen.get_data(cache=True) or b"{}")
    except ValueError:
        return
    referee.judge_request(method, route, body, seen.args.to_dict(), seen.headers.get("User-Agent", ""))


def _numeric_url(base: str, repository: Repository | None) -> str:
    """This request's URL without its query, in the form that Link headers use."""
    if repository is None:
        return f"{base}{request.path}"
    rest = request.path.split("/", 4)[4:]
    return "/".join([f"{base}/repositories/{repository.id}", *rest])


def build(maker: Maker, orders: OrderBook, referee: Referee) -> Flask:
    """The Flask application with every registered operation, and the control surface."""
    flask = Flask("sandbox")
    flask.url_map.merge_slashes = False
    rest = Rest(maker.world, maker.courier, referee)
    for one in OPERATIONS:
        rule = one.route
        for name in MANY_SEGMENTS:
            rule = rule.replace(f"{{{name}}}", f"<path:{name}>")
        rule = rule.replace("{", "<").replace("}", ">")

        def view(one: Operation = one, **args: Any) -> Response:
            return rest.handle(one, args)

        flask.add_url_rule(rule, f"{one.method} {one.route}", view, methods=[one.method])
    def nothing_here(_error: Exception) -> Response:
        referee.judge_unserved(request.method, request.path)
        body = json.dumps(not_found().body)
        return Response(body, 404, content_type="application/json; charset=utf-8")

    flask.register_error_handler(404, nothing_here)
    flask.register_error_handler(405, nothing_here)
    control.register(flask, maker, orders, referee)
    return flask
