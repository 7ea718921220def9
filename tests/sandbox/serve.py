"""The front door: one WSGI application for REST, git and control, on werkzeug's threaded server with keep-alive.

Each request is answered completely before anything of it is sent. So an order can hold, replace or drop the answer,
and the request log and the referee see exactly what the caller sees.
"""

import io
import json
import re
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from tests.sandbox import git_http
from tests.sandbox.making import Maker
from tests.sandbox.orders import Order, OrderBook
from tests.sandbox.referee import Referee
from tests.sandbox.rest import NOTE, Note, build, judge_request
from tests.sandbox.world import Recorded

Environ = dict[str, Any]
Start = Callable[..., Any]
NUMERIC = re.compile(r"/repositories/(\d+)(/.*|)")
LONGEST_DELAY_S = 60.0
NO_BODY = (204, 304)


class Front:
    """Everything between the socket and the handlers."""

    def __init__(self, maker: Maker, orders: OrderBook, referee: Referee) -> None:
        self.world, self.courier, self.orders, self.referee = maker.world, maker.courier, orders, referee
        self.hooks: Path = git_http.install_hooks(maker.world.home)
        self.flask: Flask = build(maker, orders, referee)
        self._last: dict[str, tuple[int, bytes, list[tuple[str, str]]]] = {}
        self._delays = threading.Event()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        request = Request(environ)
        body = request.get_data(cache=True)
        environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
        environ["PATH_INFO"] = self._canonical(request.path)
        if request.path.startswith("/_sandbox/"):
            return Response.from_app(self.flask, environ)(environ, start)
        method = request.method
        order = self.orders.take(method, environ["PATH_INFO"])
        response = self._ordered(order, environ, request) if order else self._answer(environ, request)
        return response(environ, start)

    def _canonical(self, path: str) -> str:
        """The path by name; both forms reach the same operations."""
        path = path.removeprefix("/api/v3")
        match = NUMERIC.fullmatch(path)
        if match is None:
            return path
        known = self.world.repositories.get(int(match[1]))
        return f"/repos/{known.full_name}{match[2]}" if known is not None else path

    def _ordered(self, order: Order, environ: Environ, request: Request) -> Response:
        if order.delay_ms:
            self._delays.wait(min(order.delay_ms / 1000, LONGEST_DELAY_S))
        order.stand("before")
        if not order.apply or order.stale:
            self._judge_unapplied(environ, request)
        if order.stale and request.full_path in self._last:
            status, raw, headers = self._last[request.full_path]
            self._record(environ, "stale", status, "order")
            return Response(raw, status, headers)
        response = self._answer(environ, request) if order.apply else None
        order.stand("after")
        if order.drop:
            self._hang_up(environ)
        if order.status is None:
            return response or self._answer(environ, request)
        if response is None:
            self._record(environ, "ordered", order.status, "order")
        self._judge_ordered(order, environ, request)
        if isinstance(order.body, str):
            return Response(order.body, order.status, order.headers)
        return _json(order.body if order.body is not None else {"message": "ordered"}, order.status, order.headers)

    def _judge_unapplied(self, environ: Environ, request: Request) -> None:
        """A request that no handler will see is held against the description all the same."""
        route = self._route(environ, request.method)
        if route is not None:
            judge_request(self.referee, request.method, route, request)

    def _judge_ordered(self, order: Order, environ: Environ, request: Request) -> None:
        """A made-up answer must be one that GitHub could give, unless the order says that it is malformed."""
        route = self._route(environ, request.method)
        if route is not None and not order.malformed and not isinstance(order.body, str):
            self.referee.judge_answer(request.method, route, order.status or 200, order.body or {"message": "ordered"})

    def _route(self, environ: Environ, method: str) -> str | None:
        try:
            endpoint, _ = self.flask.url_map.bind("sandbox").match(environ["PATH_INFO"], method)
        except HTTPException:
            return None
        return str(endpoint).partition(" ")[2]

    def _hang_up(self, environ: Environ) -> None:
        """Ends the connection without an answer."""
        wire: socket.socket = environ["werkzeug.socket"]
        wire.shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError("dropped on order")

    def _answer(self, environ: Environ, request: Request) -> Response:
        path = environ["PATH_INFO"]
        if git_http.PATH.fullmatch(path):
            body = request.get_data(cache=True)
            response, caller = git_http.answer(
                self.courier,
                self.hooks,
                path=path,
                query=request.args,
                headers=dict(request.headers.items()),
                body=body,
            )
            service = request.args.get("service") or path.rpartition("/")[2]
            route = f"git {'refs for ' if 'info/refs' in path else ''}{service}"
            self._record(environ, route, response.status_code, caller)
            return response
        note = environ[NOTE] = Note()
        response = Response.from_app(self.flask, environ, buffered=True)
        self._record(environ, note.route or path, response.status_code, note.caller)
        if request.method == "GET" and response.status_code == 200:
            self._last[request.full_path] = (200, response.get_data(), list(response.headers.items()))
        return response

    def _record(self, environ: Environ, route: str, status: int, caller: str) -> None:
        at_ms = self.world.clock()
        entry = Recorded(at_ms, environ["REQUEST_METHOD"], environ["PATH_INFO"], route, status, caller)
        with self.world.lock:
            self.world.requests.append(entry)


def _json(body: Any, status: int, headers: dict[str, str]) -> Response:
    return Response(json.dumps(body), status, headers, content_type="application/json; charset=utf-8")


class KeepAlive(WSGIRequestHandler):
    """werkzeug's handler with HTTP/1.1 connections that stay open; the front always reads the whole body."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    open_sockets: set[socket.socket]

    def setup(self) -> None:
        super().setup()
        self.open_sockets.add(self.connection)

    def finish(self) -> None:
        self.open_sockets.discard(self.connection)
        super().finish()

    def run_wsgi(self) -> None:
        """Answers one request in one piece; werkzeug's own way ends each connection, and waits before it does."""
        environ = self.make_environ()
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _failed: object = None, /) -> Callable[[bytes], object]:
            started.append((status, headers))
            return self.wfile.write

        try:
            pieces = self.server.app(environ, start)
            body = b"".join(pieces)
        except ConnectionError:
            self.close_connection = True
            return
        status, headers = started[0]
        code, _, words = status.partition(" ")
        self.send_response(int(code), words)
        for name, value in headers:
            self.send_header(name, value)
        if int(code) not in NO_BODY and not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if int(code) not in NO_BODY:
            self.wfile.write(body)

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the name that werkzeug gave it
        """Silent: the request log is the world's."""


class Server:
    """A running sandbox front: a thread that accepts on loopback, until `close()`."""

    def __init__(self, front: Front, port: int = 0) -> None:
        sockets: set[socket.socket] = set()
        handler = type("Handler", (KeepAlive,), {"open_sockets": sockets})
        self._sockets = sockets
        self._server: BaseWSGIServer = make_server("127.0.0.1", port, front, threaded=True, request_handler=handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="sandbox", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops accepting, and ends the connections that are still open."""
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()
        for wire in list(self._sockets):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


