"""What every door needs at hand: the settings, the ledger, the App's identity, and what this process is."""

from dataclasses import dataclass

from flask import current_app

from ledger.bounds import Bounds
from ledger.session import Ledger
from ledger.settings import Settings
from webhook.read_token import Minter

EXTENSION = "mac-hub"


@dataclass(frozen=True, slots=True)
class Hub:
    """One process's view of the hub, made once by `create_app`. `revision` and `schema` are of the code that runs."""

    settings: Settings
    ledger: Ledger
    bounds: Bounds
    minter: Minter
    revision: str
    schema: int


def current() -> Hub:
    """The hub of the application that serves this request."""
    hub = current_app.extensions[EXTENSION]
    assert isinstance(hub, Hub)
    return hub
