"""This machine in LLVM's words. Imports nothing else of treadle, so that a process may be started to ask."""

from __future__ import annotations

import json
from typing import NamedTuple


class Host(NamedTuple):
    """The triple of this process, LLVM's name of the CPU, and which of LLVM's features it has."""

    triple: str
    cpu: str
    features: dict[str, bool]

    def text(self) -> str:
        """As it is kept on disk, and told by another process."""
        return json.dumps(self)


def parsed(text: str | bytes) -> Host:
    """The Host of such a text."""
    return Host(*json.loads(text))


def asked() -> Host:
    """What LLVM says; this loads it."""
    from llvmlite import binding

    features = {str(name): bool(has) for name, has in binding.get_host_cpu_features().items()}
    return Host(binding.get_process_triple(), binding.get_host_cpu_name(), features)
