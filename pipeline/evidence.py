"""Evidence as a value: what an executor hands in, checked for shape, with one digest.

Evidence is a claim. Its shape is checked here, its truth by the gate against the clone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline.canonical import Json, canonical_bytes, digest_bytes
from pipeline.errors import InvariantBroken, Rejected
from pipeline.facts import EvidenceKind, Sha
from pipeline.refusals import Refusal

EVIDENCE_SCHEMA = "mac.evidence.v1"
FILES_MAX = 20_000
RUNS_MAX = 200
EXCERPT_CHARS_MAX = 20_000
SUMMARY_CHARS_MAX = 20_000
SUMMARY_CHARS_MIN = 40
TOKENS_MAX = 2**53

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
# What git admits as a branch, and nothing that could be read as two refs or as an option.
_REF = re.compile(
    r"refs/heads/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|\Z)))[^\x00-\x20~^:?*\[\\\x7f/.]"
    r"[^\x00-\x20~^:?*\[\\\x7f]{0,199}(?<![/.])"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run of a command: when (milliseconds), how it ended, and the digest of its whole output.

    `dirty`: the worktree had changes after the run that were not of the commit.
    """

    argv: tuple[str, ...]
    exit: int
    started_at: int
    ended_at: int
    output_sha256: str
    output_excerpt: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """A change to the repository: the head and tree, the tip it was verified on, the files and runs it claims.

    `ref` names a branch that the executor pushed itself; None means that the commits came in a bundle.
    """

    digest: str
    head: Sha
    tree: Sha
    verified_base: Sha
    ref: str | None
    files: tuple[tuple[str, str], ...]
    runs: tuple[Run, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """A report: a substantive summary and no change."""

    digest: str
    summary: str


EvidenceValue: TypeAlias = RepositoryChange | OperatorResult


def evidence_digest(document: Mapping[str, Json]) -> str:
    """SHA-256 of the canonical JSON of the document, the identity of the evidence. Raises `Rejected(evidence_invalid)`
    for a document that has none: with fractions, text that is not Unicode, or nested too deep."""
    try:
        content = canonical_bytes(dict(document))
        content.decode()
    except (InvariantBroken, ValueError, RecursionError):
        raise invalid("evidence", "must be JSON of Unicode texts, whole numbers, lists and objects") from None
    return digest_bytes(content)


def parse(document: Mapping[str, Any]) -> EvidenceValue:
    """Read evidence. Raises `Rejected(evidence_invalid)` naming the first field that is wrong."""
    fields = _Fields(document, "")
    if fields.text("schema") != EVIDENCE_SCHEMA:
        raise invalid("schema", f"must be {EVIDENCE_SCHEMA}")
    kind = fields.text("kind")
    if kind == EvidenceKind.REPOSITORY_CHANGE.value:
        return _change(fields, document)
    if kind == EvidenceKind.OPERATOR_RESULT.value:
        return OperatorResult(evidence_digest(document), fields.text("summary", SUMMARY_CHARS_MAX))
    raise invalid("kind", "must be repository_change or operator_result")


def tokens_used(document: Mapping[str, Any]) -> int:
    """The tokens that the attempt used, in and out, by the executor's word; 0 where it says nothing. Raises
    `Rejected(evidence_invalid)` for a number that is none."""
    if "usage" not in document:
        return 0
    usage = _Fields(document["usage"], "usage.")
    return sum(usage.count(name) for name in ("input_tokens", "output_tokens") if name in document["usage"])


def invalid(field: str, problem: str) -> Rejected:
    """The refusal for one field."""
    return Rejected(Refusal.EVIDENCE_INVALID, {"field": field, "problem": problem})


def _change(fields: "_Fields", document: Mapping[str, Any]) -> RepositoryChange:
    ref = document.get("ref")
    if ref is not None and not (isinstance(ref, str) and _REF.fullmatch(ref)):
        raise invalid("ref", "must be a full ref below refs/heads/")
    return RepositoryChange(
        digest=evidence_digest(document),
        head=fields.match("head", _SHA),
        tree=fields.match("tree", _SHA),
        verified_base=fields.match("verified_base", _SHA),
        ref=ref,
        files=tuple(_file(entry, i) for i, entry in enumerate(fields.list("files", FILES_MAX))),
        runs=tuple(_run(entry, i) for i, entry in enumerate(fields.list("runs", RUNS_MAX))),
        summary=fields.text("summary", SUMMARY_CHARS_MAX),
    )


def _file(entry: Any, index: int) -> tuple[str, str]:
    fields = _Fields(entry, f"files[{index}].")
    return fields.text("status", 4), fields.text("path", 4096)


def _run(entry: Any, index: int) -> Run:
    fields = _Fields(entry, f"runs[{index}].")
    argv = tuple(fields.list("argv", 1000))
    if not argv or not all(isinstance(word, str) for word in argv):
        raise invalid(f"runs[{index}].argv", "must be a list of one or more texts")
    return Run(
        argv=argv,
        exit=fields.whole("exit"),
        started_at=fields.whole("started_at"),
        ended_at=fields.whole("ended_at"),
        output_sha256=fields.match("output_sha256", _DIGEST),
        output_excerpt=fields.text("output_excerpt", EXCERPT_CHARS_MAX, empty=True),
        dirty=fields.flag("dirty"),
    )


class _Fields:
    """A mapping read field by field; each refusal names the path of the field."""

    def __init__(self, document: Any, prefix: str) -> None:
        if not isinstance(document, Mapping):
            raise invalid(prefix.rstrip(".") or "evidence", "must be an object")
        self._document = document
        self._prefix = prefix

    def _get(self, name: str) -> Any:
        if name not in self._document:
            raise invalid(self._prefix + name, "is missing")
        return self._document[name]

    def text(self, name: str, chars_max: int = 200, *, empty: bool = False) -> str:
        value = self._get(name)
        if not isinstance(value, str) or len(value) > chars_max or not (value or empty):
            raise invalid(self._prefix + name, f"must be a text of 1 to {chars_max} characters")
        return value

    def match(self, name: str, pattern: re.Pattern[str]) -> str:
        value = self._get(name)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise invalid(self._prefix + name, "must be a whole hexadecimal digest")
        return value

    def whole(self, name: str) -> int:
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid(self._prefix + name, "must be a whole number")
        return value

    def count(self, name: str) -> int:
        value = self.whole(name)
        if not 0 <= value <= TOKENS_MAX:
            raise invalid(self._prefix + name, f"must be from 0 to {TOKENS_MAX}")
        return value

    def flag(self, name: str) -> bool:
        value = self._get(name)
        if not isinstance(value, bool):
            raise invalid(self._prefix + name, "must be true or false")
        return value

    def list(self, name: str, length_max: int) -> Sequence[Any]:
        value = self._get(name)
        if not isinstance(value, list) or len(value) > length_max:
            raise invalid(self._prefix + name, f"must be a list of at most {length_max}")
        return value
