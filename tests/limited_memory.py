"""A limit on the memory of this process, for child processes of tests."""

from __future__ import annotations

import resource
from pathlib import Path


def limit_memory(more: int) -> None:
    """Lets this process take `more` bytes of address space beyond what it has."""
    has = resource.getpagesize() * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (has + more, resource.getrlimit(resource.RLIMIT_AS)[1]))
