"""`mac-executor` as a process, against a served hub and a git server: what it hands in, and how it fails."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from ledger.access import Scope
from pipeline.facts import Deliverable
from pipeline.states import State
from tests.workers.executor_world import World, world

WORK = ("sh", "-c", "echo 42 > answer.txt")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def one(here: World, table: str) -> dict[str, Any]:
    with here.store.ledger.read() as tx:
        return dict(tx.connection.execute(text(f"SELECT * FROM {table}")).mappings().one())


def count(here: World, table: str) -> int:
    return here.store.counts()[table]


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Look until it holds; a test that waits longer has failed."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_leased_task_comes_back_as_evidence_with_its_commits(here: World) -> None:
    task = here.store.task(here.project)
    ended = here.execute(WORK)
    assert (ended.exit, ended.out) == (0, "")
    assert here.store.task_now(task).state is State.REVIEWING
    document = json.loads(one(here, "evidence")["document"])
    assert document["verified_base"] == here.place.tip()
    assert document["files"] == [{"path": "answer.txt", "status": "A"}]
    (ran,) = document["runs"]
    assert (ran["argv"], ran["exit"], ran["dirty"]) == (["sh", "test.sh"], 0, False)
    assert ran["started_at"] <= ran["ended_at"]


def test_the_bundle_holds_exactly_the_head_that_was_tested(here: World, tmp_path: Path) -> None:
    here.store.task(here.project)
    here.execute(WORK)
    document = json.loads(one(here, "evidence")["document"])
    bundle = tmp_path / "handed-in.bundle"
    bundle.write_bytes(one(here, "bundles")["content"])
    here.place.git(
        "fetch", "--quiet", str(bundle), f"+refs/heads/{one(here, 'tasks')['head_branch']}:refs/test/handed-in"
    )
    assert here.place.refs()["refs/test/handed-in"] == document["head"]
    assert here.place.git("rev-parse", f"{document['head']}^{{tree}}") == document["tree"]
    assert here.place.git("show", f"{document['head']}:answer.txt") == "42"


def test_the_executor_reads_with_a_token_that_cannot_write(here: World) -> None:
    here.store.task(here.project)
    here.execute(WORK)
    (asked,) = here.forge.asked
    assert asked["permissions"] == {"contents": "read"}
    assert asked["repository_ids"] == [4711]


def test_the_command_sees_its_task_and_no_token(here: World, tmp_path: Path) -> None:
    here.store.task(here.project, title="Find the answer")
    copy, environment = tmp_path / "task.json", tmp_path / "environment"
    here.execute(("sh", "-c", f'cp "$MAC_TASK_FILE" {copy}; env > {environment}; cat; echo 42 > answer.txt'))
    task = json.loads(copy.read_text())
    assert (task["title"], task["body"], task["deliverable"]) == ("Find the answer", "Please.", "code")
    assert task["directive"] is None
    seen = environment.read_text()
    assert here.store.token(Scope.EXECUTOR).secret not in seen
    assert here.forge.token not in seen


def test_commits_of_the_command_are_kept_and_the_rest_is_committed(here: World) -> None:
    here.store.task(here.project)
    own = "git -c user.name=A -c user.email=a@b.c commit -q -m Mine"
    here.execute(("sh", "-c", f"echo 42 > answer.txt; git add .; {own}; echo more > more.txt"))
    document = json.loads(one(here, "evidence")["document"])
    assert [file["path"] for file in document["files"]] == ["answer.txt", "more.txt"]
    assert document["summary"].splitlines()[-1] == "Mine"


def test_the_command_may_say_what_it_did_and_what_it_used(here: World) -> None:
    here.store.task(here.project)
    said = '{"summary": "The answer.", "usage": {"input_tokens": 12, "output_tokens": 3}}'
    here.execute(("sh", "-c", f"echo 42 > answer.txt; echo '{said}' > \"$MAC_RESULT_FILE\""))
    document = json.loads(one(here, "evidence")["document"])
    assert document["summary"] == "The answer."
    assert document["usage"] == {"input_tokens": 12, "output_tokens": 3}


def test_a_report_is_handed_in_without_commits(here: World) -> None:
    here.store.task(here.project, Deliverable.REPORT)
    assert here.execute(("echo", "We looked everywhere, and the answer is 42.")).exit == 0
    document = json.loads(one(here, "evidence")["document"])
    assert document["kind"] == "operator_result"
    assert document["summary"].startswith("We looked everywhere")
    assert count(here, "bundles") == 0


@pytest.mark.parametrize(
    ("command", "failure", "sentence"),
    [
        (("sh", "-c", "exit 3"), "work", "sh exited with 3"),
        (("true",), "work:no_change", "the command left no change"),
        (("sh", "-c", "echo 42 > wrong.txt"), "work", "sh exited with 1"),
        (("no-such-program",), "environment", "no-such-program could not be started"),
        (("sh", "-c", "kill -9 $$"), "environment", "sh was ended by signal 9"),
        (("sh", "-c", "echo 1 > a; rm -rf .git"), "work", "the command left a worktree that git cannot read"),
        (("sh", "-c", "git checkout -q --orphan o; echo 1 > answer.txt"), "work:tip_not_contained", "does not contain the tip"),  # noqa: E501 - a row of a table
        (("sh", "-c", "echo 1 > answer.txt; echo no > $MAC_RESULT_FILE"), "work", "result file cannot be read"),
    ],
)
def test_a_failed_attempt_is_released_with_its_class_and_a_sentence(
    here: World, command: tuple[str, ...], failure: str, sentence: str
) -> None:
    task = here.store.task(here.project)
    assert here.execute(command).exit == 1
    attempt = one(here, "attempts")
    named, _, code = failure.partition(":")
    assert (attempt["ending"], attempt["failure_class"]) == ("released", named)
    assert attempt["failure_code"] == (code or None), "only what depends on the work alone has a code"
    assert sentence in attempt["sentence"]
    assert here.store.task_now(task).state is State.OPEN
    assert count(here, "evidence") == 0
    assert count(here, "bundles") == 0


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(here: World, tmp_path: Path) -> None:
    here.store.task(here.project)
    pids = tmp_path / "pids"
    ended = here.execute(("sh", "-c", f"sleep 600 & echo $! > {pids}; wait"), "--timeout-ms", "500")
    assert ended.exit == 1
    assert one(here, "attempts")["failure_class"] == "environment"
    until(lambda: not alive(int(pids.read_text())))


def test_what_a_test_leaves_behind_makes_its_run_dirty(here: World) -> None:
    here.store.task(here.project)
    assert here.execute(("sh", "-c", "echo 'echo x > left-behind' > test.sh; echo 42 > answer.txt")).exit == 0
    (ran,) = json.loads(one(here, "evidence")["document"])["runs"]
    assert ran["dirty"] is True


def test_a_command_that_outlives_its_lease_keeps_it_by_heartbeats(tmp_path: Path) -> None:
    with world(tmp_path, task_lease_ms=3_000, heartbeat_ms=250, lease_grace_ms=0) as here:
        task = here.store.task(here.project)
        assert here.execute(("sh", "-c", "sleep 4; echo 42 > answer.txt")).exit == 0
        assert here.store.task_now(task).state is State.REVIEWING
        lease = one(here, "leases")
        assert lease["renewed_at"] - lease["created_at"] > 1_500
        assert count(here, "attempts") == 1


def test_a_lost_lease_ends_the_command(tmp_path: Path) -> None:
    with world(tmp_path, heartbeat_ms=150) as here:
        here.store.task(here.project)
        pid = tmp_path / "pid"
        process = here.start(("sh", "-c", f"echo $$ > {pid}; exec sleep 600"), "--once")
        until(lambda: pid.exists() and pid.read_text() != "")
        with here.store.ledger.write() as tx:  # what an expiry would do, at once
            tx.connection.execute(text("UPDATE leases SET released_at = 1"))
        _, talk = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "the lease was lost" in talk
        until(lambda: not alive(int(pid.read_text())))
        assert count(here, "evidence") == 0


def test_a_stop_order_ends_the_command_and_gives_the_lease_back(tmp_path: Path) -> None:
    from ledger import orders

    with world(tmp_path, heartbeat_ms=150) as here:
        task = here.store.task(here.project)
        pid = tmp_path / "pid"
        process = here.start(("sh", "-c", f"echo $$ > {pid}; exec sleep 600"), "--once")
        until(lambda: pid.exists() and pid.read_text() != "")
        with here.store.ledger.write() as tx:
            orders.stop(tx, task.id, actor="test")
        _, talk = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "stopped on the hub's order" in talk
        assert not alive(int(pid.read_text()))
        assert here.store.task_now(task).state is State.STOPPED


def test_sigterm_kills_the_command_and_releases_the_lease(here: World, tmp_path: Path) -> None:
    task = here.store.task(here.project)
    pid = tmp_path / "pid"
    process = here.start(("sh", "-c", f"echo $$ > {pid}; sleep 600 & wait"))
    until(lambda: pid.exists() and pid.read_text() != "")
    process.send_signal(signal.SIGTERM)
    _, talk = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "asked to end" in talk
    assert not alive(int(pid.read_text()))
    assert here.store.task_now(task).state is State.OPEN
    assert one(here, "attempts")["failure_class"] is None


@pytest.mark.fresh  # waits for the kernel; not steady on a busy machine
@pytest.mark.long
def test_a_killed_executor_leaves_no_command_running(here: World, tmp_path: Path) -> None:
    here.store.task(here.project)
    pid = tmp_path / "pid"
    process = here.start(("sh", "-c", f"echo $$ > {pid}; exec sleep 600"))
    until(lambda: pid.exists() and pid.read_text() != "")
    process.kill()
    process.communicate(timeout=20)
    until(lambda: not alive(int(pid.read_text())))


def test_nothing_to_do_is_said_by_the_exit_code(here: World) -> None:
    assert here.execute(WORK).exit == 1
    assert count(here, "leases") == 0


def test_work_of_another_project_is_left_alone(here: World) -> None:
    here.store.task(here.project)
    with here.store.ledger.write() as tx:
        from ledger import projects

        projects.register(tx, name="other", owner="acme", repository="other", actor="test")
    assert here.execute(WORK, "--project", "other").exit == 1
    assert count(here, "leases") == 0
    assert here.execute(WORK, "--project", "widgets").exit == 0


def test_a_hub_that_is_away_and_a_token_that_is_wrong_have_exit_codes_of_their_own(here: World) -> None:
    assert here.execute(WORK, MAC_TOKEN="not-one").exit == 4
    ended = here.execute(WORK, "--hub-url", "http://hub.example.org")
    assert (ended.exit, "https" in ended.talk) == (2, True)


def test_two_executors_do_not_share_a_folder(here: World, tmp_path: Path) -> None:
    here.store.task(here.project)
    started = tmp_path / "started"
    first = here.start(("sh", "-c", f"touch {started}; exec sleep 600"))
    until(started.exists)
    second = here.execute(WORK)
    first.terminate()
    first.communicate(timeout=20)
    assert (second.exit, "another executor" in second.talk) == (2, True)


def test_earlier_work_is_taken_along_onto_the_tip_that_moved(here: World) -> None:
    task = here.store.task(here.project)
    base = here.place.tip()
    assert base is not None
    earlier = here.place.commit({"answer.txt": "41\n"}, base, message="Almost")
    here.place.points(f"refs/heads/{task.head_branch}", earlier)
    moved = here.place.commit({"other.txt": "moved\n"}, base, message="Somebody else")
    here.place.points("refs/heads/main", moved)
    assert here.execute(("sh", "-c", "grep -q 41 answer.txt && test -f other.txt && echo 42 > answer.txt")).exit == 0
    document = json.loads(one(here, "evidence")["document"])
    assert document["verified_base"] == moved
    assert [file["path"] for file in document["files"]] == ["answer.txt"]


def test_earlier_work_that_conflicts_with_the_tip_is_left_out(here: World) -> None:
    task = here.store.task(here.project)
    base = here.place.tip()
    assert base is not None
    earlier = here.place.commit({"answer.txt": "41\n"}, base)
    here.place.points(f"refs/heads/{task.head_branch}", earlier)
    moved = here.place.commit({"answer.txt": "40\n"}, base)
    here.place.points("refs/heads/main", moved)
    assert (
        here.execute(("sh", "-c", 'grep -q 40 answer.txt && test -z "$(git status -s)" && echo 42 > answer.txt')).exit
        == 0
    )
    document = json.loads(one(here, "evidence")["document"])
    assert document["files"] == [{"path": "answer.txt", "status": "M"}]


def test_the_worktree_and_every_helper_are_gone_afterwards(here: World) -> None:
    here.store.task(here.project)
    here.execute(WORK)
    assert list((here.folder / "work" / "worktrees").iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"{os.sep}{here.folder.name}" not in "".join(
        line for line in running.splitlines() if "executor_heart" in line
    )
