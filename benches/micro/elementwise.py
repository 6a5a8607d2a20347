"""Elementwise, reduction and normalisation kernels on one core: time, elements/ns, and share of copy bandwidth."""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benches.micro.calls import KERNEL, aligned
from treadle import dtypes
from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.graph.layout import physical_shape
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.table import LOWERINGS
from treadle.plan.target import Target

Case = tuple[str, str, Sequence[tuple[int, ...]], tuple[int, ...], dict[str, Any]]

CASES: list[Case] = [
    *((op, op, [(n,)], (n,), {}) for op in ("relu", "exp", "log", "tanh", "sigmoid", "erf", "softplus", "sin")
      for n in (16_384, 4_000_000)),
    ("add", "add", [(16_384,), (16_384,)], (16_384,), {}),
    ("add", "add", [(4_000_000,), (4_000_000,)], (4_000_000,), {}),
    ("add, bias by column", "add", [(4096, 1024), (1024,)], (4096, 1024), {}),
    ("add, bias by channel", "add", [(64, 256, 14, 14), (256, 1, 1)], (64, 256, 14, 14), {}),
    ("sum of all", "reduce_sum", [(4_000_000,)], (), {"axes": None, "keepdims": False}),
    ("sum of rows", "reduce_sum", [(4096, 1024)], (4096,), {"axes": (1,), "keepdims": False}),
    ("sum of columns", "reduce_sum", [(4096, 1024)], (1024,), {"axes": (0,), "keepdims": False}),
    ("max of rows", "reduce_max", [(4096, 1024)], (4096,), {"axes": (1,), "keepdims": False}),
    ("mean of planes", "reduce_mean", [(16, 512, 7, 7)], (16, 512, 1, 1), {"axes": (2, 3), "keepdims": True}),
    *((f"softmax of {n}", "softmax", [(rows, n)], (rows, n), {"axis": 1})
      for rows, n in ((16384, 10), (2048, 128), (512, 1000), (4, 100_000))),
    ("softmax across", "softmax", [(16, 21, 4096)], (16, 21, 4096), {"axis": 1}),
    *((f"layer norm of {n}", "layer_norm", [(rows, n), (n,), (n,)], (rows, n), {"axis": 1, "epsilon": 1e-5})
      for rows, n in ((2048, 128), (512, 768), (64, 8192))),
    ("rms norm of 4096", "rms_norm", [(128, 4096), (4096,)], (128, 4096), {"axis": 1, "epsilon": 1e-5}),
    ("group norm", "group_norm", [(4, 64, 32, 32), (64,), (64,)], (4, 64, 32, 32), {"epsilon": 1e-5, "groups": 8}),
]  # fmt: skip


def prepare(case: Case, target: Target) -> tuple[Callable[[], None], int, float] | None:
    """Returns (run once, elements, bytes moved) for a case; None if it has no kernel."""
    _, op, shapes, out_shape, attrs = case
    graph = Graph()
    inputs = [graph.input(f"x{i}", dtypes.f32, shape) for i, shape in enumerate(shapes)]
    output = graph.value("y", dtypes.f32, out_shape)
    node = graph.add(op, inputs, attrs, outputs=[output])
    graph.outputs = [output]
    ctx = LowerContext(graph, target)
    lowering = LOWERINGS.get(op)
    calls = lowering(node, ctx) if lowering else None
    if calls is None:
        return None
    memory: dict[Value, np.ndarray[Any, Any]] = {}
    rng = np.random.default_rng(0)

    def place(value: Value) -> int:
        if value not in memory:
            shape = physical_shape(value.static_shape, value.layout)
            data = rng.uniform(0.1, 3.0, shape).astype(value.known_dtype.numpy) if value.data is None else value.data
            memory[value] = aligned(shape, data.dtype)
            memory[value][...] = data
        return memory[value].ctypes.data

    specs = {call.spec for call in calls if call.spec is not None}
    library = jit.Library([(spec, jit.compile_kernel(spec, target)) for spec in specs])
    runs = []  # keeps the memory and the library alive, which the kernels use
    for call in calls:
        assert call.spec is not None
        values = (*call.writes, *call.reads)
        pointers = (ctypes.c_void_p * len(values))(*(place(v) + call.offsets.get(i, 0) for i, v in enumerate(values)))
        args = (ctypes.c_int64 * max(1, len(call.packed_args)))(*call.packed_args)
        scratch = np.zeros(call.scratch + 64, np.uint8)
        kernel = KERNEL(library.addresses[call.spec])
        runs.append((kernel, pointers, args, scratch, call.chunks, (library, memory)))

    def run() -> None:
        for kernel, pointers, args, scratch, chunks, _ in runs:
            for chunk in range(chunks):
                kernel(ctypes.addressof(pointers), ctypes.addressof(args), chunk, scratch.ctypes.data)

    elements = max(int(np.prod(shape)) for shape in shapes)
    moved = sum(value.nbytes for value in memory.values())
    return run, elements, float(moved)


def best_ns(run: Callable[[], None], rounds: int) -> float:
    """Returns the shortest of `rounds` timings, each long enough for the clock."""
    begin = time.perf_counter_ns()
    run()
    once = max(1, time.perf_counter_ns() - begin)
    turns = max(1, int(2e6 / once))
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(turns):
            run()
        best = min(best, (time.perf_counter_ns() - begin) / turns)
    return best


def copy_bandwidth(nbytes: float) -> float:
    """Returns the bytes read and written per ns by a copy that moves `nbytes` in total."""
    source = np.ones(max(1024, int(nbytes / 8)), np.float32)
    copy = np.empty_like(source)
    return 2 * source.nbytes / best_ns(lambda: np.copyto(copy, source), 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", default=targets.best_isa(), choices=targets.available_isas())
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    target = targets.for_isa(options.isa)
    print(f"{'case':24} {'shape':>22} {'us':>9} {'elements/ns':>12} {'GB/s':>7} {'% of copy':>10}")
    for case in CASES:
        if options.only not in case[0]:
            continue
        prepared = prepare(case, target)
        shape = "x".join(map(str, case[2][0]))
        if prepared is None:
            print(f"{case[0]:24} {shape:>22} no kernel")
            continue
        run, elements, moved = prepared
        ns = best_ns(run, options.rounds)
        share = moved / ns / copy_bandwidth(moved) * 100
        print(f"{case[0]:24} {shape:>22} {ns / 1e3:9.1f} {elements / ns:12.2f} {moved / ns:7.1f} {share:10.0f}")


if __name__ == "__main__":
    main()
