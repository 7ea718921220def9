"""One look at the remote: every fact read now and completely, or named as unknown with the reason.

git and REST are read side by side, so that a look takes about one round trip. A read that fails makes its own fact
unknown and no other. A look sends at most five REST requests, plus one for each further page, and one more (or two)
where a rule asks for reviews or conversations.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pipeline.errors import Unavailable
from pipeline.facts import (
    Change,
    Check,
    EvidenceFacts,
    Fact,
    Known,
    PullRequest,
    Remote,
    Repository,
    Reviews,
    Rules,
    Sha,
    Unknown,
)
from pipeline.intent import Update
from workers.change import belongs, change_of
from workers.forge import Forge
from workers.mirror import Mirror
from workers.refs import branch_ref
from workers.rest import SECONDARY_LIMIT_MS
from workers.rules import Self, rules_of

T = TypeVar("T")
KEPT_TIP = "refs/hub/tip"
KEPT_HEAD = "refs/hub/heads/"


@dataclass(frozen=True, slots=True)
class Sight:
    """What to look at: the publication's identities as the ledger holds them.

    `pushed`: the head that the hub last saw or put on the task's branch (None: nothing was pushed yet, so there are no
    checks to read). `own_app_id` and `bypassed_rulesets` say who we are to the rules.
    """

    repository: Repository
    evidence: EvidenceFacts
    pull_request: int | None
    pushed: Sha | None
    own_app_id: int
    updates: tuple[Update, ...] = ()
    bypassed_rulesets: frozenset[int] = frozenset()

    @property
    def expected_head(self) -> Sha:
        """Where the head should be: the last update commit of ours, or the evidence's head."""
        return self.updates[-1].commit if self.updates else self.evidence.head


@dataclass(slots=True)
class _Limits:
    """The longest wait that any read of this look was asked for."""

    until: int | None = None
    now: int = 0

    def note(self, failure: Unavailable) -> None:
        if failure.code == "rate_limited":
            wait = SECONDARY_LIMIT_MS if failure.retry_after_ms is None else failure.retry_after_ms
            self.until = max(self.until or 0, self.now + wait)


@dataclass(frozen=True, slots=True)
class _Reading(Generic[T]):
    """A read under way in another thread."""

    future: Future[T]
    limits: _Limits = field(repr=False)

    def fact(self) -> Fact[T]:
        return _fact(self.future.result, self.limits)


def observe(sight: Sight, forge: Forge, mirror: Mirror, *, now: int) -> Remote:
    """Read the remote for one publication. Never raises `Unavailable`: what did not answer is an unknown fact."""
    limits = _Limits(now=now)
    branch, expected = sight.repository.canonical_branch, sight.expected_head

    def start(read: Callable[[], T]) -> _Reading[T]:
        return _Reading(forge.readers.submit(read), limits)

    rulesets = start(lambda: forge.ruleset_rules(branch))
    protection = start(lambda: forge.protection(branch))
    pull = start(lambda: _pull_request(sight, forge))
    runs = start(lambda: forge.check_runs(expected)) if sight.pushed else None
    statuses = start(lambda: forge.statuses(expected)) if sight.pushed else None
    tip, head = _refs(sight, mirror, limits)
    change = _fact(lambda: _change(sight, mirror, tip, head), limits)
    rules = _rules(rulesets.fact(), protection.fact(), Self(sight.own_app_id, sight.bypassed_rulesets))
    return Remote(
        read_at=now,
        tip=tip,
        head=head,
        pull_request=pull.fact(),
        rules=rules,
        permissions=Known(forge.token.permissions),
        checks=_checks(head, expected, [r.fact() for r in (runs, statuses) if r is not None]),
        reviews=_fact(lambda: _reviews(sight, forge, rules), limits),
        change=change,
        rate_limited_until=limits.until,
    )


def _fact(read: Callable[[], T], limits: _Limits) -> Fact[T]:
    try:
        return Known(read())
    except Unavailable as failure:
        limits.note(failure)
        return Unknown(failure.code)


def _refs(sight: Sight, mirror: Mirror, limits: _Limits) -> tuple[Fact[Sha], Fact[Sha | None]]:
    """Tip and head in one reading of the remote, so that the two belong to one moment."""
    tip_ref, head_ref = branch_ref(sight.repository.canonical_branch), branch_ref(sight.repository.head_branch)
    found = _fact(lambda: mirror.ls_remote([tip_ref, head_ref]), limits)
    if isinstance(found, Unknown):
        return found, found
    tip = found.value.get(tip_ref)
    return Unknown("branch_absent") if tip is None else Known(tip), Known(found.value.get(head_ref))


def _change(sight: Sight, mirror: Mirror, tip: Fact[Sha], head: Fact[Sha | None]) -> Change:
    """The change at the remote's head where that belongs to the evidence, otherwise at the evidence's own head."""
    if not sight.expected_head:
        raise Unavailable("no_change", "a report has no head")
    if isinstance(tip, Unknown):
        raise Unavailable(tip.why, "the tip was not read")
    if isinstance(head, Unknown):
        raise Unavailable(head.why, "the head was not read")
    wanted: dict[str, str] = {}
    if not mirror.has(tip.value):
        wanted[branch_ref(sight.repository.canonical_branch)] = KEPT_TIP
    if head.value is not None and not mirror.has(head.value):
        wanted[branch_ref(sight.repository.head_branch)] = f"{KEPT_HEAD}{sight.repository.head_branch}"
    mirror.fetch(wanted)
    if not mirror.has(tip.value) or (head.value is not None and not mirror.has(head.value)):
        raise Unavailable("moved_while_reading", "a ref moved between the reading and the fetch")
    if not mirror.has(sight.expected_head):
        raise Unavailable("head_not_here", "the head is neither on the remote nor in a bundle that was taken in")
    ours = head.value is not None and belongs(mirror, sight.evidence.head, sight.updates, head.value)
    candidate = head.value if head.value is not None and ours else sight.expected_head
    return change_of(mirror, sight.evidence, head=candidate, tip=tip.value, belonging=ours, updates=sight.updates)


def _pull_request(sight: Sight, forge: Forge) -> PullRequest | None:
    return None if sight.pull_request is None else forge.pull_request(sight.pull_request)


def _rules(
    rulesets: Fact[tuple[Mapping[str, Any], ...]], protection: Fact[Mapping[str, Any] | None], own: Self
) -> Fact[Rules]:
    """Both layers or nothing: one of them alone may look like freedom."""
    if isinstance(rulesets, Unknown):
        return Unknown(f"rulesets_{rulesets.why}")
    if isinstance(protection, Unknown):
        return Unknown(f"protection_{protection.why}")
    return Known(rules_of(rulesets.value, protection.value, own))


def _checks(head: Fact[Sha | None], expected: Sha, read: Sequence[Fact[tuple[Check, ...]]]) -> Fact[tuple[Check, ...]]:
    """The checks count only when they were read for the head that stands on the remote in this very look."""
    if isinstance(head, Unknown):
        return head
    if head.value is None:
        return Unknown("head_absent")
    if head.value != expected:
        return Unknown("head_moved")
    if not read:
        return Unknown("not_read")
    checks: list[Check] = []
    for fact in read:
        if isinstance(fact, Unknown):
            return fact
        checks += fact.value
    return Known(tuple(checks))


def _reviews(sight: Sight, forge: Forge, rules: Fact[Rules]) -> Reviews:
    """Asked for only where a rule asks: elsewhere nobody's word is waited for."""
    if isinstance(rules, Unknown):
        raise Unavailable(rules.why, "the rules were not read")
    wanted = rules.value.approvals_required or rules.value.conversations_required
    if not wanted or sight.pull_request is None:
        raise Unavailable("not_read", "no rule asks for reviews")
    return forge.reviews(sight.pull_request, conversations=rules.value.conversations_required)
