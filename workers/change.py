"""The change against the tip, computed by our own git: nothing here asks the forge, whose test merges lag behind."""

from collections.abc import Sequence

from pipeline.errors import Unavailable
from pipeline.facts import Change, EvidenceFacts, Sha
from pipeline.intent import Update
from workers.mirror import Mirror


def change_of(
    mirror: Mirror, evidence: EvidenceFacts, *, head: Sha, tip: Sha, belonging: bool, updates: Sequence[Update] = ()
) -> Change:
    """The facts of this head on this tip; `belonging`: the remote's own head is of the evidence, by these `updates`.

    Raises `Unavailable` when a commit is not in the mirror. `contract_met_at_tip` is True here; who knows the contract
    replaces it.
    """
    commits = mirror.commits([head, tip])
    contained = mirror.is_ancestor(head, tip)
    return Change(
        head=head,
        head_tree=commits[head].tree,
        tip=tip,
        tip_tree=commits[tip].tree,
        contains_tip=mirror.is_ancestor(tip, head),
        contained_in_tip=contained,
        contains_verified_base=_contains(mirror, evidence.verified_base, head),
        belongs=belonging,
        merged_tree=commits[tip].tree if contained else mirror.merge_tree(tip, head).tree,
        linear=not mirror.merges_between(tip, head),
        builds_on_tip=all(_contains(mirror, base, tip) for base in (evidence.verified_base, *(u.tip for u in updates))),
    )


def belongs(mirror: Mirror, reviewed: Sha, updates: Sequence[Update], head: Sha) -> bool:
    """Whether a head is the reviewed one, or is reached from it only by update commits of ours that can be computed
    again: two parents (the head before, a tip), and the tree that git's own merge of the two gives."""
    made = {update.commit: update for update in updates}
    for _ in range(len(made) + 1):
        if head == reviewed:
            return True
        update = made.get(head)
        if update is None or not _recomputes(mirror, update):
            return False
        head = update.head
    return False


def _recomputes(mirror: Mirror, update: Update) -> bool:
    commit = mirror.commits([update.commit])[update.commit]
    if commit.parents != (update.head, update.tip) or commit.tree != update.tree:
        return False
    return mirror.merge_tree(update.head, update.tip).tree == commit.tree


def _contains(mirror: Mirror, older: Sha, newer: Sha) -> bool:
    """A base that is not in the mirror is contained in nothing that is."""
    try:
        mirror.commits([older])
    except Unavailable:
        return False
    return mirror.is_ancestor(older, newer)
