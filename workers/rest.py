"""Speaking REST with the forge: one request, one answer; no hidden wait, no hidden retry, no redirect followed.

PyGithub's requester does the talking. It is not made for several threads (a request is laid down on the connection that
they would share, then sent), so each thread gets one of its own. What goes wrong comes out as `Unavailable` with a
stable code, or as `ForgeAnswer` when the forge understood the request and said no.
"""

import datetime as dt
import email.utils
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import requests
import urllib3
from github import Auth, Github
from github.GithubException import GithubException
from github.Requester import Requester

from pipeline.errors import Unavailable

Json: TypeAlias = Any
PER_PAGE: Final = 100
PAGES_MAX: Final = 50
SECONDARY_LIMIT_MS: Final = 60_000
USER_AGENT: Final = "mac-hub"
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_NOT_READY: Final = 202
_CODES: Final[Mapping[int, str]] = {
    401: "credentials_refused",
    403: "forbidden",
    404: "not_found",
    405: "not_allowed",
    409: "conflict",
    422: "unprocessable",
}


class ForgeAnswer(Unavailable):
    """The forge understood and refused. `status` and `message` are its own; the code names the status."""

    def __init__(self, status: int, message: str, errors: str = "") -> None:
        super().__init__(_CODES.get(status, "refused"), f"the forge answered {status}: {message}")
        self.status = status
        self.message = message
        self.errors = errors


class Rest:
    """A forge under one credential. Safe to use from several threads."""

    def __init__(self, api_url: str, auth: Auth.Auth, *, timeout_ms: int) -> None:
        self._api_url = api_url.rstrip("/")
        self._auth = auth
        self._timeout_s = max(1, timeout_ms // 1000)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._calls = 0

    @property
    def calls(self) -> int:
        """How many requests were sent so far."""
        return self._calls

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Json:
        """The document at a path. Raises `ForgeAnswer` for a refusal, `Unavailable` when there is no answer."""
        return self._send("GET", path, parameters=parameters)[1]

    def pages(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Iterator[Json]:
        """Every page of a list, the next one under the very address that the forge named.

        Raises `Unavailable(page_incomplete)` when there are more pages than the bound: a list that was not read to its
        end is never handed out as a whole one.
        """
        url: str = path
        asked: dict[str, str | int] = {**(parameters or {}), "per_page": PER_PAGE}
        for _ in range(PAGES_MAX):
            headers, document = self._send("GET", url, parameters=asked)
            following = _next(headers)
            yield document
            if following is None:
                return
            url, asked = following, {}
        raise Unavailable("page_incomplete", f"{path} has more than {PAGES_MAX} pages")

    def send(self, verb: str, path: str, body: Mapping[str, Json]) -> Json:
        """One write, sent exactly once. A time-out or a 5xx leaves its effect open: look before repeating."""
        return self._send(verb, path, body=body)[1]

    def graphql(self, query: str, variables: Mapping[str, Json], *path: str) -> Json:
        """A field of the answer to a GraphQL query. Raises `Unavailable`, also when the answer lists errors."""
        document = self._send("POST", f"{self._requester().graphql_url}", body={"query": query, "variables": variables})[1]
        if not isinstance(document, dict) or document.get("errors"):
            raise Unavailable("answer_malformed", "the forge could not answer the query whole")
        return field(document, "data", *path)

    def _send(
        self,
        verb: str,
        url: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: Mapping[str, Json] | None = None,
    ) -> tuple[Mapping[str, str], Json]:
        with self._lock:
            self._calls += 1
        try:
            return self._requester().requestJsonAndCheck(
                verb, url, parameters=dict(parameters or {}), input=None if body is None else dict(body)
            )
        except GithubException as error:
            raise _named(error) from error
        except requests.exceptions.RetryError as error:
            code = "not_ready" if f"too many {_NOT_READY} " in str(error) else "moved"
            raise Unavailable(code, f"the forge redirected or put off {verb} {url}") from error
        except requests.exceptions.Timeout as error:
            raise Unavailable("time_out", f"the forge did not answer {verb} {url} in time") from error
        except requests.exceptions.RequestException as error:
            raise Unavailable("unreachable", f"the forge cannot be reached: {type(error).__name__}") from error
        except AssertionError as error:
            raise Unavailable("answer_malformed", "the forge named an address outside itself") from error

    def _requester(self) -> Requester:
        found: Requester | None = getattr(self._local, "requester", None)
        if found is None:
            found = self._local.requester = self._made()
        return found

    def _made(self) -> Requester:
        """No pause between requests and no retry. Every redirect fails: a renamed branch must not pass for its heir."""
        once = urllib3.util.Retry(
            total=0,
            allowed_methods=None,
            status_forcelist=_MOVED | {_NOT_READY},
            raise_on_status=True,
            respect_retry_after_header=False,
        )
        return Github(
            base_url=self._api_url,
            auth=self._auth,
            timeout=self._timeout_s,
            user_agent=USER_AGENT,
            retry=once,
            seconds_between_requests=0,
            seconds_between_writes=0,
        ).requester


def field(document: Json, *path: str) -> Json:
    """A field that the forge promises. Raises `Unavailable(answer_malformed)` when it is not there."""
    for name in path:
        if not isinstance(document, dict) or name not in document:
            raise Unavailable("answer_malformed", f"the forge's answer has no {'.'.join(path)}")
        document = document[name]
    return document


def instant_ms(text: str) -> int:
    """The forge's ISO 8601 words for an instant, as milliseconds since the epoch."""
    try:
        parsed = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise Unavailable("answer_malformed", f"the forge's instant {text!r} cannot be read") from error
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=dt.UTC)
    return int(parsed.timestamp() * 1000)


def _next(headers: Mapping[str, str]) -> str | None:
    links = requests.utils.parse_header_links(headers.get("link", ""))
    return next((link["url"] for link in links if link.get("rel") == "next"), None)


def _named(error: GithubException) -> Unavailable:
    document = error.data if isinstance(error.data, dict) else {}
    message = str(document.get("message") or error.message or "")
    headers = {name.lower(): str(value) for name, value in (error.headers or {}).items()}
    limited = Requester.isRateLimitError(message.lower()) or "retry-after" in headers
    if error.status == 429 or (error.status == 403 and (limited or headers.get("x-ratelimit-remaining") == "0")):
        return Unavailable("rate_limited", message or "the forge asks us to wait", _wait_ms(headers))
    if error.status >= 500:
        return Unavailable("server_error", f"the forge answered {error.status}")
    return ForgeAnswer(error.status, message, str(document.get("errors") or ""))


def _wait_ms(headers: Mapping[str, str]) -> int:
    """How long to wait, by the forge's own clock (its Date header), so that ours takes no part. At least a second."""
    if headers.get("retry-after", "").isdigit():
        return max(1, int(headers["retry-after"])) * 1000
    if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdigit():
        try:
            there = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
        except ValueError:
            return SECONDARY_LIMIT_MS
        return max(1, int(headers["x-ratelimit-reset"]) - int(there)) * 1000
    return SECONDARY_LIMIT_MS
