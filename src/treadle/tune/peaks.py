"""What one core, and all of them together, do at most on this machine: measured where it is asked for."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from treadle.codegen.jit import LlvmLinkedCode, compile_ir
from treadle.codegen.target import detect
from treadle.dtypes import f32
from treadle.plan.target import Target

_SUMS = 16
"""Independent sums: they hide the latency of multiply-adds of every CPU, and fit the registers of those with AVX2."""

_TURNS = 20_000
_ATTEMPTS = 4
_BYTES = 32 << 20
"""Copied by each thread: more than caches hold."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most that multiply-adds and memory give.

    Attributes:
        flops_per_ns: f32 operations a ns of one core; a multiply-add counts as two.
        core_bytes_per_ns: Bytes a ns that one core reads from memory and writes there, while others rest.
        bytes_per_ns: The same for all cores together.
    """

    flops_per_ns: float
    core_bytes_per_ns: float
    bytes_per_ns: float


@lru_cache(maxsize=8)
def measure_peaks(threads: int) -> Peaks:
    """Return the peaks of this machine with so many `threads`; it takes about a quarter of a second, once a process.

    Each is the best of several attempts, so that other programs disturb it little.
    """
    target = detect()
    code = LlvmLinkedCode([("treadle_peak", compile_ir(_text(target), target))])
    multiply = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(code.addresses["treadle_peak"])
    best = min(_together([lambda: multiply(_TURNS)]) for _ in range(_ATTEMPTS))
    flops = 2.0 * target.lanes(f32) * _SUMS * _TURNS / (1e9 * best)
    pairs = [(np.ones(_BYTES, np.uint8), np.ones(_BYTES, np.uint8)) for _ in range(threads)]
    copies = [partial(np.copyto, *pair) for pair in pairs]
    moved = 2.0 * _BYTES / 1e9
    alone = moved / min(_together(copies[:1]) for _ in range(_ATTEMPTS))
    together = threads * moved / min(_together(copies) for _ in range(_ATTEMPTS))
    return Peaks(flops, alone, max(alone, together))


def _text(target: Target) -> str:
    lanes = target.lanes(f32)
    vector = f"<{lanes} x float>"
    name = f"llvm.fma.v{lanes}f32"
    sums = range(_SUMS)
    step = [f"  %n{i} = call {vector} @{name}({vector} %v, {vector} %v, {vector} %s{i})" for i in sums]
    if target.isa == "generic":  # it has no such instruction
        products = [f"  %p{i} = fmul {vector} %v, %s{i}" for i in sums]
        step = [*products, *(f"  %n{i} = fadd {vector} %p{i}, %v" for i in sums)]
    total = [f"  %t0 = fadd {vector} %n0, %n1"]
    total += [f"  %t{i} = fadd {vector} %t{i - 1}, %n{i + 1}" for i in range(1, _SUMS - 1)]
    return "\n".join(
        [
            f"declare {vector} @{name}({vector}, {vector}, {vector})",
            "define float @treadle_peak(i64 %turns) {",
            "entry:",
            "  %one = sitofp i64 %turns to float",
            f"  %v = insertelement {vector} zeroinitializer, float %one, i32 0",
            "  br label %turn",
            "turn:",
            "  %i = phi i64 [0, %entry], [%next, %turn]",
            *(f"  %s{i} = phi {vector} [zeroinitializer, %entry], [%n{i}, %turn]" for i in sums),
            *step,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %turns",
            "  br i1 %more, label %turn, label %end",
            "end:",
            *total,
            f"  %r = extractelement {vector} %t{_SUMS - 2}, i32 0",
            "  ret float %r",
            "}",
        ]
    )


def _together(calls: Sequence[Callable[[], object]]) -> float:
    """Return the seconds from the common beginning of `calls`, each on a thread, to the end of the last one."""
    barrier = threading.Barrier(len(calls) + 1)
    ends: list[float] = []

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        call()
        ends.append(time.perf_counter())

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return max(ends) - start
