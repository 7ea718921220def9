"""Reading a snapshot inside the rows of the decision table: an unread fact stops the row, and nothing else."""

from typing import TypeVar

from pipeline.checks import Judgement, judge
from pipeline.facts import Change, Check, Fact, Snapshot, Unknown
from pipeline.landing import required_checks
from pipeline.reasons import Reason

T = TypeVar("T")


class Unread(Exception):
    """A row asked for a fact that this look did not read. Never leaves the table."""

    def __init__(self, fact: str, why: str) -> None:
        super().__init__(fact)
        self.fact = fact
        self.why = why


def known(fact: Fact[T], name: str) -> T:
    """The value of a fact; inside a row, an unknown one turns the decision into a wait for it."""
    if isinstance(fact, Unknown):
        raise Unread(name, fact.why)
    return fact.value


def reason(word: str, name: str) -> Reason:
    """The reason that the ledger holds as a word; one that this version does not know is an unread fact."""
    try:
        return Reason(word)
    except ValueError:
        raise Unread(name, "unknown_word") from None


def change_of(s: Snapshot) -> Change:
    """The change against the tip of this very look; a tip that moved between the two readings is an unread fact."""
    change = known(s.remote.change, "change")
    if change.tip != known(s.remote.tip, "tip"):
        raise Unread("change", "tip_moved_while_reading")
    return change


def judgement_of(s: Snapshot) -> Judgement:
    """The judgement on the required checks at the head of this look."""
    required = required_checks(known(s.remote.rules, "rules"), s.policy)
    observed: tuple[Check, ...] = known(s.remote.checks, "checks")
    return judge(required, observed, s.policy.accepted)
