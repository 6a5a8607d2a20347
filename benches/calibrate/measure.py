"""The figures of a machine model, measured."""

from __future__ import annotations

import os
import time

import numpy as np

import treadle
from benches.calibrate.kernels import Kernels
from benches.micro.overhead import Case, best_us, dependent_alternating
from treadle import _native
from treadle.plan.target import Target

Figures = dict[str, float]

_L3_ROOM = 4
"""What is read from L3 has so many times the size of L2: more than L2 holds, and less than others may leave of L3."""

_LEAST_MEMORY_BYTES = 256 << 20
"""What is read from memory has so many bytes at least, and twice those of L3."""

_TURNS = 30_000
"""Of the loop that is one chunk of a step that two workers share: some ten microseconds. A helper comes before the
caller has done both, and a clock that changes by a few percent hides little of the waiting."""

_AT_ONCE = 3
"""Runs right after each other that are timed; one before them does not count, since CPUs are slow after a pause."""

_PAUSE = 400 * _native.DEFAULT_SPIN_US / 1e6
"""Seconds, 20 ms, after which workers sleep. They spin for DEFAULT_SPIN_US before; other programs may delay them."""

DOUBTFUL = {"line_ns": 2e3, "wake_ns": 5e4, "unpark_ns": 5e5}
"""Larger figures show that the threads did not run at the same time."""


def measure(target: Target, budget: float, rounds: int) -> Figures:
    """Returns all figures: least times of several attempts, and bandwidths and shares that follow from them.

    Args:
        target: The CPU.
        budget: Seconds for each figure of a kernel.
        rounds: How often sessions are timed.
    """
    kernels, cpus = Kernels(target, budget), len(os.sched_getaffinity(0))
    vector, near = target.vector_bytes, _L3_ROOM * target.l2
    far = max(_LEAST_MEMORY_BYTES, 2 * target.l3)
    read, moved = vector / kernels.loads(far), 2 * vector / kernels.copies(far)
    fma = min(kernels.multiply_adds(sums) for sums in range(8, target.registers - 2, 2))
    found = {
        "fma_ns": fma,
        "fma_latency_ns": kernels.multiply_adds(1),
        "load_ns": kernels.loads(target.l1 // 4),
        "store_ns": kernels.stores(target.l1 // 4),
        "l2_latency_ns": kernels.chase(target.l2 // 2),
        "l3_latency_ns": kernels.chase(near),
        "memory_latency_ns": kernels.chase(far),
        "l3_share": _share_of_l3(kernels, target),
        "l2_bytes_per_ns": vector / kernels.loads(target.l2 // 2),
        "l3_bytes_per_ns": 2 * vector / kernels.copies(near),
        "l3_shared_bytes_per_ns": 2 * vector / kernels.shared_copies(near, cpus),
        "memory_bytes_per_ns": moved,
        "memory_shared_bytes_per_ns": 2 * vector / kernels.shared_copies(far, cpus),
        "stream_share": min(1.0, read / moved),
        "call_ns": _call_ns(rounds),
        "chunk_ns": kernels.draws(),
        "line_ns": kernels.passes(),
    }
    found["wake_ns"], found["unpark_ns"] = _wake_ns(kernels, rounds)
    return found


def _share_of_l3(kernels: Kernels, target: Target) -> float:
    """The largest half, quarter and so on of L3 from which loads take less than twice as long as from four times L2."""
    near, share = kernels.chase(_L3_ROOM * target.l2), 1.0
    while share * target.l3 > 2 * _L3_ROOM * target.l2 and kernels.chase(int(share * target.l3)) > 2 * near:
        share /= 2
    return share


def _call_ns(rounds: int) -> float:
    """The time of a call of a kernel that does next to nothing, in a chain of them on one thread."""
    case = dependent_alternating()
    session = treadle.Session(case.model)
    _check(session, case)
    (least,) = best_us(session, case.feed, (1,), rounds)
    return least * 1e3 / case.nodes


def _wake_ns(kernels: Kernels, rounds: int) -> tuple[float, float]:
    """The time that half of a step waits for a worker that spins, and for one that sleeps.

    Both are the time of a run of two equal chunks on two workers, less that of one chunk: of a run right after another
    one, and of one after `_PAUSE`, in which workers fall asleep.
    """
    team = _native.Team("calibrate", 2, 2)
    chunk, chunks = (_program(kernels.spin(), count) for count in (1, 2))
    alone = spinning = parked = float("inf")
    for _ in range(rounds):
        alone = min(alone, *[_run(chunk, team) for _ in range(_AT_ONCE + 1)][1:])
        spinning = min(spinning, *[_run(chunks, team) for _ in range(_AT_ONCE + 1)][1:])
        time.sleep(_PAUSE)
        parked = min(parked, _run(chunks, team))
    return spinning - alone, parked - alone


def _program(kernel: int, chunks: int) -> _native.Program:
    """A program of one step of so many chunks, whose estimated time is long enough to share."""
    return _native.Program([(kernel, [], [_TURNS], chunks, 1e6)], [(0, 1, 1.0, False)], [[]], [], 0, 0)


def _check(session: treadle.Session, case: Case) -> None:
    outputs = session.run(case.feed).values()
    for got, wanted in zip(outputs, case.wanted, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def _run(program: _native.Program, team: _native.Team) -> float:
    begin = time.perf_counter_ns()
    program.run(team, [])
    return float(time.perf_counter_ns() - begin)


def text_of(figures: Figures, isa: str, what: str, source: str) -> str:
    """Returns the file of a machine model with measured figures, as `treadle.plan.machine` reads it."""
    lines = [
        f"# What the cost model assumes of {what}.",
        "# Times in ns, bandwidths in bytes a ns of one core; README.md says what each figure means.",
        f'isa = "{isa}"',
        "",
        "[sources]",
        f'measured = "{source}"',
        "",
        "[figures]",
        *(f'{name} = [{float(f"{number:.4g}")}, "measured"]' for name, number in figures.items()),
    ]
    return "\n".join(lines) + "\n"
