"""One look at one publication: what the ledger holds, the mirror and the forge it is read through, and the snapshot."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ledger.dossier import Dossier, dossier
from ledger.evidence import read_bundle
from ledger.publication import Look
from pipeline.contract import parse
from pipeline.errors import InvariantBroken, Rejected
from pipeline.evidence import EvidenceValue, RepositoryChange
from pipeline.evidence import parse as parse_evidence
from pipeline.facts import Known, LandPolicy, Sha, Snapshot
from workers.clone import Remote as GitRemote
from workers.forge import Forge
from workers.mirror import Mirror
from workers.observe import Subject, observe
from workers.place import Place


@dataclass(frozen=True, slots=True)
class Looking:
    """A look with everything in reach. `snapshot` is what the decision at hand was taken on."""

    place: Place
    look: Look
    held: Dossier
    evidence: EvidenceValue
    mirror: Mirror
    forge: Forge
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
        """What the App may do in this repository (`contents:write` …); empty when it was not read."""
        found = self.snapshot.remote.permissions
        return found.value if isinstance(found, Known) else frozenset()

    def again(self) -> "Looking":
        """The same look with ledger and remote read anew, as it is done under the land slot."""
        held = dossier(self.place.ledger, self.look.publication_id)
        return replace(self, held=held, snapshot=_snapshot(self.place, held, self.evidence, self.mirror, self.forge))


@contextmanager
def looking(place: Place, look: Look) -> Iterator[Looking]:
    """Open the mirror and the forge for a look, and observe. Raises `Unavailable` where not even that is possible."""
    held = dossier(place.ledger, look.publication_id)
    evidence = parse_evidence(held.evidence_document)
    project = held.project
    if project.repository_id is None or project.installation_id is None or project.clone_url is None:
        raise InvariantBroken(f"the project {project.id} has publications but was never read")
    forge = Forge.connect(
        place.github,
        installation_id=project.installation_id,
        repository=f"{project.owner}/{project.repository}",
        repository_id=project.repository_id,
    )
    with place.mirrors.open(GitRemote(project.repository_id, project.clone_url, forge.token)) as mirror:
        snapshot = _snapshot(place, held, evidence, mirror, forge)
        yield Looking(place, look, held, evidence, mirror, forge, snapshot)


def _snapshot(
    place: Place, held: Dossier, evidence: EvidenceValue, mirror: Mirror, forge: Forge
) -> Snapshot:
    subject = Subject(
        canonical_branch=held.repository.canonical_branch,
        head_branch=held.repository.head_branch,
        pull_request=held.whole_task.pull_request,
        evidence=evidence if isinstance(evidence, RepositoryChange) else None,
        updates=held.updates,
        bundle=lambda: _bundle(place, held),
    )
    remote = observe(subject, forge, mirror, now=place.now)
    return Snapshot(
        now=place.now(),
        app_id=place.github.app_id,
        repository=held.repository,
        task=held.task,
        publication=held.publication,
        evidence=held.evidence,
        verdict=held.verdict,
        line=held.line,
        intent=held.intent,
        remote=remote,
        policy=_policy(remote_tip(remote.tip), mirror),
        limits=place.bounds.limits(),
        earlier=held.earlier,
    )
