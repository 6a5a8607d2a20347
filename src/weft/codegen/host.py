"""What CPU this is, in LLVM's words; asked of LLVM once and then kept on disk, as loading LLVM takes longer than a model."""

from __future__ import annotations

import hashlib
import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from weft import knobs
from weft.codegen.cache import compiler_version, open_cache
from weft.codegen.residence import shed_llvm
from weft.runtime import interpreter

_CPU_INFO = Path("/proc/cpuinfo")
_TELLING = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU ", "Features")
"""Lines of /proc/cpuinfo that tell one CPU from another, and not one moment from another."""


_QUESTION = """import json; from llvmlite import binding; features = dict(binding.get_host_cpu_features().items())
print(json.dumps([binding.get_process_triple(), binding.get_host_cpu_name(), features]))"""


class Host(NamedTuple):
    """The triple of this process, LLVM's name of the CPU, and which of LLVM's features it has."""

    triple: str
    cpu: str
    features: dict[str, bool]


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine that this process runs on."""
    key = _key()
    if key is None:
        return _ask()
    with open_cache() as cache:
        kept = None if cache is None else _read(cache.load(key))
        if kept is not None:
            return kept
        found = _ask() if cache is None else _ask_apart() or _ask()
        if cache is not None:
            cache.store(key, json.dumps([found.triple, found.cpu, found.features]).encode())
        return found


def _ask_apart() -> Host | None:
    """As `_ask`, by a process that ends then: what LLVM leaves in memory is a third of what a small model needs.

    None where LLVM is in memory already, and where no process should or can be started.
    """
    if "llvmlite.binding" in sys.modules or knobs.get("WEFT_COMPILE_APART") == "off" or not interpreter.is_known():
        return None
    try:
        with interpreter.start(_QUESTION, answers=True) as process:
            answer = process.communicate()[0]
        return _read(answer) if process.returncode == 0 else None
    except (OSError, ValueError):
        return None


def _ask() -> Host:
    from llvmlite import binding

    features = {str(name): bool(has) for name, has in binding.get_host_cpu_features().items()}
    found = Host(binding.get_process_triple(), binding.get_host_cpu_name(), features)
    shed_llvm()
    return found


def _read(content: bytes | None) -> Host | None:
    return None if content is None else Host(*json.loads(content))


def _key() -> str | None:
    """A name that changes with the CPU and with LLVM; None where the system does not describe the CPU."""
    try:
        with _CPU_INFO.open(encoding="utf-8", errors="replace") as file:
            lines = []
            for line in file:
                if not line.strip():
                    break
                if line.startswith(_TELLING):
                    lines.append(line)
    except OSError:
        return None
    text = "".join([*compiler_version(), *lines])
    return hashlib.sha256(f"host\n{text}".encode()).hexdigest() if lines else None
