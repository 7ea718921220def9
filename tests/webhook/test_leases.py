"""The executors' side of the API: a lease, its fence, and evidence that counts only under it."""

import base64
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from werkzeug.test import TestResponse

from ledger.access import Scope
from ledger.tasks import Task
from pipeline.canonical import digest_bytes
from pipeline.facts import Deliverable
from pipeline.states import State
from tests.webhook import serving
from tests.webhook.knocking import Knock, problem
from tests.webhook.serving import Store
from tests.workers.places import Place
from webhook.app import create_app


@dataclass
class Lease:
    """A leased attempt, and requests under its fence."""

    knock: Knock
    said: dict[str, Any]
    task: Task

    def __call__(self, verb: str, document: Any = None, *, fence: str | None = None, **more: Any) -> TestResponse:
        method = "GET" if verb == "read-token" else "POST"
        headers = {"Mac-Lease-Token": str(self.said["lease"]["token"]) if fence is None else fence}
        path = f"/v1/leases/{self.said['lease']['id']}/{verb}"
        return self.knock(method, path, document, scope=more.pop("scope", Scope.EXECUTOR), headers=headers, **more)


@pytest.fixture
def lease(knock: Knock) -> Lease:
    task = knock.store.task(knock.store.project())
    answer = knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR)
    assert answer.status_code == 201
    return Lease(knock, answer.get_json(), task)


@dataclass(frozen=True)
class Change:
    """A commit on top of another, and the bundle that carries it."""

    base: str
    head: str
    tree: str
    bundle: bytes

    def evidence(self, **changes: Any) -> dict[str, Any]:
        run = {
            "argv": ["sh", "test.sh"], "exit": 0, "started_at": 1, "ended_at": 2,
            "output_sha256": "0" * 64, "output_excerpt": "", "dirty": False,
        }  # fmt: skip
        return {
            "schema": "mac.evidence.v1",
            "kind": "repository_change",
            "head": self.head,
            "tree": self.tree,
            "verified_base": self.base,
            "bundle": digest_bytes(self.bundle),
            "files": [{"path": "answer.txt", "status": "A"}],
            "runs": [run],
            "summary": "The answer.",
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "executor": {"name": "a test", "version": "1"},
            **changes,
        }


@pytest.fixture
def change(tmp_path: Path) -> Change:
    place = Place.made(tmp_path / "remote.git")
    base = place.tip()
    assert base is not None
    head = place.commit({"answer.txt": "42\n"}, base)
    place.points("refs/heads/work", head)
    tree = subprocess.run(
        ["git", "rev-parse", f"{head}^{{tree}}"], cwd=place.path, capture_output=True, text=True, check=True
    )
    return Change(base, head, tree.stdout.strip(), place.bundle("refs/heads/work", f"^{base}"))


def test_a_lease_has_the_shape_that_executors_rely_on(lease: Lease) -> None:
    said = lease.said
    assert set(said) == {"task", "attempt", "lease", "repository", "contract", "directive"}
    assert set(said["lease"]) == {"id", "token", "expires_in_ms", "beat_in_ms"}
    assert set(said["repository"]) == {"clone_url", "canonical_branch", "tip", "branch"}
    assert (said["lease"]["expires_in_ms"], said["lease"]["beat_in_ms"]) == (900_000, 20_000)
    assert (said["task"]["id"], said["attempt"]["number"], said["directive"]) == (lease.task.id, 1, None)
    assert said["contract"] == serving.CONTRACT
    assert lease.knock.store.task_now(lease.task).state is State.CLAIMED


def test_one_task_is_leased_once(lease: Lease) -> None:
    assert lease.knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 204


def test_a_heartbeat_renews(lease: Lease, clock: serving.Hands) -> None:
    clock.at += 900_000
    assert lease("heartbeat", {}).get_json() == {"order": "continue", "expires_in_ms": 900_000, "messages": []}
    clock.at += 900_000 + 29_999
    assert lease("heartbeat", {}).status_code == 200


def test_a_lease_that_has_expired_writes_nothing(lease: Lease, change: Change, clock: serving.Hands) -> None:
    lease("bundle", data=change.bundle)
    clock.at += 900_000 + 30_000
    lease("heartbeat", {})  # which reclaims it
    before = lease.knock.store.counts()
    for verb, document in (("heartbeat", {}), ("evidence", change.evidence()), ("release", RELEASE)):
        assert problem(lease(verb, document)) == (409, "lease_stale")
    assert problem(lease("bundle", data=change.bundle)) == (409, "lease_stale")
    assert problem(lease("read-token")) == (409, "lease_stale")
    assert lease.knock.store.counts() == before
    assert lease.knock.store.task_now(lease.task).state is State.OPEN


RELEASE = {"class": "work", "sentence": "It did not work."}


@pytest.mark.parametrize(
    ("fence", "refusal"),
    [
        ("999", (409, "lease_stale")),
        ("", (400, "field_invalid")),
        ("x", (400, "field_invalid")),
        ("\u0663", (400, "field_invalid")),
    ],
)
@pytest.mark.parametrize("verb", ["heartbeat", "bundle", "evidence", "release", "read-token"])
def test_a_wrong_fence_changes_nothing(
    lease: Lease, change: Change, verb: str, fence: str, refusal: tuple[int, str]
) -> None:
    documents = {"heartbeat": {}, "evidence": change.evidence(), "release": RELEASE}
    before = lease.knock.store.counts()
    data = change.bundle if verb == "bundle" else None
    assert problem(lease(verb, documents.get(verb), fence=fence, data=data)) == refusal
    assert lease.knock.store.counts() == before


def test_the_lease_of_another_worker_is_not_ours(lease: Lease, change: Change) -> None:
    from ledger import access

    with lease.knock.store.ledger.write() as tx:
        other = access.issue(tx, scope=Scope.EXECUTOR, label="other", worker_name="w-2", actor="test")
    lease.knock.store.tokens[Scope.EXECUTOR] = other
    before = lease.knock.store.counts()
    assert problem(lease("heartbeat", {})) == (403, "lease_not_yours")
    assert problem(lease("bundle", data=change.bundle)) == (403, "lease_not_yours")
    assert problem(lease("read-token")) == (403, "lease_not_yours")
    assert lease.knock.store.counts() == before


def test_evidence_with_its_bundle_ends_the_lease_and_begins_the_review(lease: Lease, change: Change) -> None:
    stored = lease("bundle", data=change.bundle)
    assert (stored.status_code, stored.get_json()["sha256"]) == (201, digest_bytes(change.bundle))
    taken = lease("evidence", change.evidence())
    assert taken.status_code == 201
    assert lease.knock.store.task_now(lease.task).state is State.REVIEWING
    assert len(lease.knock.store.bell.rung) == 1
    outcome = lease.knock("GET", f"/v1/tasks/{lease.task.id}/outcome", scope=Scope.READ).get_json()
    assert outcome["evidence"]["facts"]["digest"] == taken.get_json()["digest"]
    assert outcome["review"] is None


def test_evidence_whose_answer_was_lost_is_answered_again(lease: Lease, change: Change) -> None:
    lease("bundle", data=change.bundle)
    path = f"/v1/leases/{lease.said['lease']['id']}/evidence"
    headers = {"Mac-Lease-Token": str(lease.said["lease"]["token"]), "Idempotency-Key": "e-1"}
    first = lease.knock("POST", path, change.evidence(), scope=Scope.EXECUTOR, headers=headers)
    before = lease.knock.store.counts()
    again = lease.knock("POST", path, change.evidence(), scope=Scope.EXECUTOR, headers=headers)
    assert (again.status_code, again.get_json()) == (201, first.get_json())
    assert lease.knock.store.counts() == before


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"bundle": "0" * 64}, "bundle_missing"),
        ({"head": "f" * 40}, "head_not_in_bundle"),
        ({"head": "f" * 39}, "evidence_invalid"),
        ({"head": None}, "evidence_invalid"),
        ({"bundle": None}, "evidence_invalid"),
        ({"ref": "refs/heads/x"}, "evidence_invalid"),
        ({"kind": "prose"}, "evidence_invalid"),
        ({"schema": "mac.evidence.v2"}, "evidence_invalid"),
        ({"usage": {"input_tokens": -1, "output_tokens": 0}}, "evidence_invalid"),
        ({"usage": {"input_tokens": 1.0, "output_tokens": 0}}, "evidence_invalid"),
        ({"files": [{"path": "", "status": "A"}]}, "evidence_invalid"),
        ({"surprise": True}, "evidence_invalid"),
    ],
)
def test_evidence_that_does_not_hold_is_refused_by_name(
    lease: Lease, change: Change, changes: dict[str, Any], code: str
) -> None:
    lease("bundle", data=change.bundle)
    before = lease.knock.store.counts()
    assert problem(lease("evidence", change.evidence(**changes)))[1] == code
    assert lease.knock.store.counts() == before
    assert lease.knock.store.task_now(lease.task).state is State.CLAIMED


def test_prose_cannot_close_a_task_that_asks_for_code(lease: Lease, change: Change) -> None:
    none = dict.fromkeys(("head", "tree", "verified_base", "bundle"))
    prose = change.evidence(kind="operator_result", files=[], runs=[], summary="It is done, believe me.", **none)
    before = lease.knock.store.counts()
    assert problem(lease("evidence", prose)) == (422, "deliverable_mismatch")
    assert lease.knock.store.counts() == before


def test_a_report_is_taken_without_commits(knock: Knock) -> None:
    task = knock.store.task(knock.store.project(), Deliverable.REPORT)
    lease = Lease(knock, knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).get_json(), task)
    document = {
        "schema": "mac.evidence.v1",
        "kind": "operator_result",
        "summary": "We looked, and this is what we found.",
        "executor": {"name": "a test", "version": "1"},
    }
    assert lease("evidence", document).status_code == 201


@pytest.mark.parametrize("content", [b"", b"not a bundle", b"PACK"])
def test_what_is_no_bundle_is_refused(lease: Lease, content: bytes) -> None:
    before = lease.knock.store.counts()
    assert problem(lease("bundle", data=content)) == (422, "bundle_invalid")
    assert lease.knock.store.counts() == before


def test_a_bundle_over_the_limit_is_refused(tmp_path: Path, change: Change) -> None:
    from ledger.bounds import Bounds

    limit = len(change.bundle) - 1
    store = serving.store(tmp_path, bounds=Bounds(bundle_bytes_max=limit))
    app = create_app(serving.settings(tmp_path, bundle_bytes_max=limit), store.ledger)
    knock = Knock(app.test_client(), store)
    task = store.task(store.project())
    lease = Lease(knock, knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).get_json(), task)
    before = store.counts()
    answer = lease("bundle", data=change.bundle)
    assert problem(answer) == (413, "bundle_too_large")
    assert answer.get_json(force=True)["facts"] == {"limit": limit}
    assert store.counts() == before
    store.ledger.close()


@pytest.mark.parametrize(("given", "stored"), [("work", "work"), ("environment", "environment"), ("withdrawn", None)])
def test_a_release_keeps_the_class_that_its_producer_gave(lease: Lease, given: str, stored: str | None) -> None:
    from sqlalchemy import text

    assert lease("release", {"class": given, "sentence": "So it was."}).status_code == 200
    with lease.knock.store.ledger.read() as tx:
        row = tx.connection.execute(text("SELECT failure_class, sentence FROM attempts")).one()
    assert tuple(row) == (stored, "So it was.")
    assert lease.knock.store.task_now(lease.task).state is State.OPEN


# --- the token to read with


@pytest.fixture
def forge() -> Iterator[serving.Forge]:
    with serving.forge() as made:
        yield made


@pytest.fixture
def reader(store: Store, tmp_path: Path, forge: serving.Forge) -> Lease:
    app = create_app(serving.settings(tmp_path, github_api_url=forge.url), store.ledger)
    knock = Knock(app.test_client(), store)
    task = store.task(store.project())
    return Lease(knock, knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).get_json(), task)


def verified(assertion: str) -> dict[str, Any]:
    """The claims of a JWT that the App's key signed under RS256."""
    signed, _, signature = assertion.rpartition(".")
    public = load_pem_private_key(serving.private_key().encode(), None).public_key()
    assert isinstance(public, RSAPublicKey)
    public.verify(unpadded(signature), signed.encode(), PKCS1v15(), SHA256())
    head, claims = (json.loads(unpadded(part)) for part in signed.split("."))
    assert head == {"alg": "RS256", "typ": "JWT"}
    assert isinstance(claims, dict)
    return claims


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_read_token_is_for_one_repository_and_for_reading(
    reader: Lease, forge: serving.Forge, clock: serving.Hands
) -> None:
    answer = reader("read-token")
    assert answer.get_json() == {"token": forge.token, "expires_at": "2031-01-01T00:00:00Z"}
    assert answer.headers["Cache-Control"] == "no-store"
    (asked,) = forge.asked
    assert asked["path"] == "/app/installations/99/access_tokens"
    assert (asked["repository_ids"], asked["permissions"]) == ([4711], {"contents": "read"})
    claims = verified(asked["authorization"].removeprefix("Bearer "))
    now_s = clock.at // 1000
    assert (claims["iss"], claims["iat"]) == ("12", now_s - 60)
    assert claims["exp"] - now_s <= 600


def test_a_token_that_could_do_more_is_not_handed_on(reader: Lease, forge: serving.Forge) -> None:
    forge.permissions = {"contents": "write", "metadata": "read"}
    answer = reader("read-token")
    assert problem(answer) == (503, "read_token_too_wide")
    assert forge.token.encode() not in answer.data


@pytest.mark.parametrize("status", [401, 404, 422, 500])
def test_a_forge_that_refuses_is_said_to_be_unavailable(reader: Lease, forge: serving.Forge, status: int) -> None:
    forge.status = status
    before = reader.knock.store.counts()
    assert problem(reader("read-token")) == (503, "read_token_refused")
    assert reader.knock.store.counts() == before


def test_a_forge_that_is_away_is_said_to_be_unavailable(lease: Lease) -> None:
    assert problem(lease("read-token")) == (503, "forge_unreachable")
