"""One guarded push: every ref with the value it must have on the remote, all refs or none, and an honest answer.

A push is never repeated here. What is not a clear yes or a clear no is `Unclear`, and the caller reads the remote.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from pipeline.errors import Unavailable
from pipeline.facts import Sha
from workers.git import GitFailed
from workers.mirror import Mirror
from workers.refs import full_ref, whole_sha

_RULE: Final = re.compile(r"\bGH\d{3}\b|rule violations|protected branch|pre-receive hook declined", re.IGNORECASE)
# The remote found a ref elsewhere than it had shown it. This may be our own push, arrived twice: when a connection dies
# before the answer, the HTTP library under git sends the request again, and the second one finds the first one's work.
_RACE: Final = re.compile(
    r"cannot lock ref|failed to update ref|incorrect old value|atomic transaction failed|reference already exists",
    re.IGNORECASE,
)
_WOULD_NOT_MOVE: Final = "mac: the canonical branch would not move"
_MESSAGE_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """One ref of a push: from exactly `expected` (None: from absent) to `new` (None: deleted)."""

    ref: str
    new: Sha | None
    expected: Sha | None


class RefusalKind(StrEnum):
    """Why the remote, or git on our side, took nothing of a push."""

    STALE = "stale"
    RULE = "rule"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Pushed:
    """The remote reported that every ref moved. Still a claim until the remote is read back."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing moved. `refs` are those at fault; `message` is what the remote said, for people."""

    kind: RefusalKind
    refs: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The remote has it already; this push moved nothing, and so it is never a landing."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Whether anything moved is not known: `why` is the code of the failure. The remote must be read."""

    why: str


PushResult: TypeAlias = Pushed | Refused | UpToDate | Unclear


def push(mirror: Mirror, updates: Sequence[RefUpdate], *, must_move: str | None = None) -> PushResult:
    """Push these refs, all or none. `must_move` names a ref without whose movement nothing is pushed at all."""
    leases = [f"--force-with-lease={full_ref(u.ref)}:{whole_sha(u.expected) if u.expected else ''}" for u in updates]
    specs = [f"{whole_sha(u.new) if u.new else ''}:{full_ref(u.ref)}" for u in updates]
    try:
        answer = mirror.remote(
            "push", "--atomic", "--porcelain", "--no-recurse-submodules", "--no-signed", "--no-follow-tags",
            *leases, "--", mirror.url, *specs,
            must_move=must_move, expected=(0, 1),
        )  # fmt: skip
    except GitFailed as failure:
        return Unclear(failure.code)
    except Unavailable as failure:
        return Unclear(failure.code)
    if _WOULD_NOT_MOVE in answer.stderr:
        return _standing(mirror, updates, must_move)
    return _judge(answer.exit, _flags(answer.stdout, updates), answer.stderr)


@dataclass(frozen=True, slots=True)
class _Line:
    ref: str
    flag: str
    summary: str


def _flags(stdout: bytes, updates: Sequence[RefUpdate]) -> list[_Line]:
    names = {u.ref for u in updates}
    lines: list[_Line] = []
    for line in stdout.decode("utf-8", "replace").splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and len(fields[0]) == 1:
            ref = fields[1].partition(":")[2]
            if ref in names:
                lines.append(_Line(ref, fields[0], fields[2]))
    return lines if {line.ref for line in lines} == names else []


def _judge(exit_code: int, lines: list[_Line], stderr: str) -> PushResult:
    """A clear answer needs a line for every ref. `[remote failure]` and a missing report stay unclear."""
    if not lines:
        return Unclear("no_report")
    refused = [line for line in lines if line.flag == "!"]
    if not refused and exit_code == 0:
        return UpToDate() if all(line.flag == "=" for line in lines) else Pushed()
    if not refused or any(not line.summary.startswith(("[rejected]", "[remote rejected]")) for line in refused):
        return Unclear("no_report")
    words = _remote_words(stderr)
    ruled = any(_RULE.search(line.summary) for line in refused)  # then the others fail only because all or none move
    if not ruled and any(_RACE.search(f"{line.summary}\n{words}") for line in refused if line.summary.startswith("[remote")):
        return Unclear("remote_race")
    at_fault = [line for line in refused if "atomic" not in line.summary] or refused
    refs = tuple(line.ref for line in at_fault)
    if any("stale info" in line.summary for line in at_fault):
        return Refused(RefusalKind.STALE, refs, at_fault[0].summary)
    message = words or at_fault[0].summary
    kind = RefusalKind.RULE if _RULE.search(f"{message} {at_fault[0].summary}") else RefusalKind.OTHER
    return Refused(kind, refs, message)


def _remote_words(stderr: str) -> str:
    lines = [line.removeprefix("remote:").strip() for line in stderr.splitlines() if line.startswith("remote:")]
    return "\n".join(line for line in lines if line)[:_MESSAGE_MAX]


def _standing(mirror: Mirror, updates: Sequence[RefUpdate], must_move: str | None) -> PushResult:
    """The guard stopped the push before anything was sent: tell a stale lease from a branch that is there already."""
    update = next(u for u in updates if u.ref == must_move)
    try:
        found = mirror.ls_remote([update.ref]).get(update.ref)
    except Unavailable:
        found = None
    if found is not None and found == update.new:
        return UpToDate()
    return Refused(RefusalKind.STALE, (update.ref,), "the branch is not where this push expected it")
