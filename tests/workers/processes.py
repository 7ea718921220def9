"""Looking at processes that are not our children."""

import os
import select


def ends(pid: int, within_s: float = 5) -> bool:
    """Whether a process has ended, or ends within that time; one that nobody has reaped yet has ended as well."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)
