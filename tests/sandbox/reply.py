"""How the sandbox says no, and what a handler may answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DOCUMENTATION = "https://docs.github.com/rest"


class Refused(Exception):
    """An error answer in GitHub's form; `errors` stands for itself when it is given."""

    def __init__(self, status: int, message: str, errors: list[Any] | None = None, **extra: Any) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        body: dict[str, Any] = {"message": message}
        if errors is not None:
            body["errors"] = errors
        self.body = {**body, "documentation_url": DOCUMENTATION, "status": str(status), **extra}
        self.headers: dict[str, str] = {}


@dataclass(frozen=True)
class Answer:
    """A successful answer with a status of its own; `body` None sends no content."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def not_found() -> Refused:
    return Refused(404, "Not Found")


def forbidden() -> Refused:
    return Refused(403, "Resource not accessible by integration")


def invalid(resource: str, field_name: str, code: str = "invalid", message: str | None = None) -> Refused:
    """422 with one error about one field; a message makes it a `custom` error, as on the real thing."""
    error: dict[str, Any] = {"resource": resource, "field": field_name, "code": code}
    if message is not None:
        error = {"resource": resource, "code": "custom", "message": message}
    return Refused(422, "Validation Failed", [error])


def unprocessable(message: str) -> Refused:
    """422 with nothing but a sentence."""
    return Refused(422, message)
