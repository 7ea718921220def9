"""Registering a repository: reads it once, tries what a landing will need, and says by name why it cannot be worked
on."""

import hashlib
from contextlib import closing

import structlog

from ledger import projects
from ledger.projects import Project, Registered, Unfit
from pipeline.canonical import digest_bytes
from pipeline.contract import CONTRACT_PATH, Contract, parse
from pipeline.errors import Rejected, Unavailable
from pipeline.landing import NEEDED_PERMISSIONS, WANTED_PERMISSIONS, Road, road
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from workers.clone import Remote
from workers.forge import Forge, installation_of, repository_id_of
from workers.land import OWN_BRANCHES, MarkersAdmitted, try_markers
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
    number = repository_id_of(place.github, installation, full_name)
    connection = Forge.connect(
        place.github, installation_id=installation, full_name=full_name, repository_id=number, permissions=wanted
    )
    with closing(connection) as forge:
        missing = sorted(NEEDED_PERMISSIONS - forge.token.permissions)
        if missing:
            return Unfit(Reason.PERMISSION_MISSING.value, {"missing": missing})
        found = forge.repository()
        origin = Remote(found.id, found.clone_url, lambda: forge.token.secret)
        with place.mirrors.open(origin) as mirror:
            fit = _fit(place, project, forge, mirror)
    if isinstance(fit, Unfit):
        return fit
    contract, way = fit
    return Registered(
        repository_id=found.id,
        installation_id=installation,
        clone_url=found.clone_url,
        default_branch=found.default_branch,
        contract=contract.decode(),
        contract_digest=digest_bytes(contract),
        contract_blob=_blob_id(contract),
        method=way.method.value,
        markers_admitted=True,
        permissions=wanted,
    )


def _fit(place: Place, project: Project, forge: Forge, mirror: Mirror) -> tuple[bytes, Road] | Unfit:
    """The contract on the canonical branch and the guarded way to land there, or what is amiss with either."""
    branch = branch_ref(project.canonical_branch)
    if branch.startswith(OWN_BRANCHES):
        return Unfit(Refusal.FIELD_INVALID.value, {"field": "canonical_branch", "problem": "mac/… is the hub's own"})
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
    way = _road(project, forge, contract)
    if isinstance(way, Unfit):
        return way
    admitted = try_markers(mirror, f"probe_{project.id}", tip, at_ms=place.now())
    if not isinstance(admitted, MarkersAdmitted):
        return Unfit(Refusal.MARKERS_REFUSED.value, {"answer": str(admitted)[:300]})
    return content, way


def _road(project: Project, forge: Forge, contract: Contract) -> Road | Unfit:
    """The guarded way to land there. An App that could bypass the rules is not let in: nothing would hold it to
    them."""
    rulesets = forge.ruleset_rules(project.canonical_branch)
    ids = frozenset(int(rule["ruleset_id"]) for rule in rulesets if "ruleset_id" in rule)
    own = Self(forge.key.app_id, forge.bypassed_rulesets(ids))
    rules = rules_of(rulesets, forge.protection(project.canonical_branch), own)
    if rules.app_can_bypass:
        return Unfit(Reason.APP_CAN_BYPASS.value, {"branch": project.canonical_branch})
    way = road(rules, contract.land.policy())
    return Unfit(Reason.NO_GUARDED_METHOD.value, {"branch": project.canonical_branch}) if way is None else way


def _blob_id(content: bytes) -> str:
    """The id that git gives to a blob with this content (gitformat: `blob <size>` and the bytes, SHA-1)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
