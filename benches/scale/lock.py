"""How long the scheduler's lock is held when a worker goes from one op to the next, by the number of workers in the
team.

    python -m benches.scale.lock [--workers 1,2,4,8,16,32,64] [--rounds 50]

A chain of ops of two empty chunks each is run by a team of so many workers, which sleep. Each op is too short to share,
so that the caller does all of it, but the run is not: it takes the lock for each op, and looks through the other
workers. The time of a run is compared with that of the same chain on one worker, where no lock is taken; what an op
takes longer is the time for which it holds the lock, and that of its counters. `treadle.tune.simulate` assumes the
straight line through them.
"""

from __future__ import annotations

import time

import numpy as np

from benches.harness.report import machine, numbers, parser, print_header, print_row
from treadle import _native
from treadle.codegen import jit
from treadle.codegen.target import detect

_OPS = 1000

_SHORT_NS = 1500.0
"""Estimated for an op: half of it is less than what pays for another worker, and all of them are worth sharing."""

_LONG_NS = 1e7
"""Estimated for a chunk that a team is woken for."""

_NOTHING = """
define i32 @scale_nothing(ptr %pointers, ptr %args, i64 %chunk, ptr %scratch) {
  ret i32 0
}
"""


def chain(kernel: int) -> _native.Program:
    """Returns a program of ops that wait for each other."""
    step: tuple[int, list[tuple[int, int]], list[int], int, float] = kernel, [], [], 2, _SHORT_NS
    steps = [step] * _OPS
    tasks = [(number, 1, float(_OPS - number), False) for number in range(_OPS)]
    after = [[number + 1] if number + 1 < _OPS else [] for number in range(_OPS)]
    return _native.Program(steps, tasks, after, [], 0, 0)


def wide(kernel: int, chunks: int) -> _native.Program:
    """Returns a program whose only op is worth a worker for each chunk."""
    return _native.Program([(kernel, [], [], chunks, _LONG_NS * chunks)], [(0, 1, 1.0, False)], [[]], [], 0, 0)


def per_op_ns(team: _native.Team, program: _native.Program, rounds: int) -> float:
    """Returns the least time of a run of the chain, for each op."""
    least = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        program.run(team, [])
        least = min(least, time.perf_counter_ns() - begin)
    return least / _OPS


def main() -> None:
    """Measures and prints."""
    options = parser(__doc__, rounds=50)
    options.add_argument("--workers", type=numbers, default=numbers("1,2,4,8,16,32,64"))
    arguments = options.parse_args()
    code = jit.LlvmLinkedCode([("scale_nothing", jit.compile_ir(_NOTHING, detect()))])
    kernel = code.addresses["scale_nothing"]
    program = chain(kernel)
    found: dict[int, float] = {}
    for workers in arguments.workers:
        team = _native.Team("scale", workers, workers, 0.0)
        starting = wide(kernel, workers)
        while workers > 1 and team.status()["workers"] < workers - 1:
            starting.run(team, [])
        found[workers] = per_op_ns(team, program, arguments.rounds)
        team.close()
    print(machine())
    print_header("workers", "ns an op", "more than on one")
    for workers, ns in found.items():
        print_row([workers, f"{ns:.0f}", f"{ns - found.get(1, 0.0):.0f}"])
    shared = {workers: ns - found[1] for workers, ns in found.items() if workers > 1 and 1 in found}
    if len(shared) > 1:
        each, first = np.polyfit(list(shared), list(shared.values()), 1)
        print(f"the lock is held for {first:.0f} ns, and {each:.2f} ns for each worker")


if __name__ == "__main__":
    main()
