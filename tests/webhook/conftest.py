"""A store, and an application over it, for every test of the doors."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.webhook import serving
from tests.webhook.knocking import Knock
from webhook.app import create_app


@pytest.fixture
def clock() -> serving.Hands:
    return serving.Hands()


@pytest.fixture
def store(tmp_path: Path, clock: serving.Hands) -> Iterator[serving.Store]:
    made = serving.store(tmp_path, clock)
    yield made
    made.ledger.close()


@pytest.fixture
def app(store: serving.Store, tmp_path: Path) -> Flask:
    return create_app(serving.settings(tmp_path), store.ledger)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def knock(client: FlaskClient, store: serving.Store) -> Knock:
    return Knock(client, store)


@pytest.fixture(scope="session")
def real_payloads(repository_root: Path) -> dict[str, list[dict[str, Any]]]:
    """119 payloads that GitHub published, by event name; they are no part of this project."""
    folder = os.environ.get("MAC_GITHUB_DESCRIPTION") or repository_root.parent / "shared" / "github"
    file = Path(folder) / "webhook-examples.json"
    if not file.is_file():
        pytest.skip(f"LOUD: {file} is not there, so no real payload was read (set MAC_GITHUB_DESCRIPTION)")
    loaded: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return loaded
