"""The merge API: used only where GitHub itself refuses a head that is not up to date. One request, then the truth.

GitHub answers 405 both for a rule and for a race that was lost, and a 5xx may have merged all the same: the answer is a
value that keeps GitHub's own words, and nothing here tries again.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pipeline.decisions import Method
from pipeline.errors import Unavailable, ensure
from pipeline.facts import Sha
from workers.forge import Forge
from workers.refs import is_sha, whole_sha
from workers.rest import ForgeAnswer


class MergeRefusal(StrEnum):
    """Why GitHub did not merge, as far as its words tell: a race to look at again, or something that must change."""

    BASE_MOVED = "base_moved"
    HEAD_MOVED = "head_moved"
    NOT_ADMITTED = "not_admitted"
    RATE_LIMITED = "rate_limited"


@dataclass(frozen=True, slots=True)
class Merged:
    """GitHub says that it merged, as this commit. Still a claim until the branch is read back."""

    sha: Sha


@dataclass(frozen=True, slots=True)
class MergeRefused:
    """Nothing was merged. `message` is GitHub's own."""

    kind: MergeRefusal
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class MergeUnclear:
    """Whether it merged is not known; the remote must be read."""

    why: str


MergeResult: TypeAlias = Merged | MergeRefused | MergeUnclear


def merge(forge: Forge, number: int, head: Sha, method: Method, *, title: str, message: str) -> MergeResult:
    """Ask GitHub to merge exactly this head of a pull request. The request is sent once."""
    ensure(method in {Method.MERGE_API, Method.SQUASH_API}, f"{method} does not land through the merge API")
    body = {
        "sha": whole_sha(head),
        "merge_method": "squash" if method is Method.SQUASH_API else "merge",
        "commit_title": title,
        "commit_message": message,
    }
    try:
        answer = forge.put_merge(number, body)
    except ForgeAnswer as refused:
        return MergeRefused(_kind(refused), refused.status, refused.message)
    except Unavailable as failure:
        if failure.code == "rate_limited":
            return MergeRefused(MergeRefusal.RATE_LIMITED, 429, str(failure))
        return MergeUnclear(failure.code)
    sha = answer.get("sha") if isinstance(answer, dict) and answer.get("merged") else None
    return Merged(sha) if isinstance(sha, str) and is_sha(sha) else MergeUnclear("answer_malformed")


def _kind(answer: ForgeAnswer) -> MergeRefusal:
    words = answer.message.lower()
    if "base branch was modified" in words:
        return MergeRefusal.BASE_MOVED
    if answer.status == 409 or "head branch was modified" in words or "head sha" in words:
        return MergeRefusal.HEAD_MOVED
    return MergeRefusal.NOT_ADMITTED
