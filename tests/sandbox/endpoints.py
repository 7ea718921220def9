"""The registry of operations, and what each of them is called with.

A handler is a function from a `Call` to a body or an `Answer`. It is registered under GitHub's published path
template, which also names its row in the permission table and in the description that the referee holds it to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.sandbox.auth import Caller
from tests.sandbox.deliveries import Courier
from tests.sandbox.gitdir import GitDir
from tests.sandbox.reply import Refused, unprocessable
from tests.sandbox.world import App, Json, Owner, Repository, World


@dataclass(frozen=True)
class Call:
    """One request, past authentication and permission. `base` is the scheme and host that were addressed."""

    world: World
    courier: Courier
    caller: Caller
    base: str
    args: Mapping[str, str]
    query: Mapping[str, str]
    body: Json
    found: Repository | None

    @property
    def repository(self) -> Repository:
        assert self.found is not None
        return self.found

    @property
    def git(self) -> GitDir:
        return GitDir(self.repository.path)

    @property
    def actor(self) -> Owner:
        """The account behind a write; an App's JWT has none and raises `Refused(401)`."""
        if self.caller.actor is None:
            raise Refused(401, "Requires authentication")
        return self.caller.actor

    @property
    def app(self) -> App:
        """The App behind the call; people have none and raise `Refused(403)`."""
        if self.caller.acting_app is None:
            raise Refused(403, "You must authenticate via a GitHub App.")
        return self.caller.acting_app

    def number(self, name: str) -> int:
        """A path argument that is a number; anything else names nothing."""
        if not self.args[name].isdigit():
            raise Refused(404, "Not Found")
        return int(self.args[name])

    def wanted(self, *names: str) -> list[Any]:
        """Required members of the body, in order; a missing one raises `Refused(422)`."""
        missing = [name for name in names if self.body.get(name) is None]
        if missing:
            quoted = ", ".join(f'"{name}"' for name in missing)
            raise unprocessable(f"Invalid request.\n\n{quoted} wasn't supplied.")
        return [self.body[name] for name in names]


Handler = Callable[[Call], Any]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class Operation:
    """One operation of the REST API, under its published path template."""

    method: str
    route: str
    handler: Handler
    by: str


OPERATIONS: list[Operation] = []


def operation(method: str, route: str, by: str = "token") -> Callable[[H], H]:
    """Registers a handler. `by`: "app" (JWT), "token" (installation or person), or "anyone"."""

    def register(handler: H) -> H:
        OPERATIONS.append(Operation(method, route, handler, by))
        return handler

    return register


@dataclass(frozen=True)
class Collection:
    """An answer that the front cuts into pages; `wrap` names the member that holds the list, if any."""

    items: list[Any]
    shape: Callable[[Any], Json]
    wrap: str | None = None
    extra: Mapping[str, Any] | None = None
