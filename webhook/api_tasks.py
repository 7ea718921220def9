"""`/v1/tasks`: ask for work, and see what became of it: the task, its outcome, why it does not move, its timeline.

Nothing here completes a task. What is shown as landed was proven by a reading of the remote; what is not known is null.
"""

from flask import Blueprint, Response, jsonify, request

from ledger import history, projects, reports, tasks
from ledger.access import Scope
from ledger.session import Transaction
from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from pipeline.states import State
from webhook import api_proofs, auth, hub, once, paging, shown
from webhook.schemas import NewTask, read

blueprint = Blueprint("tasks", __name__, url_prefix="/v1/tasks")


@blueprint.post("")
@auth.needs(Scope.OPERATOR)
def add() -> Response:
    """201: a task, open. Refused: `project_unknown`, `project_not_ready`."""
    wanted = read(NewTask, request.get_data())

    def create(tx: Transaction) -> once.Done:
        made = tasks.create(
            tx,
            projects.get(tx, wanted.project),
            title=wanted.title,
            body=wanted.body,
            deliverable=wanted.deliverable,
            priority=wanted.priority,
            max_attempts=wanted.max_attempts,
            token_budget=wanted.token_budget,
            actor=auth.actor().name,
        )
        return once.Done(201, shown.task(made))

    return once.together(create)


@blueprint.get("")
@auth.needs(Scope.READ)
def listed() -> Response:
    """A page of tasks, the oldest first; `?project=` and `?state=` narrow it."""
    asked, project, state = paging.asked(), request.args.get("project"), _state()
    with hub.current().ledger.read() as tx:
        project_id = None if project is None else projects.get(tx, project).id
        page = tasks.list_page(tx, project_id=project_id, state=state, cursor=asked.cursor, limit=asked.limit)
    return paging.answer(page, shown.task)


@blueprint.get("/<task>")
@auth.needs(Scope.READ)
def show(task: str) -> Response:
    """One task by its id or a unique prefix of it."""
    with hub.current().ledger.read() as tx:
        return jsonify(shown.task(tasks.get(tx, task)))


@blueprint.get("/<task>/outcome")
@auth.needs(Scope.READ)
def outcome(task: str) -> Response:
    """The five facts side by side; what is not known is null."""
    with hub.current().ledger.read() as tx:
        return jsonify(shown.outside(reports.outcome(tx, tasks.get(tx, task).id)))


@blueprint.get("/<task>/why")
@auth.needs(Scope.READ)
def why(task: str) -> Response:
    """The decision that stands, its reason, and what would change it."""
    with hub.current().ledger.read() as tx:
        return jsonify(shown.outside(reports.why(tx, tasks.get(tx, task).id)))


@blueprint.get("/<task>/timeline")
@auth.needs(Scope.READ)
def timeline(task: str) -> Response:
    """Everything that happened to the task, the oldest first; `?cursor=` is the number of the last row seen."""
    cursor = paging.asked().cursor or "0"
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Rejected(Refusal.FIELD_INVALID, {"field": "cursor", "problem": "it is not one of ours"})
    with hub.current().ledger.read() as tx:
        rows = history.timeline(tx, tasks.get(tx, task).id, after=int(cursor))
    more = str(rows[-1].id) if len(rows) == history.FEW else None
    return jsonify({"rows": [shown.entry(row) for row in rows], "next_cursor": more})


@blueprint.get("/<task>/proof")
@auth.needs(Scope.READ)
def proof(task: str) -> Response:
    """The signed envelope of the task's proof, byte for byte. Refused: `proof_unknown`."""
    return api_proofs.envelope_of(task)


@blueprint.post("/<task>/force-complete")
@auth.needs(Scope.OPERATOR)
def force_complete(task: str) -> Response:
    """Always refused, whoever asks: a task is completed by what was read back, and by nothing else."""
    with hub.current().ledger.read() as tx:
        raise Rejected(Refusal.FORCE_COMPLETE_REFUSED, {"task": tasks.get(tx, task).id})


def _state() -> State | None:
    given = request.args.get("state")
    if given is None:
        return None
    try:
        return State(given)
    except ValueError:
        problem = f"it is one of {', '.join(state.value for state in State)}"
        raise Rejected(Refusal.FIELD_INVALID, {"field": "state", "problem": problem}) from None
