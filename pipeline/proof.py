"""Proof that a change landed: built from the intent and from readings, verified by one numbered list of steps.

A proof is the intent's own document, completed by what was read back from the remote, in an in-toto statement inside a
DSSE envelope. `verify` holds it against what git says (and, in the hub, against what the ledger recorded):

 1 every field is there and whole, and the statement is about the landed commit
 2 the landing is attributed to this intent: its marker, or the commit's own trailer, or the recorded answer
 3 the expected tip is the first parent of the landed commit (its ancestor, for a fast-forward)
 4 the landed tree is the tested tree, in the documents and in git
 5 the landed tree differs from the tree of the expected tip
 6 the tested head is the reviewed head plus update commits that can be recomputed
 7 the gate was green for the tested head before the intent was committed
 8 the landed commit is reachable from the tip that was read back over git
 9 intent, digests, slot token, chain and readings are the recorded ones
10 the envelope is signed by a key of the hub

`status=pass` is written by `build` only into a document that then has to pass all of this; nothing else makes a
`VerifiedProof`, and nothing but a `VerifiedProof` completes a code task.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field

from pipeline.canonical import Json, canonical_bytes, digest, digest_bytes
from pipeline.errors import InvariantBroken, Rejected, ensure
from pipeline.facts import Sha
from pipeline.proof_steps import STEPS, Evidence, GitFacts, Recorded, Statement, Step
from pipeline.refusals import Refusal
from pipeline.signing import Opened, PublicKey, SigningKey, seal, unseal

PROOF_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "mac.canonical_integration.v1"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"

__all__ = [
    "GitFacts", "Reading", "Recorded", "StepResult", "Verification", "VerifiedProof", "admit", "build", "verify",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the canonical branch: over `git` (which counts) or `rest` (recorded beside it; it lags)."""

    via: str
    sha: Sha
    at: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """The answer of one numbered step; `problem` is a sentence when it does not hold."""

    number: int
    name: str
    holds: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Verification:
    """All ten answers. It holds only if each of them does."""

    steps: tuple[StepResult, ...]
    key_id: str | None
    predicate: Mapping[str, Json]
    envelope_digest: str

    @property
    def holds(self) -> bool:
        """Whether every step holds; an empty list of steps never does."""
        return bool(self.steps) and all(step.holds for step in self.steps)

    @property
    def failed(self) -> tuple[StepResult, ...]:
        """The steps that do not hold, in their order."""
        return tuple(step for step in self.steps if not step.holds)


_ADMISSION = object()


@dataclass(frozen=True, slots=True)
class VerifiedProof:
    """A proof whose every step held. Made by `admit` only; this is what completes a code task."""

    envelope: bytes
    digest: str
    sequence: int
    previous: str | None
    task: str
    publication: str
    intent: str
    branch: str
    admission: InitVar[object] = field(repr=False)

    def __post_init__(self, admission: object) -> None:
        ensure(admission is _ADMISSION, "a VerifiedProof is made by pipeline.proof.admit only")


def build(
    intent: Mapping[str, Json], landed: Sha, canonical_tip: Sha, readings: Sequence[Reading], key: SigningKey
) -> bytes:
    """The signed envelope for an intent whose effect was read back. It claims nothing until `verify` has held it."""
    predicate: dict[str, Json] = {
        **{name: value for name, value in intent.items() if name != "schema"},
        "intent_digest": digest(dict(intent)),
        "landed_sha": landed,
        "canonical_branch_sha": canonical_tip,
        "readings": [{"via": r.via, "sha": r.sha, "at": r.at} for r in readings],
        "status": "pass",
        "remote_verified": True,
    }
    statement: dict[str, Json] = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": str(intent["canonical_ref"]), "digest": {"gitCommit": landed}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return seal(PROOF_TYPE, canonical_bytes(statement), key)


def predicate_of(envelope: bytes) -> Mapping[str, Json]:
    """What a proof says of itself, unchecked: for gathering the facts that `verify` then holds it against."""
    return _statement(unseal(envelope, ())).predicate


def verify(envelope: bytes, keys: Iterable[PublicKey], git: GitFacts, recorded: Recorded | None = None) -> Verification:
    """Hold a proof against git, against the keys and, where there is one, against the ledger's record.

    Without a record (offline, with a clone alone) the signed intent in the marker takes its place in step 9. Total:
    whatever the bytes are, the answer is a verification, never an exception.
    """
    opened = unseal(envelope, tuple(keys))
    statement = _statement(opened)
    evidence = Evidence(statement, git, recorded, opened.key_id if opened else None)
    results = []
    for number, (name, step) in enumerate(STEPS, start=1):
        problem = _answer(step, evidence)
        results.append(StepResult(number, name, problem is None, problem))
    return Verification(tuple(results), evidence.key_id, statement.predicate, digest_bytes(envelope))


def admit(envelope: bytes, verification: Verification) -> VerifiedProof:
    """The proof as a value that completes a task. Raises `Rejected(proof_refused)` naming the first step that fails,
    or when the verification is one of another envelope."""
    if verification.envelope_digest != digest_bytes(envelope):
        raise Rejected(Refusal.PROOF_REFUSED, {"step": "0 none", "problem": "another envelope was verified"})
    if not verification.holds:
        first = verification.failed[0] if verification.failed else StepResult(0, "none", False, "nothing was checked")
        raise Rejected(Refusal.PROOF_REFUSED, {"step": f"{first.number} {first.name}", "problem": first.problem})
    said = verification.predicate
    chain = said["chain"]
    assert isinstance(chain, Mapping)
    sequence, previous = chain["sequence"], chain["previous"]
    return VerifiedProof(
        envelope=envelope,
        digest=digest_bytes(envelope),
        sequence=sequence if isinstance(sequence, int) else 0,
        previous=previous if isinstance(previous, str) else None,
        task=str(said["task"]),
        publication=str(said["publication"]),
        intent=str(said["intent"]),
        branch=str(chain["branch"]),
        admission=_ADMISSION,
    )


def _answer(step: Step, evidence: Evidence) -> str | None:
    try:
        return step(evidence)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, InvariantBroken) as error:
        return f"a field that this step needs is not readable ({type(error).__name__}: {error})"


def _statement(opened: Opened | None) -> Statement:
    if opened is None:
        return Statement({}, {}, "the envelope cannot be read")
    try:
        document = json.loads(opened.payload)
    except (ValueError, RecursionError):
        return Statement({}, {}, "the payload is not JSON")
    if not isinstance(document, dict) or not isinstance(document.get("predicate"), dict):
        return Statement({}, {}, "the payload is not a statement with a predicate")
    if opened.payload_type != PROOF_TYPE:
        return Statement(document, document["predicate"], "the payload type is not that of a statement")
    if document.get("_type") != STATEMENT_TYPE or document.get("predicateType") != PREDICATE_TYPE:
        return Statement(document, document["predicate"], "the statement is not of this type")
    return Statement(document, document["predicate"], None)
