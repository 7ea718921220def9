"""The only module that moves a canonical branch, and the marker beside it that fences every landing.

A landing is one atomic push of two refs: the branch, from exactly the expected tip, and `refs/mac/landings/<intent>`,
from absent. To void an intent the hub creates that marker itself first; whoever comes first wins, and a push that was
asleep in between is refused whole.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.slot import LandSlot
from pipeline.canonical import Json
from pipeline.decisions import LandPlan, Method
from pipeline.errors import ensure
from pipeline.facts import Sha
from pipeline.intent import signed
from pipeline.signing import SigningKey
from workers.mirror import Identity, Mirror
from workers.objects import tag_id
from workers.push import PushResult, RefUpdate, Refused, Unclear, push
from workers.refs import branch_ref, full_ref, whole_sha

MARKERS: Final = "refs/mac/landings/"
OWN_BRANCHES: Final = "refs/heads/mac/"
HUB: Final = Identity("mac hub", "hub@mac.invalid")
TRAILER: Final = "Mac-Intent"
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Landing:
    """One landing as its intent fixed it: `commit` is to follow exactly `expected_tip` on `branch`."""

    intent: str
    slot_token: int
    branch: str
    expected_tip: Sha
    commit: Sha
    marker: Sha


@dataclass(frozen=True, slots=True)
class Reading:
    """The remote, read over a fresh connection: the branch (None: it is not there) and the markers that are there."""

    via: str
    sha: Sha | None
    at: int
    markers: dict[str, Sha]


@dataclass(frozen=True, slots=True)
class Voided:
    """The marker is ours and says void: no push of this intent can land any more."""


@dataclass(frozen=True, slots=True)
class MarkerTaken:
    """Another marker was there first: the landing took place, or another process voided it in other words."""

    sha: Sha


@dataclass(frozen=True, slots=True)
class MarkersAdmitted:
    """The remote takes our marker refs."""


def marker_ref(intent: str) -> str:
    """The ref that fences an intent."""
    ensure(_WORD.fullmatch(intent) is not None, "an intent's id is one plain word")
    return full_ref(f"{MARKERS}{intent}")


def marker_object(mirror: Mirror, intent: str, commit: Sha, payload: bytes, *, at_ms: int) -> Sha:
    """Write the tag object that carries the signed intent. The same arguments give the same id on any machine; where the
    commit is not (it was built on another host, and never pushed), the id is all there is to give."""
    ensure(_WORD.fullmatch(intent) is not None, "an intent's id is one plain word")
    head = (
        f"object {whole_sha(commit)}\ntype commit\ntag mac-{intent}\n"
        f"tagger {HUB.name} <{HUB.email}> {at_ms // 1000} +0000\n\n"
    )
    content = head.encode() + payload
    return mirror.write_tag(content) if mirror.has(commit) else tag_id(content)


def read_marker(mirror: Mirror, intent: str) -> tuple[Sha, bytes] | None:
    """The commit that an intent's marker on the remote names, and the payload it carries; None without a marker."""
    ref = marker_ref(intent)
    sha = mirror.ls_remote([ref]).get(ref)
    if sha is None:
        return None
    mirror.fetch({ref: f"refs/hub/markers/{intent}"})
    kind, content = mirror.objects([sha])[sha]
    ensure(kind == "tag", "a marker is a tag object")
    return parse_marker(content)


def parse_marker(content: bytes) -> tuple[Sha, bytes]:
    """The commit that a marker's tag object names, and the payload in it."""
    head, _, payload = content.partition(b"\n\n")
    return whole_sha(head.decode("utf-8", "replace").split("\n", 1)[0].removeprefix("object ")), payload


def build_commit(mirror: Mirror, plan: LandPlan, message: str, *, intent: str, at_ms: int) -> Sha:
    """The commit that a plan lands: the tested head itself, or a merge or squash of it with the very tree tested.

    A built commit names the intent in its last trailer. A plan that would change nothing is refused, and so is a
    message that claims an intent by itself.
    """
    ensure(_WORD.fullmatch(intent) is not None, "an intent's id is one plain word")
    ensure(f"{TRAILER.lower()}:" not in message.lower(), "a message must not carry the intent's trailer itself")
    facts = mirror.commits([plan.expected_tip, plan.tested])
    ensure(facts[plan.tested].tree == plan.tested_tree, "the tested head does not have the tested tree")
    ensure(facts[plan.expected_tip].tree != plan.tested_tree, "the plan changes nothing")
    if plan.method is Method.FAST_FORWARD:
        return plan.tested
    ensure(plan.method in {Method.MERGE, Method.SQUASH}, f"{plan.method} is not built by the hub")
    parents = (plan.expected_tip, plan.tested) if plan.method is Method.MERGE else (plan.expected_tip,)
    full = f"{message.rstrip()}\n\n{TRAILER}: {intent}\n"
    return mirror.commit_tree(plan.tested_tree, parents, full, identity=HUB, at_ms=at_ms)


def land(slot: LandSlot, mirror: Mirror, landing: Landing) -> PushResult:
    """Move the canonical branch to the commit of an intent, and create its marker; both or neither.

    Only the holder of the slot under which the intent was committed may call this. The lease is exact, so a branch that
    was rewound refuses although the commit would fast-forward; a lease admits rewinding, so a commit that does not
    contain the expected tip is an `InvariantBroken` here. `Pushed` is a claim: the caller reads the remote back.
    """
    ensure(slot.token == landing.slot_token, "the intent was committed under another land slot")
    ensure(landing.commit != landing.expected_tip, "a landing changes the branch")
    ensure(mirror.is_ancestor(landing.expected_tip, landing.commit), "a landing contains the tip that it was planned on")
    canonical = branch_ref(landing.branch)
    return push(
        mirror,
        [
            RefUpdate(canonical, landing.commit, landing.expected_tip),
            RefUpdate(marker_ref(landing.intent), landing.marker, None),
        ],
        must_move=canonical,
    )


def void_marker(mirror: Mirror, intent: str, marker: Sha) -> Voided | MarkerTaken | Refused | Unclear:
    """Create the marker of an intent with an object that says void, from absent: afterwards its push cannot land.

    Void again with the same object is `Voided` again, so a crash in between costs nothing.
    """
    ref = marker_ref(intent)
    result = push(mirror, [RefUpdate(ref, marker, None)])
    if isinstance(result, Unclear):
        return result
    found = mirror.ls_remote([ref]).get(ref)
    if found == marker:
        return Voided()
    if found is not None:
        return MarkerTaken(found)
    return result if isinstance(result, Refused) else Unclear("marker_not_there")


def mark_landed(
    mirror: Mirror, intent: str, commit: Sha, fields: Mapping[str, Json], key: SigningKey, *, at_ms: int
) -> bool:
    """Create the marker of something that has landed already, from absent; whether exactly this one stands there."""
    marker, ref = marker_object(mirror, intent, commit, signed(fields, key), at_ms=at_ms), marker_ref(intent)
    push(mirror, [RefUpdate(ref, marker, None)])
    return mirror.ls_remote([ref]).get(ref) == marker


def read_back(mirror: Mirror, branch: str, intents: Sequence[str] = (), *, now: int) -> Reading:
    """Read the branch and these intents' markers from the remote, over a fresh git connection.

    Raises `Unavailable` when it does not answer; an absent branch is a value, silence is not.
    """
    ref = branch_ref(branch)
    markers = {marker_ref(intent): intent for intent in intents}
    found = mirror.ls_remote([ref, *markers])
    return Reading("git", found.get(ref), now, {markers[m]: sha for m, sha in found.items() if m in markers})


def push_head(mirror: Mirror, branch: str, sha: Sha, *, expected: Sha | None) -> PushResult:
    """Move one of the hub's own branches (`mac/…`) by compare-and-swap; None: from absent. Never a canonical one."""
    ref = branch_ref(branch)
    ensure(ref.startswith(OWN_BRANCHES), "only the hub's own branches are moved this way")
    return push(mirror, [RefUpdate(ref, sha, expected)])


def try_markers(mirror: Mirror, probe: str, commit: Sha, *, at_ms: int) -> MarkersAdmitted | Refused | Unclear:
    """Whether the remote takes marker refs: one is created and removed again. `probe` names it, as an intent would."""
    marker = marker_object(mirror, probe, commit, b'{"mac":"probe"}\n', at_ms=at_ms)
    ref = marker_ref(probe)
    created = push(mirror, [RefUpdate(ref, marker, None)])
    if isinstance(created, Refused | Unclear):
        return created
    removed = push(mirror, [RefUpdate(ref, None, marker)])
    return removed if isinstance(removed, Unclear) else MarkersAdmitted()
