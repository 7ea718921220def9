"""Landing where the rules force pull requests to be merged by GitHub: one request, settled from what the branch shows.

There is no marker to fence a request that is asleep, so an unclear one is waited for until none can be under way; and
GitHub itself refuses a head that is behind, which is why this road exists only where "up to date" is enforced.
"""

from typing import assert_never

from ledger import intents
from ledger.intents import Intent
from pipeline import settle as mind
from pipeline import words
from pipeline.canonical import Json
from pipeline.decisions import LandPlan
from pipeline.errors import InvariantBroken
from pipeline.facts import PullRequest, Sha
from workers import land as pushes
from workers.looking import Looking
from workers.merge_api import Merged, MergeRefused, MergeResult, MergeUnclear, merge
from workers.observe import KEPT_TIP
from workers.prove import Read, look_later, prove


def ask(work: Looking, intent: Intent, plan: LandPlan) -> None:
    """Send the one merge request of this intent, and note what it was told. That settles nothing yet."""
    task, number = work.held.whole_task, work.held.whole_task.pull_request
    if number is None:
        raise InvariantBroken("a merge without a pull request")
    message = words.commit_message(task.title, task.id, number)
    title, _, body = message.partition("\n\n")
    trailer = f"{pushes.TRAILER}: {intent.id}"
    answer = merge(
        work.forge, number, plan.tested, plan.method, title=title, message=f"{body.rstrip()}\n\n{trailer}"
    )
    intents.observe(work.place.ledger, intent.id, "answer", told(answer))


def told(answer: MergeResult) -> dict[str, Json]:
    """What the request was told, for the record."""
    match answer:
        case Merged(sha=sha):
            return {"merge": mind.Told.MERGED.value, "sha": sha}
        case MergeRefused(kind=kind, status=status, message=message):
            return {"merge": mind.Told.REFUSED.value, "kind": kind.value, "status": status, "message": message[:500]}
        case MergeUnclear(why=why):
            return {"merge": mind.Told.UNCLEAR.value, "why": why}


def settle(work: Looking, intent: Intent) -> None:
    """Settle a merge from the pull request and the branch; while they show too little, the intent stays open."""
    place, fixed = work.place, intent.fields
    pull = work.forge.pull_request(int(fixed["pull_request"]))
    reading = pushes.read_back(work.mirror, work.held.repository.canonical_branch, now=place.now())
    noted: dict[str, Json] = {"via": "git", "sha": reading.sha, "at": reading.at, "merged": pull.merged}
    intents.observe(place.ledger, intent.id, "reading", noted)
    seen = _seen(work, intent, pull, reading.sha)
    settlement = mind.settle_merge(seen)
    match settlement:
        case mind.LandedByUs(tip=tip):
            assert seen.commit is not None
            marked = _mark(work, intent, seen.commit)
            prove(work, intent, seen.commit, Read(tip, reading.at), marked=marked, answered=seen.commit)
        case mind.IsVoid():
            intents.void(place.ledger, intent.id, "not_merged")
        case mind.LandedUnattributed():
            intents.unattributed(place.ledger, intent.id, {"tip": reading.sha, "commit": pull.merge_commit})
        case mind.LandedOtherwise(why=why):
            intents.unproven(place.ledger, intent.id, {"tip": reading.sha, "commit": seen.commit, "why": why})
        case mind.NotSettled(why=why):
            look_later(work, intent, why)
        case _:
            assert_never(settlement)


def _seen(work: Looking, intent: Intent, pull: PullRequest, tip: Sha | None) -> mind.SeenMerge:
    answers = intents.observed(work.place.ledger, intent.id, "answer")
    answer = mind.Told(str(answers[-1].facts["merge"])) if answers else mind.Told.UNCLEAR
    named = answers[-1].facts.get("sha") if answers else None
    commit = named if isinstance(named, str) else pull.merge_commit if pull.merged_by_app else None
    _fetch(work, tip)
    here = commit is not None and work.mirror.has(commit)
    facts = work.mirror.commits([commit])[commit] if commit is not None and here else None
    fixed = intent.fields
    return mind.SeenMerge(
        told=answer,
        tip=tip,
        pull_request_merged=pull.merged,
        commit=commit,
        reachable=here and commit is not None and tip is not None and work.mirror.is_ancestor(commit, tip),
        on_expected_tip=facts is not None and facts.parents[:1] == (fixed["expected_tip"],),
        tree_tested=facts is not None and facts.tree == fixed["tested_tree"],
        over=work.place.now() >= intent.committed_at + work.place.bounds.land_slot_ms,
    )


def _fetch(work: Looking, tip: Sha | None) -> None:
    if tip is not None and not work.mirror.has(tip):
        work.mirror.fetch({f"refs/heads/{work.held.repository.canonical_branch}": KEPT_TIP})


def _mark(work: Looking, intent: Intent, landed: Sha) -> bool:
    """Put the marker beside what landed, so that a clone alone can attribute it; whether it stands there. The landing
    does not rest on it: GitHub's recorded answer attributes it as well."""
    return pushes.mark_landed(work.mirror, intent.id, landed, intent.fields, work.place.key, at_ms=intent.committed_at)
