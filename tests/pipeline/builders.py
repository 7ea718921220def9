"""Green worlds: a snapshot that lands and a proof that holds. Each test changes one thing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline import intent as intents
from pipeline.canonical import Json
from pipeline.decisions import Gate, GateCheck, GateKind, LandPlan, Method, TipGuard
from pipeline.facts import (
    Change,
    Check,
    CheckKind,
    Deliverable,
    EvidenceFacts,
    Known,
    LineFacts,
    PublicationFacts,
    PullRequest,
    Remote,
    Repository,
    RequiredCheck,
    Reviews,
    Rules,
    Snapshot,
    TaskFacts,
    VerdictFacts,
    VerdictResult,
)
from pipeline.proof import Reading, Verification, build, verify
from pipeline.proof_steps import CommitFacts, GitFacts, Marker, Recorded
from pipeline.signing import SigningKey
from pipeline.states import State

NOW = 1_800_000_000_000
CI_APP, OWN_APP = 15, 7


def sha(number: int) -> str:
    """A whole sha that says which one it is."""
    return f"{number:040x}"


BASE, TIP, HEAD, UPDATED, LANDED = (sha(n) for n in (1, 2, 3, 4, 5))
BASE_TREE, TIP_TREE, HEAD_TREE = sha(0x11), sha(0x12), sha(0x13)
NEEDED = frozenset({"contents", "pull_requests", "checks"})


def check(
    conclusion: str | None = "success", *, number: int = 50, app: int | None = CI_APP, context: str = "ci/test",
    kind: CheckKind = CheckKind.RUN, status: str = "completed",
) -> Check:  # fmt: skip
    """A check of the head; a green run of the CI app unless told otherwise."""
    return Check(kind, number, context, app, status, conclusion, "2027-01-01T00:00:00Z", "2027-01-01T00:01:00Z")


CHANGE = Change(
    head=HEAD, head_tree=HEAD_TREE, tip=TIP, tip_tree=TIP_TREE, contains_tip=True, contained_in_tip=False,
    contains_verified_base=True, belongs=True, merged_tree=HEAD_TREE,
)  # fmt: skip
PULL = PullRequest(9, True, False, False, "main", "mac/task_1", HEAD, 1)
RULES = Rules(required_checks=(RequiredCheck("ci/test", CI_APP, "ruleset"),), strict=True)
REMOTE = Remote(
    read_at=NOW, tip=Known(TIP), head=Known(HEAD), pull_request=Known(PULL), rules=Known(RULES),
    permissions=Known(NEEDED), checks=Known((check(),)), reviews=Known(Reviews(0, 0, 0)), change=Known(CHANGE),
)  # fmt: skip
GREEN = Snapshot(
    now=NOW,
    app_id=OWN_APP,
    repository=Repository(1, "main", "mac/task_1", NEEDED),
    task=TaskFacts("task_1", State.LANDING, Deliverable.CODE, attempts_left=2, sent_back=0),
    publication=PublicationFacts("pub_1", checks_since=NOW - 60_000, pushed_head=HEAD),
    evidence=EvidenceFacts("e" * 64, HEAD, HEAD_TREE, TIP),
    verdict=VerdictFacts(VerdictResult.APPROVED, "c" * 64),
    line=LineFacts(),
    intent=None,
    remote=REMOTE,
)


def put(snapshot: Snapshot, path: str, value: Any) -> Snapshot:
    """The snapshot with one field changed, named by its path (`remote.rules.strict`); a fact is looked through."""
    changed: Snapshot = _put(snapshot, path.split("."), value)
    return changed


def _put(thing: Any, path: list[str], value: Any) -> Any:
    if isinstance(thing, Known):
        return Known(_put(thing.value, path, value))
    return replace(thing, **{path[0]: _put(getattr(thing, path[0]), path[1:], value) if path[1:] else value})


def green(**changes: Any) -> Snapshot:
    """A snapshot that lands, with changes named by path, `__` for the dot: `green(task__held=True)`."""
    snapshot = GREEN
    for path, value in changes.items():
        snapshot = put(snapshot, path.replace("__", "."), value)
    return snapshot


def unruled(**changes: Any) -> Snapshot:
    """A snapshot of a branch without rules, that lands on its verifier run."""
    return green(**{"remote__rules": Known(Rules()), "remote__checks": Known(())} | changes)


def report(**changes: Any) -> Snapshot:
    """A report under review that is approved."""
    return green(task__deliverable=Deliverable.REPORT, task__state=State.REVIEWING, **changes)


# --- proofs

KEY, OTHER_KEY = SigningKey(bytes(range(32))), SigningKey(bytes(range(1, 33)))
BEARINGS = intents.Bearings(
    repository="acme/plain", repository_id=1, canonical_ref="refs/heads/main", branch="br_1", task="task_1",
    attempt="att_1", publication="pub_1", pull_request=9, evidence_digest="e" * 64, verdict_digest="d" * 64,
    contract_digest="c" * 64, hub_revision="r1", sequence=4, previous="f" * 64,
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """A proof with all that it is held against."""

    intent: Mapping[str, Any]
    envelope: bytes
    git: GitFacts
    recorded: Recorded | None

    def verify(self) -> Verification:
        """The verification of this scene under the hub's key."""
        return verify(self.envelope, [KEY.public], self.git, self.recorded)

    def failed(self) -> list[str]:
        """The names of the steps that do not hold."""
        return [step.name for step in self.verify().failed]


def scene(method: Method = Method.FAST_FORWARD) -> Scene:
    """A good proof. Fast-forward: an updated head with checks; merge or squash: a verifier run; by API: checks."""
    forward, api = method is Method.FAST_FORWARD, method in (Method.MERGE_API, Method.SQUASH_API)
    tested = UPDATED if forward else HEAD
    landed = UPDATED if forward else LANDED
    gate = Gate(GateKind.VERIFIER, ())
    if forward or api:
        gate = Gate(GateKind.REQUIRED_CHECKS, (GateCheck("run", "ci/test", CI_APP, 50, "success", None, None),))
    guard = TipGuard.STRICT_PROTECTION if api else TipGuard.ATOMIC_PUSH
    plan = LandPlan(method, guard, TIP, tested, HEAD_TREE, HEAD, BASE if forward else TIP, gate)
    updates = [intents.Update(UPDATED, HEAD, TIP, HEAD_TREE)] if forward else []
    intent = intents.document(
        plan, BEARINGS, updates, intent="int_1", landed=None if api else landed, landed_tree=HEAD_TREE,
        gate_read_at=NOW - 10, accepted=frozenset(), slot_token=3, committed_at=NOW,
    )  # fmt: skip
    readings = [Reading("rest", TIP, NOW + 4), Reading("git", landed, NOW + 5)]
    merged = (TIP, HEAD) if method in (Method.MERGE, Method.MERGE_API) else (TIP,)
    commits = {
        TIP: CommitFacts(TIP_TREE, (BASE,)),
        HEAD: CommitFacts(HEAD_TREE, (TIP,)),
        UPDATED: CommitFacts(HEAD_TREE, (HEAD, TIP)),
        LANDED: CommitFacts(HEAD_TREE, merged, None if api else "int_1"),
    }
    git = GitFacts(
        tip=landed, commits=commits, ancestors=frozenset({(TIP, landed)}),
        merges={(HEAD, TIP): HEAD_TREE} if forward else {}, marker=None if api else Marker(landed, intent),
    )  # fmt: skip
    held: list[Mapping[str, Json]] = [{"via": r.via, "sha": r.sha, "at": r.at} for r in readings]
    recorded = Recorded(json.loads(json.dumps(intent)), held, landed if api else None)
    return Scene(intent, build(intent, landed, landed, readings, KEY), git, recorded)
