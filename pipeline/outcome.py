"""Whether an operator's word on some evidence may stand: it holds for what was looked at, and for nothing later."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Current:
    """What stands now: the digest of the newest evidence and the attempt that made it, and the newest attempt of all."""

    evidence: str
    evidence_attempt: str
    newest_attempt: str


def moved_on(current: Current | None, *, evidence: str, attempt: str) -> str | None:
    """Why a word on this evidence of this attempt cannot stand, as the end of a sentence; None: it can.

    It stands only while the evidence is the newest, was made by that attempt, and no attempt was begun since.
    """
    if current is None:
        return "the task has none"
    if current.evidence != evidence:
        return f"{current.evidence[:12]} is the current one"
    if current.evidence_attempt != attempt:
        return f"it was made by {current.evidence_attempt}"
    if current.newest_attempt != attempt:
        return f"{current.newest_attempt} was begun since"
    return None
