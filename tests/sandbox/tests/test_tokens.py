"""Apps and installation tokens: who is believed, and what a token may see."""

from typing import Any

import jwt
import pytest

from tests.sandbox.sandbox import AppHandle, Sandbox
from tests.sandbox.tests.client import ask


@pytest.fixture
def hub(github: Sandbox) -> AppHandle:
    github.repository("acme/hub", files={"a": "a\n"})
    github.repository("acme/plain", files={"a": "a\n"})
    return github.app("mac-hub")


def mint(github: Sandbox, hub: AppHandle, body: Any = None) -> Any:
    return ask(github, hub.jwt(), "POST", f"/app/installations/{hub.installation_id}/access_tokens", body)


def test_an_app_knows_itself_and_where_it_is_installed(github: Sandbox, hub: AppHandle) -> None:
    assert ask(github, hub.jwt(), "GET", "/app").json()["slug"] == "mac-hub"
    assert [i["id"] for i in ask(github, hub.jwt(), "GET", "/app/installations").json()] == [hub.installation_id]
    assert ask(github, hub.jwt(), "GET", "/repos/acme/hub/installation").json()["app_id"] == hub.id
    assert ask(github, hub.jwt(), "GET", f"/app/installations/{hub.installation_id}").status_code == 200


@pytest.mark.parametrize(("changed", "words"), [
    ({"exp": 3600}, "too far in the future"),
    ({"exp": -10}, "'Expiration time' claim"),
    ({"iat": 120}, "'Issued at' claim"),
])  # fmt: skip
def test_claims_that_github_refuses_are_refused(
    github: Sandbox, hub: AppHandle, changed: dict[str, int], words: str
) -> None:
    now_s = github.world.clock() // 1000
    claims = {"iat": now_s - 30, "exp": now_s + 300, "iss": str(hub.id)}
    claims |= {name: now_s + offset for name, offset in changed.items()}
    refused = ask(github, jwt.encode(claims, hub.private_key, algorithm="RS256"), "GET", "/app")
    assert refused.status_code == 401
    assert words in refused.json()["message"]


def test_a_jwt_by_another_key_is_refused(github: Sandbox, hub: AppHandle) -> None:
    other = github.app("other")
    forged = jwt.encode({**jwt.decode(hub.jwt(), options={"verify_signature": False})}, other.private_key, "RS256")
    assert ask(github, forged, "GET", "/app").status_code == 401


def test_a_token_lives_an_hour_and_says_so_in_whole_seconds(github: Sandbox, hub: AppHandle) -> None:
    minted = mint(github, hub)
    assert minted.status_code == 201
    assert len(minted.json()["expires_at"]) == len("2026-01-01T00:00:00Z")
    assert len(minted.json()["token"]) > 40
    assert minted.json()["permissions"]["contents"] == "write"
    assert github.token_mints() == 1


def test_a_token_is_narrowed_and_never_widened(github: Sandbox, hub: AppHandle) -> None:
    narrow = mint(github, hub, {"repositories": ["hub"], "permissions": {"contents": "read"}}).json()
    assert [r["full_name"] for r in narrow["repositories"]] == ["acme/hub"]
    assert narrow["permissions"] == {"metadata": "read", "contents": "read"}
    seen = ask(github, narrow["token"], "GET", "/installation/repositories").json()
    assert (seen["total_count"], seen["repository_selection"]) == (1, "selected")
    assert ask(github, narrow["token"], "GET", "/repos/acme/plain").status_code == 404
    assert mint(github, hub, {"permissions": {"workflows": "write"}}).status_code == 422
    assert mint(github, hub, {"permissions": {"administration": "write"}}).status_code == 422
    assert mint(github, hub, {"repositories": ["elsewhere"]}).status_code == 422


def test_an_expired_token_is_refused(tmp_path: Any) -> None:
    now_ms = [1_790_000_000_000]
    with Sandbox.start(tmp_path / "github", clock=lambda: now_ms[0]) as github:
        github.repository("acme/hub", files={"a": "a\n"})
        token = github.app("mac-hub").token()
        assert ask(github, token, "GET", "/repos/acme/hub").status_code == 200
        now_ms[0] += 3_600_000
        assert ask(github, token, "GET", "/repos/acme/hub").status_code == 401


def test_a_missing_permission_is_403_and_an_unseen_repository_404(github: Sandbox, hub: AppHandle) -> None:
    token = hub.token(permissions={"contents": "read"})
    refused = ask(github, token, "GET", "/repos/acme/hub/pulls")
    assert (refused.status_code, refused.json()["message"]) == (403, "Resource not accessible by integration")
    assert refused.headers["X-Accepted-GitHub-Permissions"] == "pull_requests=read"
    stranger = github.app("stranger", owner="elsewhere")
    assert ask(github, stranger.token(), "GET", "/repos/acme/hub").status_code == 404
    assert ask(github, hub.jwt(), "GET", "/repos/acme/nowhere/installation").status_code == 404


def test_broken_bodies_are_refused_by_name(github: Sandbox, hub: AppHandle) -> None:
    import requests

    url = f"{github.url}/repos/acme/hub/git/refs"
    headers = {"Authorization": f"Bearer {hub.token()}"}
    assert requests.post(url, "{", headers=headers, timeout=9).json()["message"] == "Problems parsing JSON"
    assert requests.post(url, "[]", headers=headers, timeout=9).json()["message"] == "Body should be a JSON object"
    github.referee.expect_breach('is not of type "object"')


def test_service_reads_need_no_credential(github: Sandbox) -> None:
    import requests

    assert requests.get(f"{github.url}/rate_limit", timeout=9).json()["rate"]["limit"] == 5000
    assert requests.get(f"{github.url}/meta", timeout=9).status_code == 200
    assert requests.get(f"{github.url}/nothing/here", timeout=9).status_code == 404
    github.referee.expect_breach("GET /nothing/here: nothing is served here")
