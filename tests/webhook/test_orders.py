"""What operators order over `/v1` and by `mac`: granted, its reason in the history, or refused by name and unwritten."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from ledger import evidence, leases, review, roster, tasks
from ledger.access import Scope
from ledger.dossier import dossier
from ledger.evidence import Submitted
from ledger.tasks import Task
from pipeline.facts import Deliverable, LandingRecord, VerdictResult
from pipeline.reasons import Reason
from pipeline.states import Event, State
from pipeline.verdicts import Finding
from tests.ledger.world import CONTRACT, HeardBell, VirtualClock, World, report_document, verdict
from tests.webhook.knocking import Knock, problem
from tests.webhook.serving import Store
from tests.webhook.test_cli import Mac, hub_url, mac

__all__ = ["hub_url", "mac"]  # fixtures of the command line, served by the same application
WHY = {"why": "the operator said so"}


@pytest.fixture
def task(knock: Knock) -> Task:
    knock.store.token(Scope.OPERATOR)
    return knock.store.task(knock.store.project(), Deliverable.REPORT)


def submitted(store: Store, task: Task) -> Submitted:
    """The task leased by a worker, who hands in a report."""
    with store.ledger.write() as tx:
        worker = roster.worker(tx, "w-1").id
    leased = leases.lease(store.ledger, worker)
    assert leased is not None
    assert leased.task.id == task.id
    return evidence.submit(store.ledger, leased.lease_id, leased.token, worker, report_document())


def order(knock: Knock, task: Task, verb: str, document: Mapping[str, Any] = WHY) -> Any:
    return knock("POST", f"/v1/tasks/{task.id}/{verb}", dict(document), scope=Scope.OPERATOR)


def outcome(knock: Knock, task: Task) -> Any:
    return knock("GET", f"/v1/tasks/{task.id}/outcome", scope=Scope.OPERATOR).get_json()


def events(knock: Knock, task: Task) -> list[tuple[str, str | None]]:
    rows = knock("GET", f"/v1/tasks/{task.id}/timeline", scope=Scope.OPERATOR).get_json()["rows"]
    return [(row["event"], row["facts"].get("why")) for row in rows]


def blocked(knock: Knock, task: Task) -> None:
    submitted(knock.store, task)
    with knock.store.ledger.write() as tx:
        tasks.move(tx, task.id, Event.BLOCK, reason=Reason.PULL_REQUEST_CLOSED, actor="test")


# --- a project


def test_a_paused_project_offers_nothing_until_it_is_resumed_and_keeps_why(knock: Knock, task: Task) -> None:
    paused = knock("POST", "/v1/projects/widgets/pause", WHY, scope=Scope.OPERATOR)
    assert (paused.status_code, paused.get_json()["paused"]) == (200, True)
    assert knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 204
    with knock.store.ledger.read() as tx:
        kept = text("SELECT facts FROM history WHERE event = 'project_paused'")
        assert json.loads(tx.connection.execute(kept).scalar_one()) == WHY
    assert knock("POST", "/v1/projects/widgets/resume", {}, scope=Scope.OPERATOR).get_json()["paused"] is False
    assert knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 201


# --- a task


def test_a_stopped_task_is_offered_again_when_it_is_started(knock: Knock, task: Task) -> None:
    assert order(knock, task, "stop").get_json()["state"] == "stopped"
    assert order(knock, task, "start", {}).get_json()["state"] == "open"
    assert events(knock, task)[1] == ("stop_requested", WHY["why"])


def test_a_held_task_is_leased_to_nobody_until_it_is_released(knock: Knock, task: Task) -> None:
    assert order(knock, task, "hold").status_code == 200
    assert knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 204
    assert order(knock, task, "release", {}).status_code == 200
    assert knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 201
    assert events(knock, task)[1:3] == [("held", WHY["why"]), ("hold_released", None)]


def test_a_cancelled_task_is_over_and_knows_no_further_order(knock: Knock, task: Task) -> None:
    assert order(knock, task, "cancel").get_json()["state"] == "cancelled"
    before = knock.store.counts()
    for verb in ("stop", "start", "hold", "release", "retry", "cancel"):
        assert problem(order(knock, task, verb)) == (409, "transition_unknown"), verb
    assert knock.store.counts() == before


def test_a_blocked_task_is_retried_with_one_more_attempt(knock: Knock, task: Task) -> None:
    blocked(knock, task)
    before = knock.store.task_now(task).attempts_left
    said = order(knock, task, "retry").get_json()
    assert (said["state"], said["attempts_left"]) == ("open", before + 1)


@pytest.mark.parametrize("verb", ["start", "retry"])
def test_an_open_task_is_neither_started_nor_retried(knock: Knock, task: Task, verb: str) -> None:
    before = knock.store.counts()
    assert problem(order(knock, task, verb)) == (409, "transition_unknown")
    assert knock.store.counts() == before


@pytest.mark.parametrize("verb", ["stop", "hold", "retry", "cancel", "wave", "accept"])
@pytest.mark.parametrize("document", [{}, {"why": ""}, {"why": "two\nlines"}, {"why": 7}, {**WHY, "force": True}])
def test_an_order_without_a_good_reason_or_with_more_than_it_knows_is_refused(
    knock: Knock, task: Task, verb: str, document: dict[str, Any]
) -> None:
    before = knock.store.counts()
    assert problem(order(knock, task, verb, document)) == (400, "field_invalid")
    assert knock.store.counts() == before
    assert knock.store.task_now(task).state is State.OPEN


def test_an_order_repeated_under_its_key_is_carried_out_once(knock: Knock, task: Task) -> None:
    key = {"Idempotency-Key": "k-1"}
    path = f"/v1/tasks/{task.id}/hold"
    first = knock("POST", path, WHY, scope=Scope.OPERATOR, headers=key)
    order(knock, task, "release", {})
    before = knock.store.counts()
    assert knock("POST", path, WHY, scope=Scope.OPERATOR, headers=key).data == first.data
    assert knock.store.counts() == before
    assert not knock.store.task_now(task).held
    other = knock("POST", path, {"why": "another reason"}, scope=Scope.OPERATOR, headers=key)
    assert problem(other) == (422, "idempotency_key_reused")


def test_nothing_is_waved_through_where_no_person_is_asked_for(knock: Knock, task: Task) -> None:
    digest = submitted(knock.store, task).digest
    before = knock.store.counts()
    assert problem(order(knock, task, "wave", {**WHY, "evidence": "0" * 64})) == (409, "evidence_moved_on")
    assert problem(order(knock, task, "wave", {**WHY, "evidence": digest})) == (409, "nothing_to_wave")
    assert knock.store.counts() == before


def test_what_the_review_asks_a_person_for_is_waved_through_once_on_the_very_evidence(knock: Knock) -> None:
    world = World(knock.store.ledger, VirtualClock(), HeardBell())
    task = world.task(world.project())
    handed_in = world.submitted()
    asks = Finding("contract_edited", "The change edits the contract.", "person", ".mac/project.yaml")
    reviewed = verdict(handed_in, VerdictResult.APPROVED, asks)
    review.record_verdict(world.ledger, world.look_at(handed_in.publication_id), reviewed, CONTRACT, verifier_green=True)
    assert order(knock, task, "wave", {**WHY, "evidence": handed_in.digest}).status_code == 200
    assert dossier(world.ledger, handed_in.publication_id).publication.landing is LandingRecord.NONE
    waved = dossier(world.ledger, handed_in.publication_id).verdict
    assert waved is not None
    assert waved.person_needed == ()
    assert events(knock, task)[-1] == ("person_waved", WHY["why"])
    assert knock.store.task_now(task).state is State.LANDING  # let through, and nothing more
    before = knock.store.counts()
    assert problem(order(knock, task, "wave", {**WHY, "evidence": handed_in.digest})) == (409, "nothing_to_wave")
    assert knock.store.counts() == before


# --- acceptance


def judgement(knock: Knock, task: Task, decision: str = "accepted", **changes: str) -> dict[str, str]:
    seen = outcome(knock, task)["evidence"]["facts"]
    return {**WHY, "decision": decision, "evidence": seen["digest"], "attempt": seen["attempt"], **changes}


@pytest.mark.parametrize("decision", ["accepted", "rejected"])
def test_a_word_on_the_current_evidence_is_a_fact_of_its_own_and_moves_nothing(
    knock: Knock, task: Task, decision: str
) -> None:
    submitted(knock.store, task)
    seen = outcome(knock, task)
    said = order(knock, task, "accept", judgement(knock, task, decision)).get_json()
    assert (said["acceptance"]["state"], said["acceptance"]["facts"]["why"]) == (decision, WHY["why"])
    assert said | {"acceptance": None} == seen  # neither review nor publication nor deployment nor the task's state
    assert knock.store.task_now(task).state is State.REVIEWING
    assert events(knock, task)[-1] == (decision, WHY["why"])


def test_a_later_word_stands_and_the_earlier_one_stays_in_the_history(knock: Knock, task: Task) -> None:
    submitted(knock.store, task)
    order(knock, task, "accept", judgement(knock, task))
    said = order(knock, task, "accept", judgement(knock, task, "rejected")).get_json()
    assert said["acceptance"]["state"] == "rejected"
    assert [event for event, _ in events(knock, task)][-2:] == ["accepted", "rejected"]


def test_there_is_nothing_to_accept_before_there_is_evidence(knock: Knock, task: Task) -> None:
    before = knock.store.counts()
    word = {**WHY, "decision": "accepted", "evidence": "0" * 64, "attempt": "att_absent"}
    assert problem(order(knock, task, "accept", word)) == (409, "evidence_moved_on")
    assert knock.store.counts() == before


@pytest.mark.parametrize("changes", [{"evidence": "0" * 64}, {"attempt": "att_absent"}])
def test_a_word_on_other_evidence_or_another_attempt_is_refused(knock: Knock, task: Task, changes: dict[str, str]) -> None:
    submitted(knock.store, task)
    before = knock.store.counts()
    assert problem(order(knock, task, "accept", judgement(knock, task, **changes))) == (409, "evidence_moved_on")
    assert knock.store.counts() == before
    assert outcome(knock, task)["acceptance"] is None


def test_a_word_no_longer_stands_once_another_attempt_has_begun(knock: Knock, task: Task) -> None:
    blocked(knock, task)
    stale = judgement(knock, task)
    order(knock, task, "accept", stale)
    order(knock, task, "retry")
    assert knock("POST", "/v1/leases", {}, scope=Scope.EXECUTOR).status_code == 201
    before = knock.store.counts()
    assert problem(order(knock, task, "accept", stale)) == (409, "evidence_moved_on")
    assert knock.store.counts() == before
    shown = outcome(knock, task)["acceptance"]
    assert (shown["state"], shown["facts"]["was"]) == ("moved_on", "accepted")


# --- the command line


def test_a_task_and_its_project_are_ordered_about_from_a_terminal(mac: Mac, store: Store) -> None:
    task = store.task(store.project(), Deliverable.REPORT).id
    assert "paused: True" in mac("project", "pause", "widgets", "--why", "a freeze").out
    assert "paused: False" in mac("project", "resume", "widgets").out
    assert "state: stopped" in mac("task", "stop", task, "--why", "wrong").out
    assert "state: open" in mac("task", "start", task).out
    assert mac("task", "hold", task, "--why", "wait").exit == 0
    assert mac("task", "release", task).exit == 0
    assert mac("task", "retry", task, "--why", "again").talk.startswith("transition_unknown: ")
    assert "state: cancelled" in mac("task", "cancel", task, "--why", "not wanted").out
    assert mac("task", "cancel", task).exit == 2  # no reason


def test_evidence_is_accepted_from_a_terminal_by_the_digest_that_was_shown(mac: Mac, store: Store) -> None:
    task = store.task(store.project(), Deliverable.REPORT)
    assert mac("task", "accept", task.id, "--evidence", "0" * 64, "--why", "x").talk.startswith("evidence_moved_on: ")
    digest = submitted(store, task).digest
    assert mac("task", "accept", task.id, "--evidence", digest[:4], "--why", "x").exit == 2
    before = store.counts()
    assert mac("task", "reject", task.id, "--evidence", "0" * 64, "--why", "x").exit == 1
    assert mac("task", "wave", task.id, "--evidence", digest, "--why", "x").talk.startswith("nothing_to_wave: ")
    assert store.counts() == before
    said = mac("task", "accept", task.id, "--evidence", digest[:8], "--why", "read it", "--json").json()
    assert isinstance(said, dict)
    assert said["acceptance"]["state"] == "accepted"
