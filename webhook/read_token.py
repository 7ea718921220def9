"""A read-only token for one repository, minted by the App for the executor that holds a lease on it.

The hub's own writing tokens never leave the hub. What an executor gets can read the contents of that one repository and
nothing else, and ends by itself within the hour.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import requests
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from pipeline.errors import Unavailable, ensure

CLOCK_SKEW_S = 60
ASSERTION_LIFE_S = 540
PERMISSIONS = {"contents": "read"}


@dataclass(frozen=True, slots=True)
class ReadToken:
    """What the executor is handed: the token, and GitHub's word on when it ends (ISO 8601 with Z)."""

    token: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Minter:
    """The App's identity towards GitHub. `timeout_ms` bounds the one call that a token costs."""

    api_url: str
    app_id: str
    private_key_pem: str
    timeout_ms: int

    def mint(self, repository_id: int, installation_id: int, now: int) -> ReadToken:
        """A token that reads the contents of exactly this repository; `now` in milliseconds dates the assertion.

        Raises `Unavailable` when GitHub does not answer, refuses, or answers with wider rights than were asked for.
        """
        answer = self._ask(repository_id, installation_id, now)
        if answer.status_code != 201:
            raise Unavailable("read_token_refused", f"GitHub answered {answer.status_code} to a read-only token.")
        document = answer.json()
        granted = {name: level for name, level in document.get("permissions", {}).items() if name != "metadata"}
        if granted != PERMISSIONS:
            raise Unavailable("read_token_too_wide", "GitHub granted other rights than reading contents.")
        return ReadToken(document["token"], document["expires_at"])

    def _ask(self, repository_id: int, installation_id: int, now: int) -> requests.Response:
        try:
            return requests.post(
                f"{self.api_url}/app/installations/{installation_id}/access_tokens",
                json={"repository_ids": [repository_id], "permissions": PERMISSIONS},
                headers={
                    "Authorization": f"Bearer {assertion(self.app_id, self.private_key_pem, now)}",
                    "Accept": "application/vnd.github+json",
                    "X-GitHub-Api-Version": "2022-11-28",
                },
                timeout=self.timeout_ms / 1000,
                allow_redirects=False,
            )
        except requests.RequestException as failed:
            raise Unavailable("forge_unreachable", "GitHub does not answer just now.") from failed


def assertion(app_id: str, private_key_pem: str, now: int) -> str:
    """The App's signed claim of being itself (a JWT under RS256), good for nine minutes around `now` (ms)."""
    key = _signing_key(private_key_pem)
    now_s = now // 1000
    claims = {"iat": now_s - CLOCK_SKEW_S, "exp": now_s + ASSERTION_LIFE_S, "iss": app_id}
    signed = f"{_segment({'alg': 'RS256', 'typ': 'JWT'})}.{_segment(claims)}"
    return f"{signed}.{_base64url(key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


@cache
def _signing_key(pem: str) -> RSAPrivateKey:
    """Read once for each process: checking a key takes longer than a whole request."""
    key = load_pem_private_key(pem.encode(), password=None)
    ensure(isinstance(key, RSAPrivateKey), "the key of a GitHub App is an RSA key")
    assert isinstance(key, RSAPrivateKey)
    return key


def _segment(document: Mapping[str, object]) -> str:
    return _base64url(json.dumps(document, separators=(",", ":")).encode())


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
