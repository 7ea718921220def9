"""One look at one publication: what the ledger holds, the mirror and the forge it is read through, and the snapshot."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from ledger.dossier import Dossier, dossier
from ledger.evidence import read_bundle
from ledger.publication import Look
from ledger.slot import LandSlot, release_slot, take_slot
from pipeline.bundle import header
from pipeline.errors import InvariantBroken, Rejected, Unavailable
from pipeline.evidence import EvidenceValue, RepositoryChange
from pipeline.evidence import parse as parse_evidence
from pipeline.facts import Known, LandPolicy, Remote, Sha, Snapshot, Unknown
from pipeline.landing import WANTED_PERMISSIONS, may_move_refs
from workers.clone import Remote as Origin
from workers.forge import Forge
from workers.gate import contract_at, meets
from workers.mirror import Mirror
from workers.observe import KEPT_TIP, Sight, observe
from workers.place import Place, gone
from workers.refs import branch_ref


@dataclass(frozen=True, slots=True)
class Looking:
    """A look with everything in reach. `snapshot` is what the decision at hand was taken on; `unreadable` is the
    refusal of the evidence's bundle, where it could not be taken in. `slot`: the land slot, where the snapshot was
    read under it."""

    place: Place
    look: Look
    held: Dossier
    evidence: EvidenceValue
    mirror: Mirror
    forge: Forge
    unreadable: Rejected | None
    slot: LandSlot | None
    snapshot: Snapshot

    @property
    def change(self) -> RepositoryChange:
        """The evidence of a code task; for a report this is a bug of the caller."""
        if not isinstance(self.evidence, RepositoryChange):
            raise InvariantBroken("a report has no change")
        return self.evidence

    @property
    def remote_head(self) -> Sha | None:
        """Where the task's branch stood in this look; None when it was absent or not read."""
        head = self.snapshot.remote.head
        return head.value if isinstance(head, Known) else None

    @property
    def permissions(self) -> frozenset[str]:
        """What the App may do in this repository (`contents:write` …)."""
        return self.forge.token.permissions

    def under(self, slot: LandSlot) -> "Looking":
        """The same look with ledger and remote read anew, under the slot that was just taken."""
        held = dossier(self.place.ledger, self.look.publication_id)
        snapshot = _snapshot(self.place, held, self.evidence, self.mirror, self.forge, readable=self.unreadable is None)
        return replace(self, held=held, slot=slot, snapshot=snapshot)


@contextmanager
def looking(place: Place, look: Look) -> Iterator[Looking]:
    """Open the mirror and the forge for a look, and observe. Raises `Unavailable` where not even that is possible."""
    held = dossier(place.ledger, look.publication_id)
    evidence = parse_evidence(held.evidence_document)
    with closing(_forge(place, held)) as forge, place.mirrors.open(_origin(held, forge)) as mirror:
        unreadable = _take_in(place, held, evidence, mirror)
        with _slot_if_likely(place, look, held) as slot:
            if slot is not None:
                held = dossier(place.ledger, look.publication_id)  # what was read before may be over by now
            snapshot = _snapshot(place, held, evidence, mirror, forge, readable=unreadable is None)
            yield Looking(place, look, held, evidence, mirror, forge, unreadable, slot, snapshot)


@contextmanager
def _slot_if_likely(place: Place, look: Look, held: Dossier) -> Iterator[LandSlot | None]:
    """The land slot for a look that may well move refs, if it is free; it is given back when the look ends."""
    slot = None
    if may_move_refs(held.task, held.verdict, held.intent, held.publication.id):
        slot = take_slot(place.ledger, look.branch_id, place.holder, gone=gone)
    try:
        yield slot
    finally:
        if slot is not None:
            release_slot(place.ledger, slot)


def _forge(place: Place, held: Dossier) -> Forge:
    project = held.project
    if project.repository_id is None or project.installation_id is None:
        raise InvariantBroken(f"the project {project.id} has publications but was never read")
    granted = project.permissions or {}
    wanted = {name: level for name, level in WANTED_PERMISSIONS.items() if name in granted}
    return Forge.connect(
        place.github,
        installation_id=project.installation_id,
        full_name=f"{project.owner}/{project.repository}",
        repository_id=project.repository_id,
        permissions=wanted,
    )


def _origin(held: Dossier, forge: Forge) -> Origin:
    if held.project.clone_url is None:
        raise InvariantBroken(f"the project {held.project.id} was never read")
    return Origin(forge.repository_id, held.project.clone_url, lambda: forge.token.secret)


def _take_in(place: Place, held: Dossier, evidence: EvidenceValue, mirror: Mirror) -> Rejected | None:
    """Bring the evidence's commits into the mirror, once. The refusal of a bundle is an answer, not a failure."""
    if not isinstance(evidence, RepositoryChange) or held.bundle_id is None or mirror.has(evidence.head):
        return None
    with place.ledger.read() as tx:
        content = read_bundle(tx, held.bundle_id)
    try:
        if not all(mirror.has(sha) for sha in header(content).prerequisites):
            mirror.fetch({branch_ref(held.repository.canonical_branch): KEPT_TIP})
        mirror.import_bundle(content, evidence.head, f"refs/hub/evidence/{held.evidence_id}")
    except Rejected as refused:
        return refused
    return None


def _snapshot(
    place: Place, held: Dossier, evidence: EvidenceValue, mirror: Mirror, forge: Forge, *, readable: bool
) -> Snapshot:
    sight = Sight(
        repository=held.repository,
        evidence=held.evidence,
        pull_request=held.whole_task.pull_request,
        pushed=held.publication.pushed_head,
        own_app_id=place.github.app_id,
        updates=held.updates,
    )
    remote = observe(sight, forge, mirror, now=place.now())
    remote, policy = _with_contract(remote, held, evidence, mirror)
    return Snapshot(
        now=place.now(),
        app_id=place.github.app_id,
        repository=held.repository,
        task=held.task,
        publication=held.publication,
        evidence=replace(held.evidence, readable=readable),
        verdict=held.verdict,
        line=held.line,
        intent=held.intent,
        remote=remote,
        policy=policy,
        limits=place.bounds.limits(),
        earlier=held.earlier,
    )


def _with_contract(remote: Remote, held: Dossier, evidence: EvidenceValue, mirror: Mirror) -> tuple[Remote, LandPolicy]:
    """How the contract on the canonical tip wants changes landed, and whether the change meets it, where it is newer
    than the one that the verdict was reached under. A contract that cannot be read there leaves the rules unknown: a
    guard that was broken must not look like a guard that is absent."""
    if not isinstance(remote.tip, Known) or not isinstance(remote.change, Known):
        return remote, LandPolicy()
    try:
        contract = contract_at(mirror, remote.tip.value)
        newer = held.verdict is not None and held.verdict.contract_digest != contract.digest
        if newer and isinstance(evidence, RepositoryChange):
            met = meets(mirror, contract, evidence)
            remote = replace(remote, change=Known(replace(remote.change.value, contract_met_at_tip=met)))
    except (Rejected, Unavailable):
        return replace(remote, rules=Unknown("contract_unreadable")), LandPolicy()
    return remote, contract.land.policy()
