"""Who may come in: bearer tokens, one scope each, and every door closed until it says whom it is for.

A view declares its scope with `needs`, or with `open_to_all` and a reason. A view that declares nothing keeps the
application from being built, so a forgotten declaration is a start-up failure and never an open route.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from flask import Flask, current_app, g, request

from ledger import access
from ledger.access import Actor, Scope
from pipeline.errors import Rejected, ensure
from pipeline.refusals import Refusal
from webhook import hub

V = TypeVar("V", bound=Callable[..., object])

COVERS: Mapping[Scope, frozenset[Scope]] = MappingProxyType(
    {
        Scope.READ: frozenset({Scope.READ}),
        Scope.OPERATOR: frozenset({Scope.READ, Scope.OPERATOR}),
        Scope.ADMIN: frozenset({Scope.READ, Scope.OPERATOR, Scope.ADMIN}),
        Scope.EXECUTOR: frozenset({Scope.EXECUTOR}),
        Scope.BATCH: frozenset({Scope.BATCH}),
    }
)

_SCOPE = "_mac_scope"
_OPEN = "_mac_open"


def needs(scope: Scope) -> Callable[[V], V]:
    """Let in those whose token covers `scope`; the caller is then at `actor()`."""

    def declare(view: V) -> V:
        setattr(view, _SCOPE, scope)
        return view

    return declare


def open_to_all(why: str) -> Callable[[V], V]:
    """Let everybody in. `why` is the reason, for the reader and for the table of routes."""

    def declare(view: V) -> V:
        setattr(view, _OPEN, why)
        return view

    return declare


def declared(view: Callable[..., object]) -> Scope | str | None:
    """The scope that a view asks for, the reason why it is open, or None where it declares nothing."""
    return getattr(view, _SCOPE, None) or getattr(view, _OPEN, None)


def close_doors(app: Flask) -> None:
    """Check every request against its view's declaration. Call it after all routes are added.

    Raises `InvariantBroken` for a route that declares nothing.
    """
    for rule in app.url_map.iter_rules():
        ensure(declared(app.view_functions[rule.endpoint]) is not None, f"{rule.rule} declares no scope")
    app.before_request(_admit)


def actor() -> Actor:
    """Who asks. Only on a route with a scope."""
    found = g.actor
    assert isinstance(found, Actor)
    return found


def _admit() -> None:
    if request.endpoint is None:
        return  # no such route, or not by this method: the framework refuses it by itself
    needed = declared(current_app.view_functions[request.endpoint])
    if isinstance(needed, Scope):
        g.actor = _caller()
        if needed not in COVERS[g.actor.scope]:
            raise Rejected(Refusal.SCOPE_MISSING, {"scope": g.actor.scope.value, "needed": needed.value})


def _caller() -> Actor:
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise Rejected(Refusal.TOKEN_MISSING)
    with hub.current().ledger.read() as tx:
        return access.who(tx, secret.strip())
