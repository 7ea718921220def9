"""Gathering what git says for a proof: used after a landing, and again by whoever verifies one with a clone of their
own."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pipeline.errors import Unavailable
from pipeline.facts import Sha
from pipeline.intent import INTENT_TYPE
from pipeline.proof_steps import CommitFacts, GitFacts, Marker
from pipeline.signing import PublicKey, unseal
from workers.land import TRAILER
from workers.mirror import Mirror

_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_TRAILER: Final = re.compile(rf"^{TRAILER}: (\S+)$", re.MULTILINE)


def git_facts(
    mirror: Mirror,
    predicate: Mapping[str, Any],
    tip: Sha | None,
    marker: tuple[Sha, bytes] | None,
    keys: Sequence[PublicKey],
) -> GitFacts:
    """What the repository in `mirror` says of everything that a proof names.

    The predicate is not trusted: a sha that is no sha, or not here, is left out, and the step that needs it fails.
    `marker` is the commit that the marker's tag names, and the payload in the tag.
    """
    names = ("landed_sha", "tested_sha", "reviewed_head_sha", "expected_tip", "canonical_branch_sha")
    shas = [predicate.get(name) for name in names]
    updates = [u for u in _list(predicate.get("updates")) if isinstance(u, Mapping)]
    shas += [u.get("commit") for u in updates]
    commits = _commits(mirror, [*shas, tip])
    pairs = [(predicate.get("expected_tip"), predicate.get("landed_sha"))]
    pairs += [(predicate.get("landed_sha"), t) for t in (predicate.get("canonical_branch_sha"), tip)]
    return GitFacts(
        tip=tip,
        commits=commits,
        ancestors=_ancestors(mirror, commits, pairs),
        merges=_merges(mirror, [(u.get("head"), u.get("tip")) for u in updates]),
        marker=None if marker is None else Marker(marker[0], signed_intent(marker[1], keys)),
    )


def signed_intent(payload: bytes, keys: Sequence[PublicKey]) -> Mapping[str, Any] | None:
    """The intent in a marker's payload, or None unless one of these keys signed it."""
    opened = unseal(payload.strip(), keys)
    if opened is None or opened.key_id is None or opened.payload_type != INTENT_TYPE:
        return None
    document = json.loads(opened.payload)
    return document if isinstance(document, dict) else None


def _commits(mirror: Mirror, shas: Iterable[object]) -> dict[Sha, CommitFacts]:
    found: dict[Sha, CommitFacts] = {}
    for sha in shas:
        if isinstance(sha, str) and _SHA.fullmatch(sha) and sha not in found and mirror.has(sha):
            commit = mirror.commits([sha])[sha]
            trailers = _TRAILER.findall(commit.message)
            found[sha] = CommitFacts(commit.tree, commit.parents, trailers[-1] if trailers else None)
    return found


def _ancestors(
    mirror: Mirror, commits: Mapping[Sha, CommitFacts], pairs: Iterable[tuple[object, object]]
) -> frozenset[tuple[Sha, Sha]]:
    held = set()
    for older, newer in set(pairs):
        here = isinstance(older, str) and isinstance(newer, str) and {older, newer} <= commits.keys()
        if here and mirror.is_ancestor(str(older), str(newer)):
            held.add((str(older), str(newer)))
    return frozenset(held)


def _merges(mirror: Mirror, pairs: Iterable[tuple[object, object]]) -> dict[tuple[Sha, Sha], Sha]:
    found: dict[tuple[Sha, Sha], Sha] = {}
    for head, tip in pairs:
        if isinstance(head, str) and isinstance(tip, str) and _SHA.fullmatch(head) and _SHA.fullmatch(tip):
            try:
                tree = mirror.merge_tree(head, tip).tree
            except Unavailable:
                continue
            if tree is not None:
                found[(head, tip)] = tree
    return found


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
