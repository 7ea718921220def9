"""A landing whose proof really holds: the mind's own intent, envelope and ten steps, over made-up git facts."""

import json
from collections.abc import Mapping

from ledger import dossier, intents, proofs
from ledger.intents import Intent, IntentKind
from ledger.proofs import ChainHead
from ledger.publication import Look
from ledger.slot import LandSlot
from pipeline.canonical import Json
from pipeline.decisions import Gate, GateKind, LandPlan, Method, TipGuard
from pipeline.intent import Bearings, document
from pipeline.proof import GitFacts, Reading, Recorded, VerifiedProof, admit, build, verify
from pipeline.proof_steps import CommitFacts, Marker
from pipeline.signing import SigningKey
from tests.ledger.world import BASE, CONTRACT, HEAD, TREE, World

LANDED = "1" * 40
KEY = SigningKey(b"k" * 32)
PLAN = LandPlan(
    method=Method.MERGE,
    tip_guard=TipGuard.ATOMIC_PUSH,
    expected_tip=BASE,
    tested=HEAD,
    tested_tree=TREE,
    reviewed_head=HEAD,
    verified_base=BASE,
    gate=Gate(GateKind.VERIFIER, ()),
)


def land_intent(world: World, look: Look, held: LandSlot, *, after: ChainHead | None = None) -> Intent:
    """The intent of landing this look's change, next in the chain after `after`."""
    found = dossier.dossier(world.ledger, look.publication_id)

    def filled(intent_id: str, slot_token: int, committed_at: int) -> Mapping[str, Json]:
        bearings = Bearings(
            repository=f"{found.project.owner}/{found.project.repository}",
            repository_id=found.repository.id,
            canonical_ref="refs/heads/main",
            branch=found.branch_id,
            task=look.task_id,
            attempt=found.attempt_id,
            publication=look.publication_id,
            pull_request=None,
            evidence_digest=found.evidence.digest,
            verdict_digest=found.verdict_digest or "",
            contract_digest=CONTRACT,
            hub_revision="test",
            sequence=1 if after is None else after.sequence + 1,
            previous=None if after is None else after.digest,
        )
        return document(
            PLAN,
            bearings,
            (),
            intent=intent_id,
            landed=LANDED,
            landed_tree=TREE,
            gate_read_at=committed_at,
            accepted=frozenset(),
            slot_token=slot_token,
            committed_at=committed_at,
        )

    return intents.commit_intent(world.ledger, look, held, IntentKind.LAND, filled)


def proof_of(intent: Intent) -> VerifiedProof:
    """The proof of that landing: sealed, verified in all its steps, admitted."""
    said = json.loads(intent.document)
    reading = Reading("git", LANDED, intent.committed_at)
    envelope = build(said, LANDED, LANDED, [reading], KEY)
    git = GitFacts(
        tip=LANDED,
        commits={
            LANDED: CommitFacts(TREE, (BASE, HEAD)),
            HEAD: CommitFacts(TREE, (BASE,)),
            BASE: CommitFacts("0" * 40, ()),
        },
        marker=Marker(LANDED, said),
    )
    recorded = Recorded(said, [{"via": "git", "sha": LANDED, "at": intent.committed_at}])
    return admit(envelope, verify(envelope, [KEY.public], git, recorded))


def landed(world: World, look: Look) -> Intent:
    """Land this look's change, the whole way to its completion."""
    with world.ledger.read() as tx:
        head = proofs.chain_head(tx, look.branch_id)
    intent = land_intent(world, look, world.slot(look.branch_id), after=head)
    proofs.complete(world.ledger, look, proofs.Landed(proof_of(intent)))
    return intent
