"""A store, and an application over it, for every test of the doors."""

from collections.abc import Iterator
from pathlib import Path

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
