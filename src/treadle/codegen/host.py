"""What CPU this is: LLVM is asked once, and the answer kept on disk, as loading LLVM takes longer than a model."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from treadle import knobs
from treadle.codegen.cache import compiler_version, open_cache
from treadle.codegen.machine import Host, asked, parsed
from treadle.codegen.residence import shed_llvm
from treadle.runtime import interpreter

_CPU_INFO = Path("/proc/cpuinfo")
_TELLING = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU ", "Features")
"""Lines of /proc/cpuinfo that tell one CPU from another, and not one moment from another."""

_QUESTION = "from treadle.codegen.machine import asked; print(asked().text())"


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine that this process runs on."""
    key = _key()
    if key is None:
        return _asked_here()
    with open_cache() as cache:
        if cache is None:
            return _asked_here()
        kept = cache.load(key)
        if kept is not None:
            return parsed(kept)
        found = _asked_apart() or _asked_here()
        cache.store(key, found.text().encode())
        return found


def _asked_apart() -> Host | None:
    """What a process that ends then is told: what LLVM leaves in memory is a third of what a small model needs.

    None where LLVM is in memory already, and where no process should or can be started.
    """
    if "llvmlite.binding" in sys.modules or knobs.get("TREADLE_OUT_OF_PROCESS") == "off" or not interpreter.is_known():
        return None
    try:
        with interpreter.start(_QUESTION, answers=True) as process:
            answer = process.communicate()[0]
        return parsed(answer) if process.returncode == 0 else None
    except (OSError, ValueError):
        return None


def _asked_here() -> Host:
    found = asked()
    shed_llvm()
    return found


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
