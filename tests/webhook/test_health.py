"""What the process says of itself, and how it fails without saying too much."""

from pathlib import Path

import pytest
from sqlalchemy import text

from ledger.access import Scope
from ledger.revision import running_revision
from tests.webhook.knocking import Knock, problem
from tests.webhook.serving import Store

SHA = "5a" * 20


def broken(store: Store) -> None:
    with store.ledger.write() as tx:
        tx.connection.execute(text("ALTER TABLE tasks RENAME TO lost"))


def test_a_process_whose_schema_has_drifted_is_alive_and_not_ready(knock: Knock, store: Store) -> None:
    broken(store)
    assert knock("GET", "/healthz").status_code == 200
    answer = knock("GET", "/readyz")
    assert (answer.status_code, answer.get_json()["problem"]) == (503, "schema_drifted")


def test_an_unforeseen_failure_tells_the_caller_nothing_of_the_inside(knock: Knock, store: Store) -> None:
    broken(store)
    answer = knock("GET", "/v1/tasks", scope=Scope.READ)
    assert problem(answer) == (500, "unforeseen")
    for inside in (b"SELECT", b"sqlite", b"tasks", b"Traceback"):
        assert inside not in answer.data


def test_an_answer_of_the_api_is_not_kept_by_anybody(knock: Knock) -> None:
    answer = knock("GET", "/v1/tasks", scope=Scope.READ)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "refs" / "heads" / "main").write_text(f"{SHA}\n")
    return tmp_path


def test_the_revision_is_the_commit_of_the_checkout(checkout: Path) -> None:
    assert running_revision(checkout) == SHA


def test_the_revision_is_found_among_packed_refs(checkout: Path) -> None:
    (checkout / ".git" / "refs" / "heads" / "main").unlink()
    (checkout / ".git" / "packed-refs").write_text(f"# pack-refs\n{'0' * 40} refs/heads/other\n{SHA} refs/heads/main\n")
    assert running_revision(checkout) == SHA


def test_the_revision_of_a_detached_head_is_that_commit(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").write_text(f"{SHA}\n")
    assert running_revision(checkout) == SHA


def test_the_revision_of_a_linked_worktree_is_its_own(checkout: Path) -> None:
    linked = checkout / ".git" / "worktrees" / "w"
    linked.mkdir(parents=True)
    (linked / "HEAD").write_text("ref: refs/heads/main\n")
    (linked / "commondir").write_text("../..\n")
    worktree = checkout / "elsewhere"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {linked}\n")
    assert running_revision(worktree) == SHA


def test_a_built_image_names_its_revision(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_REVISION", "v1.2.3-4-gabcdef")
    assert running_revision(checkout) == "v1.2.3-4-gabcdef"


def test_without_a_checkout_the_revision_is_never_empty(tmp_path: Path) -> None:
    assert running_revision(tmp_path)
