"""Identifies the CPU and chooses its machine model: by what it is, never by a measurement.

So equal CPUs choose equal kernels.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from treadle.plan.machine import GENERIC

_CPU_INFO = Path("/proc/cpuinfo")


class CpuId(NamedTuple):
    """What CPUID says: the vendor, the family and the model, each with its extension added."""

    vendor: str
    family: int
    model: int


class Kind(NamedTuple):
    """CPUs with one machine model, which is of `isa`: those of a vendor and family with one of `models`."""

    name: str
    isa: str
    vendor: str
    family: int
    models: Container[int]

    def includes(self, cpu: CpuId) -> bool:
        """Returns whether `cpu` is one of them."""
        return (self.vendor, self.family) == (cpu.vendor, cpu.family) and cpu.model in self.models


KINDS = (
    Kind("zen4", "avx512", "AuthenticAMD", 25, {*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0)}),
    Kind("zen5", "avx512", "AuthenticAMD", 26, range(256)),
    Kind("emerald-rapids", "avx512", "GenuineIntel", 6, {207}),
)
"""In order of preference: the first that fits is taken.

`zen3` is not among them: docs/measurements/cost-model.md says why.
"""


@lru_cache(maxsize=1)
def cpu_id() -> CpuId | None:
    """Returns the identification of CPU 0; None where the system does not tell."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return parse_cpu_info(text)


def parse_cpu_info(text: str) -> CpuId | None:
    """Returns the identification of the first CPU that /proc/cpuinfo, here `text`, describes; None if it lacks one."""
    found: dict[str, str] = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        found[name.strip()] = value.strip()
    try:
        return CpuId(found["vendor_id"], int(found["cpu family"]), int(found["model"]))
    except (KeyError, ValueError):
        return None


def machine_for(cpu: CpuId | None, isa: str, best: str) -> str:
    """Returns the name of the machine model.

    Args:
        cpu: The CPU; None if that is unknown.
        isa: The instruction set that code is generated for.
        best: The best one of the CPU. With a lesser `isa`, and where a virtual machine hides the one that the CPU's
            model is of, it is the generic one of `isa`: figures of vectors are those of one instruction set.
    """
    if cpu is not None and isa == best:
        for kind in KINDS:
            if kind.isa == isa and kind.includes(cpu):
                return kind.name
    return GENERIC[isa]
