"""Free memory that a virtual machine's host has backed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

MOST_BYTES = 4 << 30
"""More than all engines of a benchmark use together."""


def back_free_memory() -> None:
    """Writes to free memory and frees it again, so that engines find memory that the host of this machine has backed.

    A host gives a virtual machine memory page by page, at the first write to each, which takes ten times as long as the
    kernel needs to clear it. Whichever engine grows would pay for that, and those that grow after it would not.
    """
    found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    available = 0 if found is None else int(found[1]) << 10
    np.ones(min(MOST_BYTES, available // 2), np.uint8)
