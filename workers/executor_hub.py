"""The executor's side of `/v1`: typed questions, bounded patience, and the hub's refusals by their own names."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final, Self

import requests
from pydantic import TypeAdapter

from ledger.settings import WebUrl
from pipeline.errors import Rejected, Unavailable
from pipeline.facts import Deliverable
from pipeline.refusals import Refusal

TRIES_MAX: Final = 5
FIRST_PAUSE_S: Final = 0.5
CALL_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Lease:
    """One leased attempt as the hub describes it. Durations are milliseconds; `token` fences every further call."""

    id: str
    token: str
    beat_in_ms: int
    expires_in_ms: int
    task: str
    title: str
    body: str
    deliverable: Deliverable
    attempt: int
    clone_url: str
    canonical_branch: str
    branch: str
    contract: str | None
    directive: dict[str, Any] | None

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Self:
        """Read the hub's 201. A field that is missing is a hub of another version: `Unavailable`."""
        try:
            task, lease, repository = answer["task"], answer["lease"], answer["repository"]
            return cls(
                id=lease["id"],
                token=str(lease["token"]),
                beat_in_ms=lease["beat_in_ms"],
                expires_in_ms=lease["expires_in_ms"],
                task=task["id"],
                title=task["title"],
                body=task["body"],
                deliverable=Deliverable(task["deliverable"]),
                attempt=answer["attempt"]["number"],
                clone_url=repository["clone_url"],
                canonical_branch=repository["canonical_branch"],
                branch=repository["branch"],
                contract=answer["contract"],
                directive=answer["directive"],
            )
        except (KeyError, TypeError, ValueError) as unlike:
            raise Unavailable("hub_not_understood", f"The hub's lease lacks or misstates {unlike}.") from unlike


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: go on or stop, and how long the lease lives without the next one."""

    order: str
    expires_in_ms: int


@dataclass(frozen=True, slots=True)
class HubClient:
    """A worker's connection to one hub. `tries_max` 1 makes every question a single one (for heartbeats)."""

    url: str
    token: str = field(repr=False)
    tries_max: int = TRIES_MAX

    @classmethod
    def at(cls, url: str, token: str, tries_max: int = TRIES_MAX) -> Self:
        """The client for a URL. Raises pydantic's ValidationError for one that would carry the token in the clear."""
        return cls(TypeAdapter(WebUrl).validate_python(url), token, tries_max)

    def lease(self, projects: list[str]) -> Lease | None:
        """The next attempt, or None when there is nothing to do. A lost answer is asked for again."""
        asked = {"projects": projects} if projects else {}
        answer = self._ask("POST", "/v1/leases", json=asked, key=secrets.token_hex(16))
        return None if answer.status_code == 204 else Lease.from_answer(_object(answer))

    def heartbeat(self, lease_id: str, lease_token: str) -> Beat:
        """Keep the lease alive. Raises `Rejected(lease_stale)` when it is not ours any more."""
        said = _object(self._ask("POST", f"/v1/leases/{lease_id}/heartbeat", json={}, fence=lease_token))
        return Beat(said["order"], said["expires_in_ms"])

    def read_token(self, lease: Lease) -> str:
        """A token that can read the lease's repository, and nothing else."""
        answer = self._ask("GET", f"/v1/leases/{lease.id}/read-token", fence=lease.token)
        return str(_object(answer)["token"])

    def hand_in_bundle(self, lease: Lease, content: bytes) -> str:
        """Store the commits at the hub; the answer is their SHA-256."""
        path = f"/v1/leases/{lease.id}/bundle"
        return str(_object(self._ask("POST", path, data=content, fence=lease.token))["sha256"])

    def hand_in_evidence(self, lease: Lease, document: dict[str, Any]) -> str:
        """End the attempt with evidence; the answer is the evidence's id."""
        path = f"/v1/leases/{lease.id}/evidence"
        answer = self._ask("POST", path, json=document, fence=lease.token, key=secrets.token_hex(16))
        return str(_object(answer)["evidence"])

    def release(self, lease: Lease, failure: str, sentence: str, code: str | None = None) -> None:
        """Give the lease back without evidence, with the class of the failure, one sentence, and, where the failure
        depends on the work alone, its stable code."""
        said = {"class": failure, "sentence": sentence[:2_000], "code": code}
        self._ask("POST", f"/v1/leases/{lease.id}/release", json=said, fence=lease.token)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        json: dict[str, Any] | None = None,
        data: bytes | None = None,
        fence: str | None = None,
        key: str | None = None,
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        if fence is not None:
            headers["Mac-Lease-Token"] = fence
        if key is not None:
            headers["Idempotency-Key"] = key
        for tried in range(self.tries_max - 1):
            try:
                return self._once(method, path, json, data, headers)
            except Unavailable:
                time.sleep(FIRST_PAUSE_S * 2**tried)
        return self._once(method, path, json, data, headers)

    def _once(
        self, method: str, path: str, json: dict[str, Any] | None, data: bytes | None, headers: dict[str, str]
    ) -> requests.Response:
        try:
            answer = requests.request(
                method,
                self.url + path,
                json=json,
                data=data,
                headers=headers,
                timeout=CALL_TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as failed:
            raise Unavailable("hub_unreachable", f"The hub at {self.url} does not answer.") from failed
        if answer.status_code in {200, 201, 202, 204}:
            return answer
        raise _refusal(answer)


def _object(answer: requests.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except requests.JSONDecodeError as error:
        raise Unavailable("hub_not_understood", "The hub's answer is not JSON.") from error
    if not isinstance(document, dict):
        raise Unavailable("hub_not_understood", "The hub's answer is not an object.")
    return document


def _refusal(answer: requests.Response) -> Rejected | Unavailable:
    """4xx with a code that we know is a refusal; everything else may be better later."""
    if 400 <= answer.status_code < 500:
        try:
            said = _object(answer)
            return Rejected(Refusal(said["code"]), said.get("facts"))
        except (Unavailable, KeyError, ValueError):
            pass
    return Unavailable("hub_failed", f"The hub answered {answer.status_code}.")
