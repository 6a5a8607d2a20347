"""Queries LLVM for a description of this machine. Imports no other module, so that a child process starts quickly."""

from __future__ import annotations

import json
from typing import NamedTuple


class Host(NamedTuple):
    """LLVM's description of the machine: the triple of this process, the CPU's name, and which features the CPU has."""

    triple: str
    cpu: str
    features: dict[str, bool]

    def text(self) -> str:
        """Returns the description as JSON, the form in which it is stored and printed by the child process."""
        return json.dumps(self)


def parse_host(text: str | bytes) -> Host:
    """Parses what `Host.text` returns."""
    return Host(*json.loads(text))


def query_llvm() -> Host:
    """Loads LLVM and returns its description of this machine."""
    from llvmlite import binding

    features = {str(name): bool(has) for name, has in binding.get_host_cpu_features().items()}
    return Host(binding.get_process_triple(), binding.get_host_cpu_name(), features)
