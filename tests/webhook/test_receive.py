"""GitHub's door: what is let in, what is refused by name, and what a delivery leaves behind."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.test import TestResponse

from ledger.settings import SettingsRefused
from pipeline.errors import InvariantBroken
from tests.webhook import serving
from tests.webhook.knocking import Knock, problem, signed
from tests.webhook.serving import Store, settings
from webhook.app import create_app
from webhook.receive import ROUTE, Receiver

GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


def push(branch: str = "main", repository: int = 4711, head: str = "a" * 40) -> bytes:
    # spacing and an escape that no encoder of ours would write: the signature covers bytes, not a document
    return (
        f'{{"ref":  "refs/heads/{branch}", "after":"{head}", "by":"Zo\\u00eb",\n "repository": {{"id":{repository}}}}}'
    ).encode()


def deliver(knock: Knock, body: bytes, **changes: str | None) -> TestResponse:
    headers: dict[str, str | None] = {
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": GUID,
        "X-Hub-Signature-256": signed(body),
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    sent = {name: value for name, value in headers.items() if value is not None}
    return knock("POST", ROUTE, headers=sent, data=body)


def rows(store: Store, table: str) -> list[Mapping[str, Any]]:
    with store.ledger.read() as tx:
        return [dict(row) for row in tx.connection.execute(text(f"SELECT * FROM {table}")).mappings()]


def test_a_push_to_the_canonical_branch_is_kept_and_rings_its_bell(knock: Knock, store: Store) -> None:
    project = store.project()
    answer = deliver(knock, push())
    assert (answer.status_code, answer.get_json()) == (202, {"delivery": GUID, "duplicate": False, "ignored": False})
    (row,) = rows(store, "deliveries")
    hint = json.loads(row["hint"])
    assert (hint["repository_id"], hint["branch"], hint["head"]) == (4711, "main", "a" * 40)
    assert store.bell.rung == [project.branch_id]


def test_the_same_delivery_again_is_a_duplicate_and_rings_nothing(knock: Knock, store: Store) -> None:
    store.project()
    deliver(knock, push())
    store.bell.rung.clear()
    before = store.counts()
    assert deliver(knock, push()).get_json() == {"delivery": GUID, "duplicate": True, "ignored": False}
    assert store.bell.rung == []
    assert store.counts() == before


def test_of_three_at_once_one_is_new(app: Flask, store: Store) -> None:
    project = store.project()
    together, answers = threading.Barrier(3), []

    def send() -> None:
        knock = Knock(app.test_client(), store)
        together.wait()
        answers.append(deliver(knock, push()).get_json())

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["duplicate"] for answer in answers) == [False, True, True]
    assert store.bell.rung == [project.branch_id]


def test_a_bell_that_is_broken_does_not_lose_the_delivery(knock: Knock, store: Store) -> None:
    store.project()

    def broken(branch_id: str) -> None:
        raise ConnectionError(branch_id)

    store.bell.ring = broken  # type: ignore[method-assign]  # the world fails, the house must not
    assert deliver(knock, push()).status_code == 202
    assert deliver(knock, push()).get_json()["duplicate"] is True


def test_a_delivery_signed_with_the_previous_secret_is_taken(store: Store, tmp_path: Path) -> None:
    rotating = settings(tmp_path, webhook_secret_previous="the one before")
    knock = Knock(create_app(rotating, store.ledger).test_client(), store)
    old = signed(push(), b"the one before")
    assert deliver(knock, push(), X_Hub_Signature_256=old).status_code == 202


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        (None, "signature_missing"),
        ("", "signature_missing"),
        ("sha256=" + "0" * 64, "signature_wrong"),
        (signed(push(), b"another secret"), "signature_wrong"),
        (signed(push()).removeprefix("sha256="), "signature_wrong"),
        (signed(push()).upper(), "signature_wrong"),
        ("sha256=\u00fc", "signature_wrong"),
    ],
)
def test_an_unsigned_or_wrongly_signed_delivery_changes_nothing(
    knock: Knock, store: Store, signature: str | None, code: str
) -> None:
    store.project()
    before = store.counts()
    assert problem(deliver(knock, push(), X_Hub_Signature_256=signature)) == (401, code)
    assert store.counts() == before
    assert store.bell.rung == []


def test_the_old_sha1_header_alone_lets_nobody_in(knock: Knock) -> None:
    answer = deliver(knock, push(), X_Hub_Signature_256=None, X_Hub_Signature="sha1=" + "0" * 40)
    assert problem(answer) == (401, "signature_missing")


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"text"', b"{", b"", b"\xff", b"{" * 100_000])
def test_a_body_that_is_no_object_is_refused(knock: Knock, store: Store, body: bytes) -> None:
    before = store.counts()
    assert problem(deliver(knock, body)) == (400, "body_not_json")
    assert store.counts() == before


@pytest.mark.parametrize("header", ["X_GitHub_Event", "X_GitHub_Delivery"])
@pytest.mark.parametrize("value", [None, "", "x" * 65])
def test_a_delivery_without_event_or_id_is_refused(knock: Knock, header: str, value: str | None) -> None:
    assert problem(deliver(knock, push(), **{header: value})) == (400, "delivery_headers_missing")


def test_an_event_without_its_identity_is_refused_by_field(knock: Knock, store: Store) -> None:
    before = store.counts()
    answer = deliver(knock, b'{"ref": "refs/heads/main", "after": "a"}')
    assert problem(answer) == (400, "field_invalid")
    assert answer.get_json(force=True)["facts"]["field"] == "repository.id"
    assert store.counts() == before


def test_a_body_over_the_limit_is_refused_before_it_is_read(store: Store, tmp_path: Path) -> None:
    small = settings(tmp_path, webhook_body_bytes_max=len(push()))
    knock = Knock(create_app(small, store.ledger).test_client(), store)
    assert deliver(knock, push()).status_code == 202
    larger = push() + b" "
    answer = deliver(knock, larger)
    assert problem(answer) == (413, "body_too_large")
    assert answer.get_json(force=True)["facts"] == {"limit": len(push())}


def test_a_body_without_a_length_is_bounded_all_the_same(store: Store, tmp_path: Path) -> None:
    from io import BytesIO

    small = settings(tmp_path, webhook_body_bytes_max=100)
    client = create_app(small, store.ledger).test_client()
    answer = client.post(
        ROUTE,
        input_stream=BytesIO(b" " * 1_000),
        headers={"Transfer-Encoding": "chunked", "X-Hub-Signature-256": "sha256=x"},
        environ_overrides={"wsgi.input_terminated": True},
    )
    assert problem(answer) == (413, "body_too_large")


def test_an_unknown_event_is_taken_and_ignored(knock: Knock, store: Store) -> None:
    answer = deliver(knock, b'{"anything": true}', X_GitHub_Event="sponsorship")
    assert answer.get_json() == {"delivery": GUID, "duplicate": False, "ignored": True}
    assert store.bell.rung == []


def test_a_repository_that_nobody_registered_leaves_a_trace(knock: Knock, store: Store) -> None:
    store.project()
    answer = deliver(knock, push(repository=1))
    assert (answer.status_code, answer.get_json()["ignored"]) == (202, False)
    assert [row["event"] for row in rows(store, "history")][-1] == "delivery_unregistered"
    assert store.bell.rung == []


def test_a_form_encoded_delivery_is_taken_by_the_signature_over_its_raw_body(knock: Knock, store: Store) -> None:
    project = store.project()
    body = urlencode({"payload": push().decode()}).encode()
    answer = deliver(knock, body, Content_Type="application/x-www-form-urlencoded; charset=utf-8")
    assert answer.status_code == 202
    assert store.bell.rung == [project.branch_id]


def test_a_form_without_a_payload_is_refused(knock: Knock) -> None:
    answer = deliver(knock, b"other=1", Content_Type="application/x-www-form-urlencoded")
    assert problem(answer) == (400, "body_not_json")


def test_a_pushed_tag_rings_nothing(knock: Knock, store: Store) -> None:
    store.project()
    body = push().replace(b"refs/heads/main", b"refs/tags/v1")
    assert deliver(knock, body).status_code == 202
    assert store.bell.rung == []


@pytest.mark.parametrize("secret", [None, ""])
def test_without_a_secret_the_application_is_not_built(store: Store, tmp_path: Path, secret: str | None) -> None:
    with pytest.raises(SettingsRefused) as refused:
        create_app(settings(tmp_path, webhook_secret=secret), store.ledger)
    assert refused.value.code == "setting_missing"


@pytest.mark.parametrize("secrets", [(), (b"",), (b"good", b"")])
def test_without_a_secret_the_door_itself_is_not_built(store: Store, secrets: tuple[bytes, ...]) -> None:
    with pytest.raises(InvariantBroken):
        Receiver(store.ledger, secrets, 100)


def test_nobody_can_subscribe_to_run_inside_the_request(store: Store) -> None:
    with pytest.raises(InvariantBroken):
        Receiver(store.ledger, (b"s",), 100).hook("push")


def test_the_secret_is_nowhere_in_the_answers(knock: Knock) -> None:
    answer = deliver(knock, push(), X_Hub_Signature_256="sha256=0")
    assert serving.WEBHOOK_SECRET not in answer.data
    assert signed(push()).encode() not in answer.data


def test_every_real_payload_is_taken(
    knock: Knock, store: Store, real_payloads: dict[str, list[dict[str, Any]]]
) -> None:
    sent = 0
    for name, payloads in real_payloads.items():
        for payload in payloads:
            sent += 1
            body = json.dumps(payload, ensure_ascii=False).encode()
            answer = deliver(knock, body, X_GitHub_Event=name, X_GitHub_Delivery=f"guid-{sent}")
            assert answer.status_code == 202, (name, payload.get("action"), answer.data)
    assert store.counts()["deliveries"] == sent == 119
