"""Detects the target: the instruction set, registers and caches of this machine."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from treadle import knobs
from treadle.codegen.cpu import cpu_id, machine_for
from treadle.codegen.host import host
from treadle.codegen.llvm_host import Host
from treadle.errors import KnobError
from treadle.plan.machine import digest_of
from treadle.plan.target import Target

_FEATURES = {
    "x86_64": {
        "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"),
        "avx2": ("avx2", "fma"),
    },
}
_SHAPE = {"avx512": (64, 32), "avx2": (32, 16)}
_EARLIER = (
    "skylake-avx512",
    "cascadelake",
    "cooperlake",
    "icelake-client",
    "icelake-server",
    "tigerlake",
    "rocketlake",
)
"""CPUs with AVX-512 and without float16 arithmetic, by LLVM's names."""
_SYSTEM_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def detect() -> Target:
    """Returns the target of this machine, with the instruction set of the knob TREADLE_ISA if that is set.

    Raises KnobError if the CPU lacks that instruction set.
    """
    return for_isa(knobs.get("TREADLE_ISA") or best_isa())


def best_isa() -> str:
    """Returns the name of the best instruction set of the CPU."""
    return available_isas()[0]


def available_isas() -> tuple[str, ...]:
    """Returns the instruction sets that generators and this CPU support, best first, at most TREADLE_ISA."""
    isas = _isas_of_the_cpu()
    most = knobs.get("TREADLE_ISA")
    return isas[isas.index(most) :] if most in isas else isas


@lru_cache(maxsize=1)
def _isas_of_the_cpu() -> tuple[str, ...]:
    tiers = _FEATURES.get(host().triple.split("-")[0], {})
    supported = [isa for isa, needs in tiers.items() if all(host().features.get(need, False) for need in needs)]
    return (*supported, "generic")


def for_isa(isa: str) -> Target:
    """Returns the target for `isa` on this CPU.

    Raises KnobError if the CPU lacks it, MachineFileError if TREADLE_MACHINE names a file that cannot be read.
    """
    isas = _isas_of_the_cpu()
    if isa not in isas:
        raise KnobError(f"TREADLE_ISA={isa}: this CPU offers only {', '.join(isas)}; unset TREADLE_ISA")
    caches = knobs.get("TREADLE_CACHES") or tuple(cache_bytes(level) for level in (1, 2, 3))
    model = knobs.get("TREADLE_MACHINE") if isa == best_isa() else None
    model = model or machine_for(cpu_id(), isa, isas[0])
    return replace(_target(isa, caches), model=model, digest=digest_of(model))


@lru_cache(maxsize=8)
def _target(isa: str, caches: tuple[int, int, int]) -> Target:
    l1, l2, l3 = caches
    triple = host().triple
    if isa == "generic":
        arm = triple.startswith(("aarch64", "arm64"))
        return Target(isa, triple, "generic" if arm else "x86-64", "", 16, 32 if arm else 16, l1, l2, l3)
    vector_bytes, registers = _SHAPE[isa]
    features = dict(host().features)
    if isa != "avx512":
        for name in list(features):
            if name.startswith(("avx512", "evex", "avx10")):
                features[name] = False
    else:
        features["prefer-256-bit"] = False
    flags = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))
    return Target(isa, triple, scheduling_cpu(host()), flags, vector_bytes, registers, l1, l2, l3)


def scheduling_cpu(machine: Host) -> str:
    """Returns the CPU whose latencies LLVM should assume.

    Hypervisors may report the model number of an earlier CPU: then the instruction sets tell more than LLVM's name.
    """
    is_later = machine.cpu in _EARLIER and machine.features.get("avx512fp16", False)
    return "sapphirerapids" if is_later else machine.cpu


@lru_cache(maxsize=3)
def cache_bytes(level: int) -> int:
    """Returns the size of CPU 0's data cache of `level` in bytes; a typical size if unknown."""
    typical = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}[level]
    try:
        for folder in sorted(_SYSTEM_CACHES.iterdir()):
            if not folder.name.startswith("index") or (folder / "type").read_text().strip() == "Instruction":
                continue
            if int((folder / "level").read_text()) == level:
                text = (folder / "size").read_text().strip()
                return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
    except (OSError, ValueError):
        return typical
    return typical
