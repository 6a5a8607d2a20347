"""Sessions come and go: what they took comes back. `scripts/stress` does it ten thousand times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read from Linux's /proc")
def test_sessions_made_and_dropped_leave_nothing_behind() -> None:
    """
    Two hundred sessions while two clients keep running another: threads and memory are back to base.
    """
    subprocess.run([sys.executable, "-m", "tests.models.cycles", "200"], check=True, timeout=100)
