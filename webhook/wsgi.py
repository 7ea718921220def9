"""The doors as a WSGI server loads them: `gunicorn "webhook.wsgi:application()"`."""

from flask import Flask

from ledger import log
from ledger.bell import Bell, RedisBell, SilentBell
from ledger.session import Ledger
from ledger.settings import load
from webhook.app import create_app


def application() -> Flask:
    """The application for this process's settings. Raises `SettingsRefused` or `SchemaRefused` by name: a door that is
    not safe, or whose ledger is not the one it knows, does not open."""
    log.configure("mac-web")
    settings = load("web")
    bell: Bell = SilentBell()
    if settings.redis_url is not None:
        bell = RedisBell(settings.redis_url, timeout_ms=settings.ring_timeout_ms, hold_ms=settings.ring_hold_ms)
    return create_app(settings, Ledger.open(settings.ledger_url, bounds=settings.bounds, bell=bell))
