"""The intent of a landing: everything that is fixed before the effect, as one document with one digest.

The document is committed to the ledger before the push, travels signed in the marker beside the commit, and comes back
whole inside the proof. So what was meant and what came of it can be compared field by field, by anybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.canonical import Json, canonical_bytes
from pipeline.decisions import Gate, LandPlan
from pipeline.facts import Sha
from pipeline.signing import SigningKey, seal

INTENT_TYPE = "application/vnd.mac.intent.v1+json"
INTENT_SCHEMA = "mac.intent.v1"


@dataclass(frozen=True, slots=True)
class Update:
    """An update commit that the hub made on the head branch: a merge of `tip` into `head`, with the tree of the two."""

    commit: Sha
    head: Sha
    tip: Sha
    tree: Sha


@dataclass(frozen=True, slots=True)
class Bearings:
    """Where a landing belongs: the identities and digests that the ledger holds, and its place in the branch's
    chain."""

    repository: str
    repository_id: int
    canonical_ref: str
    branch: str
    task: str
    attempt: str
    publication: str
    pull_request: int | None
    evidence_digest: str
    verdict_digest: str
    contract_digest: str
    hub_revision: str
    sequence: int
    previous: str | None


def document(
    plan: LandPlan,
    bearings: Bearings,
    updates: Sequence[Update],
    *,
    intent: str,
    landed: Sha | None,
    landed_tree: Sha,
    gate_read_at: int,
    accepted: frozenset[tuple[str, str]],
    slot_token: int,
    committed_at: int,
) -> dict[str, Json]:
    """The intent as canonical JSON. `landed` is None only where GitHub makes the commit; times are milliseconds."""
    return {
        "schema": INTENT_SCHEMA,
        "intent": intent,
        "repository": bearings.repository,
        "repository_id": bearings.repository_id,
        "canonical_ref": bearings.canonical_ref,
        "task": bearings.task,
        "attempt": bearings.attempt,
        "publication": bearings.publication,
        "pull_request": bearings.pull_request,
        "expected_tip": plan.expected_tip,
        "landed_sha": landed,
        "landed_tree": landed_tree,
        "tested_sha": plan.tested,
        "tested_tree": plan.tested_tree,
        "reviewed_head_sha": plan.reviewed_head,
        "verified_base_sha": plan.verified_base,
        "updates": [{"commit": u.commit, "head": u.head, "tip": u.tip, "tree": u.tree} for u in updates],
        "method": plan.method.value,
        "tip_guard": plan.tip_guard.value,
        "gate": gate_document(plan.gate, plan.tested, gate_read_at, accepted),
        "evidence_digest": bearings.evidence_digest,
        "verdict_digest": bearings.verdict_digest,
        "contract_digest": bearings.contract_digest,
        "slot_token": slot_token,
        "hub_revision": bearings.hub_revision,
        "committed_at": committed_at,
        "chain": {"branch": bearings.branch, "sequence": bearings.sequence, "previous": bearings.previous},
    }


def gate_document(gate: Gate, tested: Sha, read_at: int, accepted: frozenset[tuple[str, str]]) -> dict[str, Json]:
    """The gate as it goes into the intent: what was read, for which commit, when by the hub's own clock."""
    used = {(c.context, c.conclusion) for c in gate.checks} & accepted
    return {
        "kind": gate.kind.value,
        "sha": tested,
        "read_at": read_at,
        "accepted": [list(pair) for pair in sorted(used)],
        "checks": [
            {
                "kind": c.kind,
                "context": c.context,
                "app_id": c.app_id,
                "run_id": c.run_id,
                "conclusion": c.conclusion,
                "started_at": c.started_at,
                "completed_at": c.completed_at,
            }
            for c in gate.checks
        ],
    }


def signed(intent: Mapping[str, Json], key: SigningKey) -> bytes:
    """The intent in an envelope, the form that the marker carries."""
    return seal(INTENT_TYPE, canonical_bytes(dict(intent)), key)
