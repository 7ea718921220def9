"""The web application: every door of the hub, each closed until it says whom it is for."""

from flask import Flask, Response, request

from ledger import migrate
from ledger.revision import running_revision
from ledger.session import Ledger
from ledger.settings import Settings
from pipeline.errors import ensure
from webhook import (
    api_claims,
    api_leases,
    api_orders,
    api_projects,
    api_proofs,
    api_tasks,
    api_tokens,
    auth,
    health,
    hub,
    openapi,
    problems,
)
from webhook.read_token import Minter
from webhook.receive import Receiver

BLUEPRINTS = (
    health.blueprint,
    api_projects.blueprint,
    api_tasks.blueprint,
    api_orders.blueprint,
    api_leases.blueprint,
    api_claims.blueprint,
    api_tokens.blueprint,
    api_proofs.blueprint,
    openapi.blueprint,
)


def create_app(settings: Settings, ledger: Ledger) -> Flask:
    """The application over an open ledger.

    Raises `SettingsRefused` when a secret that it cannot be safe without is missing, and `InvariantBroken` when a route
    declares no scope.
    """
    settings.require("web")
    app = Flask("webhook", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=settings.request_body_bytes_max,
        SESSION_COOKIE_SECURE=settings.public_url.startswith("https:"),
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
    )
    app.extensions[hub.EXTENSION] = _hub(settings, ledger)
    problems.install(app)
    Receiver(ledger, settings.webhook_secrets, settings.webhook_body_bytes_max).install(app)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    auth.close_doors(app)
    api_claims.install(app)
    app.after_request(_careful_headers)
    return app


def _hub(settings: Settings, ledger: Ledger) -> hub.Hub:
    key, app_id = settings.github_private_key, settings.github_app_id
    ensure(key is not None and app_id is not None, "the settings of the web program name the App")
    assert key is not None
    return hub.Hub(
        settings=settings,
        ledger=ledger,
        bounds=settings.bounds,
        minter=Minter(settings.github_api_url, str(app_id), key.get_secret_value(), timeout_ms=settings.github_timeout_ms),
        revision=running_revision(),
        schema=migrate.migrations("sqlite")[-1].number,  # both kinds of database have the same numbers
    )


def _careful_headers(answer: Response) -> Response:
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.headers.setdefault("Referrer-Policy", "no-referrer")
    if request.path.startswith("/v1/"):
        answer.headers.setdefault("Cache-Control", "no-store")
    return answer
