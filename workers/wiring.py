"""Wiring: the one place of this room where settings become connections, keys and clocks."""

import os
import random
from dataclasses import replace
from functools import cache
from typing import Final

from ledger.bell import Bell, RedisBell, SilentBell
from ledger.revision import running_revision
from ledger.session import Ledger
from ledger.settings import Settings, SettingsRefused, load
from pipeline.signing import SigningKey
from workers.clone import Mirrors
from workers.forge import AppKey, signing_key
from workers.git import Git
from workers.place import Place, this_process

MIRRORS_BYTES_MAX: Final = 20 * 1024**3


@cache
def settings_of_process() -> Settings:
    """The settings of this process, read once."""
    return load("worker")


def place() -> Place:
    """The place of this process. A forked child works with what its parent wired (the engine gives up its connections
    at a fork), under its own name as a holder."""
    return replace(_wired(), holder=this_process())


@cache
def _wired() -> Place:
    settings = settings_of_process()
    bounds, home = settings.bounds, settings.home_folder
    bell: Bell = SilentBell()
    if settings.redis_url is not None:
        bell = RedisBell(settings.redis_url, timeout_ms=bounds.ring_timeout_ms, hold_ms=bounds.ring_hold_ms)
    git = Git.prepared(
        home / "git", os.environ, timeout_ms=bounds.git_timeout_ms, effect_timeout_ms=bounds.effect_timeout_ms
    )
    ledger = Ledger.open(settings.ledger_url, bounds=bounds, bell=bell)
    return Place(
        ledger=ledger,
        mirrors=Mirrors(home / "mirrors", git, max_bytes=MIRRORS_BYTES_MAX),
        github=_app_key(settings),
        github_url=settings.github_url,
        key=_proof_key(settings),
        holder=this_process(),
        revision=running_revision(),
        bounds=bounds,
        now=ledger.now,
        jitter=random.random,
    )


def _proof_key(settings: Settings) -> SigningKey:
    assert settings.proof_key is not None
    try:
        return SigningKey.from_text(settings.proof_key.get_secret_value())
    except ValueError as error:
        raise SettingsRefused("setting_invalid", f"MAC_PROOF_KEY: {error}") from error


def _app_key(settings: Settings) -> AppKey:
    assert settings.github_app_id is not None
    assert settings.github_private_key is not None
    if not settings.github_app_id.isdecimal():
        raise SettingsRefused("setting_invalid", "MAC_GITHUB_APP_ID must be a number")
    try:
        signing_key(settings.github_private_key.get_secret_value())
    except ValueError as error:
        raise SettingsRefused("setting_invalid", f"MAC_GITHUB_PRIVATE_KEY: {error}") from error
    return AppKey(
        api_url=settings.github_api_url,
        app_id=int(settings.github_app_id),
        private_key=settings.github_private_key.get_secret_value(),
        timeout_ms=settings.github_timeout_ms,
    )
