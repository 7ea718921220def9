"""The header of a git bundle, read without git: which heads it carries, and which commits it builds on."""

import re
from dataclasses import dataclass

from pipeline.errors import Rejected
from pipeline.refusals import Refusal

HEADER_BYTES_MAX = 1024 * 1024
LINES_MAX = 10_000

_SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_SHA = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PACK = b"PACK"


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What a bundle says of itself: `heads` by full ref name, and the commits that the receiver must have already."""

    heads: dict[str, str]
    prerequisites: frozenset[str]


def bundle_header(content: bytes) -> BundleHeader:
    """The header. Raises `Rejected(bundle_invalid)` for bytes that are no bundle, or whose header has no end."""
    signature = next((known for known in _SIGNATURES if content.startswith(known)), None)
    if signature is None:
        raise _invalid("it does not begin as one")
    head, end, pack = content[len(signature) : HEADER_BYTES_MAX].partition(b"\n\n")
    if not end or not pack.startswith(_PACK):
        raise _invalid("its header has no end")
    lines = head.split(b"\n")
    if len(lines) > LINES_MAX:
        raise _invalid("its header is too long")
    heads: dict[str, str] = {}
    needs: set[str] = set()
    for line in lines:
        _read(line, heads, needs, capabilities=signature == _SIGNATURES[1])
    if not heads:
        raise _invalid("it carries no head")
    return BundleHeader(heads, frozenset(needs))


def _read(line: bytes, heads: dict[str, str], needs: set[str], *, capabilities: bool) -> None:
    if line.startswith(b"@") and capabilities:
        return
    sha, _, name = line.removeprefix(b"-").partition(b" ")
    if not _SHA.fullmatch(sha):
        raise _invalid("a line of its header names no commit")
    if line.startswith(b"-"):
        needs.add(sha.decode())
    elif name:
        heads[name.decode(errors="replace")] = sha.decode()
    else:
        raise _invalid("a head has no name")


def _invalid(problem: str) -> Rejected:
    return Rejected(Refusal.BUNDLE_INVALID, {"problem": problem})
