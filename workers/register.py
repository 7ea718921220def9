"""Registering a repository: reads it once, tries what a landing will need, and says by name why it cannot be worked on."""

from contextlib import closing

import structlog

from ledger import projects
from ledger.projects import Project, Registered, Unfit
from pipeline.contract import CONTRACT_PATH, Contract, parse
from pipeline.errors import Rejected, Unavailable
from pipeline.landing import NEEDED_PERMISSIONS, WANTED_PERMISSIONS, road
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from workers.clone import Remote
from workers.forge import Forge, RepositoryFacts, installation_of
from workers.land import MarkersAdmitted, try_markers
from workers.mirror import Mirror
from workers.observe import KEPT_TIP
from workers.place import Place
from workers.refs import branch_ref
from workers.rest import ForgeAnswer
from workers.rules import Self, rules_of

log = structlog.get_logger(__name__)


def register_waiting(place: Place) -> None:
    """Read every project that waits to be read. A forge that does not answer leaves it waiting for the next tick."""
    with place.ledger.read() as tx:
        waiting = projects.registering(tx)
    for project in waiting:
        try:
            found = read(place, project)
        except Unavailable as away:
            log.warning("registration_unavailable", project=project.name, code=away.code, problem=str(away))
            continue
        with place.ledger.write() as tx:
            projects.settle_registration(tx, project.id, found)


def read(place: Place, project: Project) -> Registered | Unfit:
    """What the repository is like, or the first thing that keeps it from being worked on. Raises `Unavailable`."""
    full_name = f"{project.owner}/{project.repository}"
    try:
        installation, granted = installation_of(place.github, full_name)
    except ForgeAnswer as answer:
        if answer.status != 404:
            raise
        return Unfit(Refusal.APP_NOT_INSTALLED.value, {"repository": full_name})
    wanted = {name: level for name, level in WANTED_PERMISSIONS.items() if name in granted}
    with closing(_connect(place, installation, full_name, wanted)) as forge:
        missing = sorted(NEEDED_PERMISSIONS - forge.token.permissions)
        if missing:
            return Unfit(Reason.PERMISSION_MISSING.value, {"missing": missing})
        found = forge.repository()
        origin = Remote(found.id, found.clone_url, lambda: forge.token.secret)
        with place.mirrors.open(origin) as mirror:
            return _read(place, project, forge, mirror, found, installation, wanted)


def _connect(place: Place, installation: int, full_name: str, wanted: dict[str, str]) -> Forge:
    """A token names a repository by its number, which only a first reading tells; the name is not trusted after that."""
    probe = Forge.named(place.github, installation_id=installation, full_name=full_name, permissions={"metadata": "read"})
    with closing(probe):
        number = probe.identify()
    return Forge.connect(
        place.github, installation_id=installation, full_name=full_name, repository_id=number, permissions=wanted
    )


def _read(
    place: Place,
    project: Project,
    forge: Forge,
    mirror: Mirror,
    found: RepositoryFacts,
    installation: int,
    granted: dict[str, str],
) -> Registered | Unfit:
    branch = branch_ref(project.canonical_branch)
    tip = mirror.ls_remote([branch]).get(branch)
    if tip is None:
        return Unfit(Refusal.BRANCH_UNKNOWN.value, {"branch": project.canonical_branch})
    mirror.fetch({branch: KEPT_TIP})
    content = mirror.blob(tip, CONTRACT_PATH)
    if content is None:
        return Unfit(Refusal.CONTRACT_MISSING.value, {"path": CONTRACT_PATH, "sha": tip[:12]})
    try:
        contract = parse(content)
    except Rejected as broken:
        return Unfit(broken.code, broken.facts)
    unguarded = _unguarded(place, project, forge, contract)
    if unguarded is not None:
        return unguarded
    admitted = try_markers(mirror, f"probe_{project.id}", tip, at_ms=place.now())
    if not isinstance(admitted, MarkersAdmitted):
        return Unfit(Refusal.MARKERS_REFUSED.value, {"answer": str(admitted)[:300]})
    return Registered(
        repository_id=found.id,
        installation_id=installation,
        clone_url=found.clone_url,
        default_branch=found.default_branch,
        contract=content.decode(),
        contract_digest=contract.digest,
        contract_blob=mirror.blob_id(tip, CONTRACT_PATH),
        method=_method(project, forge, contract),
        markers_admitted=True,
        permissions=granted,
    )


def _method(project: Project, forge: Forge, contract: Contract) -> str | None:
    rules = rules_of(
        forge.ruleset_rules(project.canonical_branch),
        forge.protection(project.canonical_branch),
        Self(forge.key.app_id, frozenset()),
    )
    way = road(rules, contract.land.policy())
    return None if way is None else way.method.value


def _unguarded(place: Place, project: Project, forge: Forge, contract: Contract) -> Unfit | None:
    if _method(project, forge, contract) is None:
        return Unfit(Reason.NO_GUARDED_METHOD.value, {"branch": project.canonical_branch})
    return None
