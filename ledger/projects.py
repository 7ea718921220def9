"""Projects: registered repositories, each with one canonical branch. A worker reads the repository and settles the
rest."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from ledger import history
from ledger.pages import Page, page
from ledger.session import Transaction
from ledger.tables import branches, projects
from pipeline.canonical import Json
from pipeline.errors import FactValue, Rejected
from pipeline.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Project:
    """One registered repository. `state`: registering, ready or refused; what a worker has not read yet is None.
    `contract` is the text at registration, for showing; landings read the contract at the verified base."""

    id: str
    name: str
    owner: str
    repository: str
    canonical_branch: str
    branch_id: str
    state: str
    paused: bool
    repository_id: int | None
    installation_id: int | None
    clone_url: str | None
    default_branch: str | None
    method: str | None
    markers_admitted: bool | None
    permissions: Mapping[str, str] | None
    contract: str | None
    contract_digest: str | None
    contract_blob: str | None
    refusal: str | None
    refusal_facts: Mapping[str, FactValue]
    created_at: int
    settled_at: int | None


@dataclass(frozen=True, slots=True)
class Registered:
    """What a worker found when it read a repository that can be worked on."""

    repository_id: int
    installation_id: int
    clone_url: str
    default_branch: str
    contract: str
    contract_digest: str
    contract_blob: str
    method: str | None
    markers_admitted: bool
    permissions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a repository cannot be worked on: a stable code (of a refusal or a reason), and what was found."""

    code: str
    facts: Mapping[str, FactValue]


def register(
    tx: Transaction, *, name: str, owner: str, repository: str, canonical_branch: str = "main", actor: str
) -> Project:
    """A new project in state `registering`, with its canonical branch, whose bell is rung. A refused registration of that
    name is taken up anew. Raises `Rejected(project_exists)` when the name or the repository's branch is taken already."""
    refused = _refused_before(tx, name)
    if refused is not None:
        return _again(tx, refused, owner=owner, repository=repository, canonical_branch=canonical_branch, actor=actor)
    project_id, now = tx.new_id("project"), tx.now()
    values: dict[str, Any] = {"owner": owner, "repository": repository, "canonical_branch": canonical_branch}
    try:
        with tx.connection.begin_nested():
            tx.connection.execute(
                insert(projects).values(
                    id=project_id,
                    name=name,
                    state="registering",
                    paused=False,
                    refusal_facts={},
                    created_at=now,
                    **values,
                )
            )
    except IntegrityError as taken:
        raise Rejected(Refusal.PROJECT_EXISTS, {"project": name}) from taken
    branch_id = tx.new_id("branch")
    tx.connection.execute(
        insert(branches).values(id=branch_id, project_id=project_id, name=canonical_branch, generation=0)
    )
    tx.ring(branch_id)
    _note(tx, project_id, "project_registered", actor, to_state="registering", facts=values)
    return get(tx, project_id)


def settle_registration(tx: Transaction, project_id: str, found: Registered | Unfit, *, actor: str = "hub") -> Project:
    """Record what a worker found: the project is `ready`, or `refused` with a code and facts. Repeating it is harmless;
    a ready project stays ready, and takes up newer facts."""
    before = get(tx, project_id)
    if isinstance(found, Unfit):
        if before.state == "ready":
            return before
        values: dict[str, Any] = {"state": "refused", "refusal": found.code, "refusal_facts": dict(found.facts)}
    else:
        values = asdict(found) | {"state": "ready", "refusal": None, "refusal_facts": {}}
    tx.connection.execute(update(projects).where(projects.c.id == project_id).values(settled_at=tx.now(), **values))
    if before.state != values["state"]:
        facts = dict(found.facts) if isinstance(found, Unfit) else {"repository_id": found.repository_id}
        _note(
            tx,
            project_id,
            "project_settled",
            actor,
            from_state=before.state,
            to_state=values["state"],
            reason=values["refusal"],
            facts=facts,
        )
    return get(tx, project_id)


def get(tx: Transaction, project: str) -> Project:
    """The project by its id or its name. Raises `Rejected(project_unknown)`."""
    by = projects.c.id if project.startswith("project_") else projects.c.name
    row = tx.connection.execute(_select().where(by == project)).one_or_none()
    if row is None:
        raise Rejected(Refusal.PROJECT_UNKNOWN, {"project": project})
    return _project(row)


def of_repository(tx: Transaction, repository_id: int) -> list[Project]:
    """The projects of a repository, by its number (a name can be taken over by somebody else)."""
    rows = tx.connection.execute(_select().where(projects.c.repository_id == repository_id))
    return [_project(row) for row in rows]


def list_page(tx: Transaction, *, cursor: str | None = None, limit: int | None = None) -> Page[Project]:
    """Projects, the oldest first."""
    return page(tx, projects, _select(), _project, cursor=cursor, limit=limit)


def registering(tx: Transaction, *, limit: int = 20) -> list[Project]:
    """Projects that a worker must read yet, the oldest first."""
    query = _select().where(projects.c.state == "registering").order_by(projects.c.created_at).limit(limit)
    return [_project(row) for row in tx.connection.execute(query)]


def pause(tx: Transaction, project_id: str, *, why: str = "", actor: str) -> Project:
    """Lease and land nothing more for this project; what has an open intent is settled all the same."""
    return _set_paused(tx, project_id, True, "project_paused", why=why, actor=actor)


def resume(tx: Transaction, project_id: str, *, why: str = "", actor: str) -> Project:
    """Take up work again where it was left."""
    return _set_paused(tx, project_id, False, "project_resumed", why=why, actor=actor)


def note_tip(tx: Transaction, branch_id: str, tip: str) -> None:
    """Remember the canonical tip as it was just read, for showing and for leases; decisions read it anew."""
    tx.connection.execute(update(branches).where(branches.c.id == branch_id).values(tip=tip, tip_at=tx.now()))


def _set_paused(tx: Transaction, project_id: str, paused: bool, event: str, *, why: str, actor: str) -> Project:
    change = (
        update(projects).where(projects.c.id == project_id, projects.c.paused == (not paused)).values(paused=paused)
    )
    if tx.connection.execute(change).rowcount == 1:
        _note(tx, project_id, event, actor, facts={"why": why} if why else {})
    return get(tx, project_id)


def _refused_before(tx: Transaction, name: str) -> Project | None:
    row = tx.connection.execute(_select().where(projects.c.name == name, projects.c.state == "refused")).one_or_none()
    return None if row is None else _project(row)


def _again(
    tx: Transaction, refused: Project, *, owner: str, repository: str, canonical_branch: str, actor: str
) -> Project:
    values: dict[str, Any] = {"owner": owner, "repository": repository, "canonical_branch": canonical_branch}
    anew: dict[str, Any] = {"state": "registering", "refusal": None, "refusal_facts": {}, "settled_at": None}
    try:
        with tx.connection.begin_nested():
            tx.connection.execute(update(projects).where(projects.c.id == refused.id).values(**values, **anew))
    except IntegrityError as taken:
        raise Rejected(Refusal.PROJECT_EXISTS, {"project": refused.name}) from taken
    tx.connection.execute(update(branches).where(branches.c.id == refused.branch_id).values(name=canonical_branch))
    _note(tx, refused.id, "project_registered", actor, from_state="refused", to_state="registering", facts=values)
    tx.ring(refused.branch_id)
    return get(tx, refused.id)


def _note(
    tx: Transaction,
    project_id: str,
    event: str,
    actor: str,
    *,
    from_state: str | None = None,
    to_state: str | None = None,
    reason: str | None = None,
    facts: Mapping[str, Json] | None = None,
) -> None:
    history.write(
        tx,
        subject="project",
        subject_id=project_id,
        event=event,
        actor=actor,
        from_state=from_state,
        to_state=to_state,
        reason=reason,
        facts=facts,
    )


def _select() -> Any:
    return select(projects, branches.c.id.label("branch_id")).join(
        branches, (branches.c.project_id == projects.c.id) & (branches.c.name == projects.c.canonical_branch)
    )


def _project(row: Row[Any]) -> Project:
    return Project(**{field.name: getattr(row, field.name) for field in fields(Project)})
