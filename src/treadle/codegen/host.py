"""Stores LLVM's description of the CPU on disk, because loading LLVM takes longer than loading a compiled model."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from treadle import knobs
from treadle.codegen.cache import compiler_version, open_cache
from treadle.codegen.compile_process import ask_description
from treadle.codegen.llvm_host import Host, parse_host, query_llvm
from treadle.codegen.resident_memory import release_llvm_code
from treadle.runtime import interpreter

_CPU_INFO = Path("/proc/cpuinfo")
_IDENTIFYING_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU ", "Features")
"""Prefixes of the lines of /proc/cpuinfo that identify a CPU and do not change while it runs."""


@lru_cache(maxsize=1)
def host() -> Host:
    """Returns the description of the machine that this process runs on."""
    key = _key()
    if key is None:
        return _query_here()
    with open_cache() as cache:
        if cache is None:
            return _query_here()
        stored = cache.load(key)
        if stored is not None:
            return parse_host(stored)
        description = _query_out_of_process() or _query_here()
        cache.store(key, description.text().encode())
        return description


def _query_out_of_process() -> Host | None:
    """Queries LLVM in a child process, because LLVM's memory is a third of what a process with a small model needs.

    Returns None if LLVM is loaded already, or if no child may or can be started.
    """
    if "llvmlite.binding" in sys.modules or knobs.get("TREADLE_OUT_OF_PROCESS") == "off" or not interpreter.is_known():
        return None
    answer = ask_description()
    try:
        return None if answer is None else parse_host(answer)
    except ValueError:
        return None


def _query_here() -> Host:
    description = query_llvm()
    release_llvm_code()
    return description


def _key() -> str | None:
    """Returns the name under which the description is stored: a hash of the CPU's identity and LLVM's version.

    Returns None where the system does not describe the CPU.
    """
    try:
        with _CPU_INFO.open(encoding="utf-8", errors="replace") as file:
            lines = []
            for line in file:
                if not line.strip():
                    break
                if line.startswith(_IDENTIFYING_FIELDS):
                    lines.append(line)
    except OSError:
        return None
    text = "".join([*compiler_version(), *lines])
    return hashlib.sha256(f"host\n{text}".encode()).hexdigest() if lines else None
