"""The header of a git bundle, read without git: which tips it carries, and which commits it builds on.

Format: gitformat-bundle(5), versions 2 and 3.
"""

import re
from dataclasses import dataclass

from pipeline.errors import Rejected
from pipeline.facts import Sha
from pipeline.refusals import Refusal

_SIGNATURES = (b"# v2 git bundle", b"# v3 git bundle")
_REFERENCE = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) (\S+)")
_PREREQUISITE = re.compile(rb"-([0-9a-f]{40}(?:[0-9a-f]{24})?)(?: .*)?")
LINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What a bundle says of itself: its tips by ref name, and the commits that the receiver must have."""

    tips: tuple[tuple[str, Sha], ...]
    prerequisites: tuple[Sha, ...]


def header(content: bytes) -> BundleHeader:
    """Read the header. Raises `Rejected(bundle_invalid)` for anything that is no bundle."""
    lines = content.split(b"\n", LINES_MAX + 1)
    if lines[0] not in _SIGNATURES:
        raise _invalid("it does not begin as one")
    tips: list[tuple[str, Sha]] = []
    prerequisites: list[Sha] = []
    for line in lines[1 : LINES_MAX + 1]:
        if not line:
            return BundleHeader(tuple(tips), tuple(prerequisites))
        if line.startswith(b"@"):
            if not line.startswith(b"@object-format="):
                raise _invalid("it asks for a capability that is not taken, such as a filter")
            continue
        if wanted := _PREREQUISITE.fullmatch(line):
            prerequisites.append(wanted.group(1).decode())
        elif found := _REFERENCE.fullmatch(line):
            tips.append((found.group(2).decode(errors="replace"), found.group(1).decode()))
        else:
            raise _invalid("its header has a line that is neither a tip nor a prerequisite")
    raise _invalid(f"its header does not end within {LINES_MAX} lines")


def _invalid(problem: str) -> Rejected:
    return Rejected(Refusal.BUNDLE_INVALID, {"problem": problem})
