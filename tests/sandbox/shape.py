"""Small pieces that every serialiser shares: instants, node ids, people and Apps."""

import base64
from datetime import UTC, datetime

from tests.sandbox.world import App, Installation, Json, Owner, Token


def instant(at_ms: int) -> str:
    """An instant as GitHub writes it: whole seconds, UTC, `Z`."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def maybe_instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else instant(at_ms)


def moment(at_ms: int) -> str:
    """An instant with milliseconds, as the delivery log has it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """The reverse of `instant`, for what a caller wrote; raises ValueError on anything that is no instant."""
    read = datetime.fromisoformat(text)
    return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def node_id(kind: str, number: int | str) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


def user(base: str, owner: Owner) -> Json:
    """The short form of an account (`simple-user`)."""
    url = f"{base}/users/{owner.login}"
    pages = ("followers", "organizations", "repos", "received_events", "subscriptions")
    return {
        "login": owner.login,
        "id": owner.id,
        "node_id": node_id(owner.kind, owner.id),
        "avatar_url": f"{base}/avatars/u/{owner.id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{base}/{owner.login}",
        **{f"{page}_url": f"{url}/{page}" for page in pages},
        "events_url": f"{url}/events{{/privacy}}",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "type": owner.kind,
        "site_admin": False,
    }


def app(base: str, known: App) -> Json:
    """An App as it stands in check runs and suites (`integration`)."""
    return {
        "id": known.id,
        "client_id": known.client_id,
        "slug": known.slug,
        "node_id": node_id("App", known.id),
        "owner": user(base, known.owner),
        "name": known.slug,
        "description": "",
        "external_url": f"{base}/external/{known.slug}",
        "html_url": f"{base}/apps/{known.slug}",
        "created_at": instant(known.created_ms),
        "updated_at": instant(known.created_ms),
        "permissions": {"metadata": "read", **known.permissions},
        "events": known.events,
    }


def installation(base: str, known: Installation) -> Json:
    url = f"{base}/app/installations/{known.id}"
    return {
        "id": known.id,
        "account": user(base, known.owner),
        "repository_selection": "all" if known.repository_ids is None else "selected",
        "access_tokens_url": f"{url}/access_tokens",
        "repositories_url": f"{base}/installation/repositories",
        "html_url": f"{base}/organizations/{known.owner.login}/settings/installations/{known.id}",
        "app_id": known.app.id,
        "app_slug": known.app.slug,
        "client_id": known.app.client_id,
        "target_id": known.owner.id,
        "target_type": known.owner.kind,
        "permissions": {"metadata": "read", **known.app.permissions},
        "events": known.app.events,
        "created_at": instant(known.created_ms),
        "updated_at": instant(known.created_ms),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_at": maybe_instant(known.suspended_ms),
        "suspended_by": None,
    }


def token(known: Token, repositories: list[Json] | None) -> Json:
    """A minted token; the repositories stand in it only where it was narrowed to some."""
    chosen = {"repositories": repositories} if repositories is not None else {}
    selected = repositories is not None or known.installation.repository_ids is not None
    return {
        "token": known.value,
        "expires_at": instant(known.expires_ms),
        "permissions": known.permissions,
        "repository_selection": "selected" if selected else "all",
        **chosen,
    }
