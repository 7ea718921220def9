"""Names that reach git: full refs, branch names and object ids, checked here before they reach an argument list.

The rules are those of `git check-ref-format`, and two of our own: a name is a full one (`refs/…`), and a branch does
not begin with `-`, so that no name can ever be read as an option, whatever program it is handed to.
"""

import re

from pipeline.errors import Rejected, ensure
from pipeline.facts import Sha
from pipeline.refusals import Refusal

_SHA = re.compile(r"[0-9a-f]{40}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
REF_LENGTH_MAX = 1_000


def full_ref(name: str) -> str:
    """The name itself, when it is a full ref that git accepts. Raises `Rejected(field_invalid)` otherwise."""
    problem = _problem(name)
    if problem is not None:
        raise Rejected(Refusal.FIELD_INVALID, {"field": "ref", "problem": problem})
    return name


def branch_ref(branch: str) -> str:
    """`refs/heads/<branch>` for a short branch name. Raises `Rejected(field_invalid)` for a name that git refuses."""
    if branch.startswith("-"):
        raise Rejected(Refusal.FIELD_INVALID, {"field": "branch", "problem": "it begins with a dash"})
    return full_ref(f"refs/heads/{branch}")


def whole_sha(sha: Sha) -> Sha:
    """The object id itself, when it is a whole one: 40 lower-case hex digits. Raises `InvariantBroken` otherwise.

    Ids come from git's own answers, so a short or mixed one is a mistake of ours and must not be resolved by guessing.
    """
    ensure(_SHA.fullmatch(sha) is not None, f"not a whole object id: {sha[:60]!r}")
    return sha


def is_sha(text: str) -> bool:
    """Whether the text is a whole object id."""
    return _SHA.fullmatch(text) is not None


def _problem(name: str) -> str | None:
    if not name.startswith("refs/") or name.count("/") < 2:
        return "it is not a full ref"
    if len(name) > REF_LENGTH_MAX:
        return "it is too long"
    if _FORBIDDEN.search(name):
        return "it holds a character or a sequence that git does not take"
    if name.startswith("refs/heads/-"):
        return "the branch begins with a dash"
    if name.endswith(("/", ".")):
        return "it ends with a slash or a dot"
    if any(not part or part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        return "a part of it is empty, begins with a dot or ends with .lock"
    return None
