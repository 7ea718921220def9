"""A proof holds as a whole or not at all: every field that can be altered is altered, and a named step says so."""

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.canonical import Json, canonical_bytes, digest
from pipeline.decisions import Method
from pipeline.errors import InvariantBroken, Rejected
from pipeline.proof import PROOF_TYPE, VerifiedProof, admit, verify
from pipeline.proof_steps import STEPS, CommitFacts, GitFacts, Marker
from pipeline.signing import seal
from tests.pipeline.builders import (
    BASE,
    HEAD,
    HEAD_TREE,
    KEY,
    NOW,
    OTHER_KEY,
    TIP,
    TIP_TREE,
    UPDATED,
    Scene,
    scene,
    sha,
)

METHODS = list(Method)
STEP_NAMES = {name for name, _ in STEPS}


def statement(of: Scene) -> Any:
    return json.loads(base64.b64decode(json.loads(of.envelope)["payload"]))


def resealed(of: Scene, document: Any) -> Scene:
    """The scene with another statement, signed by the right key: only what it says can give it away."""
    return replace(of, envelope=seal(PROOF_TYPE, canonical_bytes(document), KEY))


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return ("0" if value[:1] != "0" else "1") + value[1:]
    return "something" if value is None else None


def flips(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every document that differs in one place: each leaf changed, each entry deleted, one more everywhere."""
    here = _at(document, path)
    where = ".".join(map(str, path)) or "(top)"
    if isinstance(here, dict):
        yield f"{where} + field", _with(document, path, lambda d: {**d, "added": 1})
    if isinstance(here, list):
        yield f"{where} + entry", _with(document, path, lambda d: [*d, d[-1] if d else "added"])
    if isinstance(here, dict | list):
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        for key in keys:
            yield f"{where}.{key} deleted", _with(document, path, partial(_without, key=key))
            yield f"{where}.{key} null", _with(document, (*path, key), lambda v: None if v is not None else 0)
            yield from flips(document, (*path, key))
        return
    yield f"{where} changed", _with(document, path, other)


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _with(document: Any, path: tuple[Any, ...], alter: Callable[[Any], Any]) -> Any:
    if not path:
        return alter(document)
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = _with(copy[path[0]], path[1:], alter)
    return copy


def _without(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k != key}
    return [v for i, v in enumerate(value) if i != key]


@pytest.mark.parametrize("method", METHODS)
def test_a_good_proof_holds_and_completes(method: Method) -> None:
    good = scene(method)
    assert good.failed() == []
    proof = admit(good.envelope, good.verify())
    assert (proof.task, proof.publication, proof.intent, proof.sequence) == ("task_1", "pub_1", "int_1", 4)
    assert (proof.branch, proof.previous) == ("br_1", "f" * 64)


@pytest.mark.parametrize("method", METHODS)
def test_no_field_of_the_statement_can_be_altered(method: Method) -> None:
    good = scene(method)
    failed = {what: resealed(good, document).failed() for what, document in flips(statement(good))}
    passed = [what for what, steps in failed.items() if not steps]
    for what, steps in failed.items():
        print(f"{method:12} {what:50} {', '.join(steps)}")  # noqa: T201 - the table is read by people
    assert passed == []
    assert all("signed" not in steps for what, steps in failed.items() if what.startswith("predicate."))
    counted = Counter(step for steps in failed.values() for step in steps)
    assert set(counted) >= STEP_NAMES - {"signed", "changes_something", "attributed"}


NAMED: list[tuple[str, Any, set[str]]] = [
    ("status", "fail", {"whole"}),
    ("remote_verified", False, {"whole"}),
    ("landed_sha", "abc", {"whole", "attributed", "on_expected_tip", "tree_tested", "read_back", "as_recorded"}),
    ("intent", "int_2", {"attributed", "as_recorded"}),
    ("expected_tip", BASE, {"on_expected_tip", "changes_something", "as_recorded"}),
    ("tested_tree", TIP_TREE, {"tree_tested", "as_recorded"}),
    ("landed_tree", TIP_TREE, {"tree_tested", "changes_something", "as_recorded"}),
    ("reviewed_head_sha", BASE, {"reviewed_plus_updates", "as_recorded"}),
    ("updates", [], {"reviewed_plus_updates", "as_recorded"}),
    ("method", "merge", {"on_expected_tip", "as_recorded"}),
    ("committed_at", 0, {"gate_green", "as_recorded"}),
    ("canonical_branch_sha", TIP, {"read_back"}),
    ("readings", [], {"read_back", "as_recorded"}),
    ("slot_token", 4, {"as_recorded"}),
    ("evidence_digest", "0" * 64, {"as_recorded"}),
    ("intent_digest", "0" * 64, {"as_recorded"}),
    ("contract_digest", "short", {"whole", "as_recorded"}),
]


@pytest.mark.parametrize(("field", "value", "steps"), NAMED, ids=[row[0] for row in NAMED])
def test_a_lie_is_caught_by_the_steps_that_know_better(field: str, value: Any, steps: set[str]) -> None:
    good = scene()
    lie = resealed(good, _with(statement(good), ("predicate", field), lambda _: value))
    assert set(lie.failed()) == steps


GATES: list[tuple[str, dict[str, Any]]] = [
    ("of another commit", {"sha": BASE}),
    ("read after the intent", {"read_at": NOW + 1}),
    ("without checks", {"checks": []}),
    ("of a kind that nobody knows", {"kind": "hope"}),
    ("of the verifier beside checks", {"kind": "verifier"}),
]


@pytest.mark.parametrize(("what", "fields"), GATES, ids=[g[0] for g in GATES])
def test_a_gate_is_no_gate_even_where_every_record_agrees_with_it(what: str, fields: dict[str, Any]) -> None:
    assert _consistent({"gate": {**scene().intent["gate"], **fields}}).failed() == ["gate_green"]


@pytest.mark.parametrize("conclusion", ["failure", "skipped", "neutral", "", "pending"])
def test_a_check_that_did_not_pass_is_no_gate_unless_it_was_accepted_by_name(conclusion: str) -> None:
    gate = scene().intent["gate"]
    checks = [{**gate["checks"][0], "conclusion": conclusion}]
    assert _consistent({"gate": {**gate, "checks": checks}}).failed() == ["gate_green"]
    accepted = {"checks": checks, "accepted": [["ci/test", "skipped"]]}
    held = _consistent({"gate": {**gate, **accepted}}).failed()
    assert held == ([] if conclusion == "skipped" else ["gate_green"])


@pytest.mark.parametrize(("at", "failed"), [(NOW, []), (NOW - 1, ["read_back"])])
def test_a_branch_that_was_read_before_the_intent_shows_nothing(at: int, failed: list[str]) -> None:
    good = scene()
    readings: list[dict[str, Json]] = [{"via": "git", "sha": UPDATED, "at": at}]
    assert good.recorded is not None
    early = resealed(good, _with(statement(good), ("predicate", "readings"), lambda _: readings))
    assert replace(early, recorded=replace(good.recorded, readings=readings)).failed() == failed


def _consistent(changes: dict[str, Any]) -> Scene:
    """A hub that meant something wrong and recorded it everywhere alike."""
    good = scene()
    intent = {**good.intent, **changes}
    document = statement(good)
    document["predicate"] |= {**changes, "intent_digest": digest(intent)}
    assert good.recorded is not None
    assert good.git.marker is not None
    git = replace(good.git, marker=Marker(good.git.marker.commit, intent))
    return replace(resealed(good, document), git=git, recorded=replace(good.recorded, intent=intent))


@pytest.mark.parametrize("method", METHODS)
def test_no_part_of_the_envelope_can_be_altered(method: Method) -> None:
    good = scene(method)
    failed = {
        what: replace(good, envelope=json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).failed()
        for what, document in flips(json.loads(good.envelope))
    }
    assert [what for what, steps in failed.items() if "signed" not in steps] == []


def test_the_same_envelope_spelled_otherwise_is_another_envelope() -> None:
    good = scene()
    spaced = replace(good, envelope=json.dumps(json.loads(good.envelope)).encode())
    assert spaced.failed() == ["signed"]
    assert replace(good, envelope=good.envelope + b"\n").failed() == []


def test_another_key_fails_the_signature_and_nothing_else() -> None:
    good = scene()
    verification = verify(good.envelope, [OTHER_KEY.public], good.git, good.recorded)
    assert [step.name for step in verification.failed] == ["signed"]
    assert verify(good.envelope, [OTHER_KEY.public, KEY.public], good.git, good.recorded).holds
    assert not verify(good.envelope, [], good.git, good.recorded).holds


def commit(git: GitFacts, name: str, facts: CommitFacts) -> GitFacts:
    return replace(git, commits={**git.commits, name: facts})


WORLDS: list[tuple[str, Method, Callable[[GitFacts], GitFacts], list[str]]] = [
    ("no branch", Method.FAST_FORWARD, lambda g: replace(g, tip=None), ["read_back"]),
    ("a branch without the commit", Method.FAST_FORWARD, lambda g: replace(g, tip=sha(99)), ["read_back"]),
    ("another tree", Method.FAST_FORWARD, lambda g: commit(g, UPDATED, CommitFacts(TIP_TREE, (HEAD, TIP))),
     ["tree_tested", "reviewed_plus_updates"]),
    ("no change", Method.FAST_FORWARD, lambda g: commit(g, TIP, CommitFacts(HEAD_TREE, (BASE,))),
     ["changes_something"]),
    ("other parents of the update", Method.FAST_FORWARD,
     lambda g: commit(g, UPDATED, CommitFacts(HEAD_TREE, (HEAD, BASE))), ["reviewed_plus_updates"]),
    ("an update with another tree than its merge", Method.FAST_FORWARD,
     lambda g: replace(g, merges={(HEAD, TIP): TIP_TREE}), ["reviewed_plus_updates"]),
    ("an update that was not recomputed", Method.FAST_FORWARD, lambda g: replace(g, merges={}),
     ["reviewed_plus_updates"]),
    ("a tip that is no ancestor", Method.FAST_FORWARD, lambda g: replace(g, ancestors=frozenset()),
     ["on_expected_tip"]),
    ("an empty clone", Method.FAST_FORWARD, lambda g: replace(g, commits={}),
     ["tree_tested", "changes_something", "reviewed_plus_updates"]),
    ("the marker of another commit", Method.FAST_FORWARD,
     lambda g: replace(g, marker=Marker(HEAD, g.marker.intent if g.marker else None)), ["attributed"]),
    ("an unsigned marker", Method.FAST_FORWARD, lambda g: replace(g, marker=Marker(UPDATED, None)), ["attributed"]),
    ("the marker of another intent", Method.MERGE,
     lambda g: replace(g, marker=Marker(sha(5), {"intent": "int_2"})), ["attributed", "as_recorded"]),
    ("another first parent", Method.MERGE, lambda g: commit(g, sha(5), CommitFacts(HEAD_TREE, (BASE, HEAD), "int_1")),
     ["on_expected_tip"]),
    ("another second parent", Method.MERGE, lambda g: commit(g, sha(5), CommitFacts(HEAD_TREE, (TIP, BASE), "int_1")),
     ["on_expected_tip"]),
    ("a squash with two parents", Method.SQUASH,
     lambda g: commit(g, sha(5), CommitFacts(HEAD_TREE, (TIP, HEAD), "int_1")), ["on_expected_tip"]),
    ("no parents", Method.MERGE, lambda g: commit(g, sha(5), CommitFacts(HEAD_TREE, (), "int_1")),
     ["on_expected_tip"]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "method", "alter", "steps"), WORLDS, ids=[w[0] for w in WORLDS])
def test_git_has_the_last_word(
    what: str, method: Method, alter: Callable[[GitFacts], GitFacts], steps: list[str]
) -> None:
    good = scene(method)
    assert replace(good, git=alter(good.git)).failed() == steps


@pytest.mark.parametrize("method", METHODS)
def test_every_field_of_the_record_counts(method: Method) -> None:
    good = scene(method)
    assert good.recorded is not None
    for what, intent in flips(json.loads(json.dumps(good.intent))):
        failed = replace(good, recorded=replace(good.recorded, intent=intent)).failed()
        assert failed == ["as_recorded"], what
    for what, readings in flips(list(good.recorded.readings)):
        assert replace(good, recorded=replace(good.recorded, readings=readings)).failed() == ["as_recorded"], what


@pytest.mark.parametrize("method", [Method.MERGE_API, Method.SQUASH_API])
def test_what_github_merged_is_ours_only_by_its_answer_or_its_trailer(method: Method) -> None:
    good = scene(method)
    assert good.recorded is not None
    unanswered = replace(good, recorded=replace(good.recorded, answered=None))
    assert unanswered.failed() == ["attributed"]
    assert replace(good, recorded=replace(good.recorded, answered=HEAD)).failed() == ["attributed"]
    landed = good.git.commits[sha(5)]
    assert replace(unanswered, git=commit(good.git, sha(5), replace(landed, trailer="int_1"))).failed() == []
    assert replace(unanswered, git=commit(good.git, sha(5), replace(landed, trailer="x"))).failed() == ["attributed"]


@pytest.mark.parametrize("method", METHODS)
def test_offline_the_signed_marker_takes_the_place_of_the_record(method: Method) -> None:
    offline = replace(scene(method), recorded=None)
    if offline.git.marker is not None:
        assert offline.failed() == []
    bare = replace(offline, git=replace(offline.git, marker=None))
    assert "as_recorded" in bare.failed()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_answered_and_never_hold(content: bytes) -> None:
    assert not replace(scene(), envelope=content).verify().holds


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(statement(scene())["predicate"])), JSON)
def test_any_value_in_any_field_is_answered(field: str, value: Any) -> None:
    good = scene()
    document = _with(statement(good), ("predicate", field), lambda _: value)
    sealed = seal(PROOF_TYPE, json.dumps(document).encode(), KEY)
    untouched = json.dumps(document) == json.dumps(statement(good))  # in Python alone, true equals one
    assert replace(good, envelope=sealed).verify().holds is untouched


@pytest.mark.parametrize("payload", [b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"predicate": {"a": 1}}', b"1" * 5_000])
def test_a_signed_payload_that_is_no_statement_is_answered(payload: bytes) -> None:
    assert not replace(scene(), envelope=seal(PROOF_TYPE, payload, KEY)).verify().holds
    assert not replace(scene(), envelope=seal("\ud800", payload, KEY)).verify().holds


def test_a_verified_proof_is_made_by_admit_only() -> None:
    good = scene()
    proof = admit(good.envelope, good.verify())
    with pytest.raises(InvariantBroken):
        VerifiedProof(good.envelope, proof.digest, 4, None, "t", "p", "i", "b", admission=object())
    with pytest.raises((InvariantBroken, ValueError, TypeError)):
        replace(proof, task="task_2")  # type: ignore[call-arg]  # what the type refuses must fail as well


def test_nothing_is_admitted_that_fails_or_that_was_not_checked() -> None:
    good = scene()
    bad = replace(good, git=replace(good.git, tip=None))
    with pytest.raises(Rejected, match="8 read_back"):
        admit(bad.envelope, bad.verify())
    with pytest.raises(Rejected, match="another envelope"):
        admit(scene(Method.MERGE).envelope, good.verify())
    with pytest.raises(Rejected, match="nothing was checked"):
        admit(good.envelope, replace(good.verify(), steps=()))


