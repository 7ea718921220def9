"""`/v1/projects`: register a repository, and see what became of it. A worker reads the repository afterwards."""

from flask import Blueprint, Response, jsonify, request

from ledger import projects
from ledger.access import Scope
from ledger.session import Transaction
from webhook import auth, hub, once, paging, shown
from webhook.schemas import NewProject, read

blueprint = Blueprint("projects", __name__, url_prefix="/v1/projects")


@blueprint.post("")
@auth.needs(Scope.ADMIN)
def add() -> Response:
    """201: registered, and being read. Refused: `project_exists`."""
    wanted = read(NewProject, request.get_data())

    def register(tx: Transaction) -> once.Done:
        made = projects.register(
            tx,
            name=wanted.name,
            owner=wanted.owner,
            repository=wanted.repository,
            canonical_branch=wanted.canonical_branch,
            actor=auth.actor().name,
        )
        return once.Done(201, shown.project(made))

    return once.together(register)


@blueprint.get("")
@auth.needs(Scope.READ)
def listed() -> Response:
    """A page of projects, the oldest first."""
    asked = paging.asked()
    with hub.current().ledger.read() as tx:
        page = projects.list_page(tx, cursor=asked.cursor, limit=asked.limit)
    return paging.answer(page, shown.project)


@blueprint.get("/<project>")
@auth.needs(Scope.READ)
def show(project: str) -> Response:
    """One project by name or id."""
    with hub.current().ledger.read() as tx:
        return jsonify(shown.project(projects.get(tx, project)))
