"""How much memory a process took at most."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_memory() -> int:
    """Return the most bytes that this program had in memory.

    Where Linux tells it, not by getrusage: that counts what the process was before it became this program, too.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+)", status.read_text())):
        return int(found[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
