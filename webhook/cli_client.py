"""The command line's connection to `/v1`: one question, one answer, and the hub's refusals by their own names."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click
import requests
from pydantic import TypeAdapter, ValidationError

from ledger.settings import WebUrl
from pipeline.errors import Rejected, Unavailable
from pipeline.refusals import Refusal

TIMEOUT_S: Final = 30.0
DEFAULT_URL: Final = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class HubClient:
    """One hub and one token. Raises `Rejected` for its refusals and `Unavailable` when it does not answer."""

    url: str
    token: str = field(repr=False)

    def get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        """Ask for a document."""
        return self._ask("GET", path, query=query)

    def rows(self, path: str, **query: str | int | None) -> Iterator[dict[str, Any]]:
        """All rows of a list, page by page."""
        cursor: str | None = None
        while True:
            page = self.get(path, **query, cursor=cursor)
            yield from page["rows"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for something to be done, under a key of its own, so that it is done once."""
        return self._ask("POST", path, document=document)

    def raw(self, path: str) -> bytes:
        """Ask for bytes as they are."""
        return self._once("GET", path, {}, None).content

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | None] | None = None,
        document: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        answer = self._once(method, path, query or {}, document)
        try:
            said = answer.json()
        except requests.JSONDecodeError as error:
            raise Unavailable("hub_not_understood", f"What answers at {self.url} is no hub.") from error
        if not isinstance(said, dict):
            raise Unavailable("hub_not_understood", f"What answers at {self.url} is no hub.")
        return said

    def _once(
        self, method: str, path: str, query: Mapping[str, str | int | None], document: Mapping[str, Any] | None
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if method == "POST":
            headers["Idempotency-Key"] = secrets.token_hex(16)
        try:
            answer = requests.request(
                method,
                self.url + path,
                params={name: value for name, value in query.items() if value is not None},
                json=document,
                headers=headers,
                timeout=TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as failed:
            raise Unavailable("hub_unreachable", f"There is no answer from the hub at {self.url}.") from failed
        if answer.ok:
            return answer
        raise _refusal(answer)


def from_environment(url: str | None, token: str | None) -> HubClient:
    """The client for what the environment says. Raises click's BadParameter for a URL that would show the token."""
    try:
        return HubClient(TypeAdapter(WebUrl).validate_python(url or DEFAULT_URL), token or "")
    except ValidationError as refused:
        raise click.BadParameter(refused.errors()[0]["msg"], param_hint="MAC_HUB_URL") from None


def _refusal(answer: requests.Response) -> Rejected | Unavailable:
    try:
        said = answer.json()
        return Rejected(Refusal(said["code"]), said["facts"])
    except (ValueError, KeyError, TypeError):
        return Unavailable("hub_failed", f"The hub answered {answer.status_code}.")
