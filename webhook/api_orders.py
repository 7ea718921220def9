"""What operators order over `/v1`: pause and resume a project; stop, start, hold, release, retry, cancel, wave and judge a
task. Each answers with the thing as it is afterwards; a refusal changes nothing, and none of them completes a task."""

from collections.abc import Callable

from flask import Blueprint, Response, request

from ledger import acceptance, orders, projects, reports, tasks
from ledger.access import Scope
from ledger.projects import Project
from ledger.session import Transaction
from ledger.tasks import Task
from webhook import auth, once, shown
from webhook.schemas import Judgement, Order, PlainOrder, Wave, read

blueprint = Blueprint("orders", __name__, url_prefix="/v1")


@blueprint.post("/projects/<project>/pause")
@auth.needs(Scope.OPERATOR)
def pause(project: str) -> Response:
    """Lease and land nothing more of the project; what has an open intent is settled all the same."""
    why = _why()
    return _project(project, lambda tx, found: projects.pause(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/projects/<project>/resume")
@auth.needs(Scope.OPERATOR)
def resume(project: str) -> Response:
    """Go on where the project was left."""
    why = _why_if_any()
    return _project(project, lambda tx, found: projects.resume(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/stop")
@auth.needs(Scope.OPERATOR)
def stop(task: str) -> Response:
    """Ask the task to stop; what is being landed is settled first. Refused: `transition_unknown` when it is over."""
    why = _why()
    return _task(task, lambda tx, found: orders.stop(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/start")
@auth.needs(Scope.OPERATOR)
def start(task: str) -> Response:
    """Offer a stopped task again. Refused: `transition_unknown` for one that is not stopped."""
    why = _why_if_any()
    return _task(task, lambda tx, found: orders.start(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/hold")
@auth.needs(Scope.OPERATOR)
def hold(task: str) -> Response:
    """Keep the task from being leased and landed. Refused: `transition_unknown` when it is over."""
    why = _why()
    return _task(task, lambda tx, found: orders.hold(tx, found, True, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/release")
@auth.needs(Scope.OPERATOR)
def release(task: str) -> Response:
    """Let a held task go on."""
    why = _why_if_any()
    return _task(task, lambda tx, found: orders.hold(tx, found, False, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/retry")
@auth.needs(Scope.OPERATOR)
def retry(task: str) -> Response:
    """Open a blocked task again with one more attempt. Refused: `transition_unknown`, `intent_not_admitted`."""
    why = _why()
    return _task(task, lambda tx, found: orders.retry(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/cancel")
@auth.needs(Scope.OPERATOR)
def cancel(task: str) -> Response:
    """Give the task up for good. Refused: `transition_unknown`, `intent_not_admitted`."""
    why = _why()
    return _task(task, lambda tx, found: orders.cancel(tx, found, why=why, actor=auth.actor().name))


@blueprint.post("/tasks/<task>/wave")
@auth.needs(Scope.OPERATOR)
def wave(task: str) -> Response:
    """Let through what the review asks a person for. Refused: `evidence_moved_on`, `nothing_to_wave`."""
    given = read(Wave, request.get_data())
    actor = auth.actor().name
    return _task(task, lambda tx, found: orders.wave(tx, found, evidence=given.evidence, why=given.why, actor=actor))


@blueprint.post("/tasks/<task>/accept")
@auth.needs(Scope.OPERATOR)
def judge(task: str) -> Response:
    """Accept or reject exactly the evidence that was looked at; answers with the outcome, and moves no task. Refused:
    `evidence_moved_on`."""
    given = read(Judgement, request.get_data())

    def work(tx: Transaction) -> once.Done:
        found = tasks.get(tx, task).id
        acceptance.judge(
            tx,
            found,
            acceptance.Judgement(given.decision),
            evidence_digest=given.evidence,
            attempt_id=given.attempt,
            why=given.why,
            actor=auth.actor().name,
        )
        return once.Done(200, shown.outside(reports.outcome(tx, found)))

    return once.together(work)


def _why() -> str:
    return read(Order, request.get_data()).why


def _why_if_any() -> str:
    return read(PlainOrder, request.get_data()).why or ""


def _task(given: str, order: Callable[[Transaction, str], Task]) -> Response:
    return once.together(lambda tx: once.Done(200, shown.task(order(tx, tasks.get(tx, given).id))))


def _project(given: str, order: Callable[[Transaction, str], Project]) -> Response:
    return once.together(lambda tx: once.Done(200, shown.project(order(tx, projects.get(tx, given).id))))
