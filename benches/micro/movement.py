"""Kernels that move data, in GB/s of memory read and written, beside what numpy.copyto reaches.

Each row is one node, run again and again on one core. Usage: python -m benches.micro.movement [NAME...]
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benches.micro.calls import KERNEL
from treadle import dtypes
from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, Layout, physical_shape
from treadle.graph.value import Value
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.table import LOWERINGS

_POOL = {"strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1), "ceil_mode": False}
_NO_CHUNK = 1 << 30
"""Chunks from this number on are empty: their time is the cost of calls from Python."""

Operand = tuple[int, ...] | np.ndarray[Any, Any]


def _numbers(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def cases() -> dict[str, tuple[str, list[Operand], dict[str, Any], Layout, Layout]]:
    """name -> (op, operands: a shape or a constant, attributes, layout before, layout after)."""
    c16 = Blocked(16)
    window = {**_POOL, "kernel": (3, 3)}
    ids = np.random.default_rng(0).integers(0, 30000, (8, 128))
    return {
        "reorder to blocked 64x56x56": ("reorder", [(1, 64, 56, 56)], {}, None, c16),
        "reorder to plain 64x56x56": ("reorder", [(1, 64, 56, 56)], {}, c16, None),
        "reorder to blocked 3x224x224": ("reorder", [(1, 3, 224, 224)], {}, None, c16),
        "reorder to plain 2048x7x7": ("reorder", [(1, 2048, 7, 7)], {}, c16, None),
        "max_pool 3x3/2 blocked": ("max_pool", [(1, 64, 112, 112)], window, c16, c16),
        "max_pool 3x3/2 plain": ("max_pool", [(1, 64, 112, 112)], window, None, None),
        "max_pool 3x3/1 blocked": ("max_pool", [(1, 64, 56, 56)], {**window, "strides": (1, 1)}, c16, c16),
        "avg_pool 3x3/2 blocked": ("avg_pool", [(1, 64, 112, 112)], {**window, "count_include_pad": False}, c16, c16),
        "avg_pool 3x3/2 plain": ("avg_pool", [(1, 64, 112, 112)], {**window, "count_include_pad": False}, None, None),
        "transpose heads": ("transpose", [(1, 128, 12, 64)], {"perm": (0, 2, 1, 3)}, None, None),
        "transpose 1024x1024": ("transpose", [(1024, 1024)], {"perm": (1, 0)}, None, None),
        "transpose NHWC to NCHW 3": ("transpose", [(1, 224, 224, 3)], {"perm": (0, 3, 1, 2)}, None, None),
        "transpose NCHW to NHWC 64": ("transpose", [(1, 64, 56, 56)], {"perm": (0, 2, 3, 1)}, None, None),
        "slice every second": (
            "slice",
            [(64, 4096), _numbers(0), _numbers(4096), _numbers(1), _numbers(2)],
            {},
            None,
            None,
        ),
        "slice columns": ("slice", [(512, 1024), _numbers(0), _numbers(1000), _numbers(1)], {}, None, None),
        "concat channels": ("concat", [(1, 64, 56, 56), (1, 128, 56, 56)], {"axis": 1}, None, None),
        "expand rows": ("expand", [(1, 1024), _numbers(512, 1024)], {}, None, None),
        "pad images": ("pad", [(1, 64, 56, 56), _numbers(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": "constant"}, None, None),
        "embedding 768": ("gather", [(30522, 768), ids], {"axis": 0}, None, None),
        "embedding bags 64": (
            "gather_reduce",
            [(100_000, 64), ids.reshape(32, 32)],
            {"how": "reduce_sum", "axes": (1,), "keepdims": False},
            None,
            None,
        ),
    }


def runner(name: str) -> tuple[Callable[..., None], int]:
    """Returns a function that runs the case once on this thread, and the bytes that it reads and writes."""
    op, operands, attrs, before, after = cases()[name]
    graph, target = Graph(), targets.detect()
    infos: list[Info | None] = []
    values: list[Value] = []
    for operand in operands:
        if isinstance(operand, tuple):
            value = graph.input("x", dtypes.f32, operand)
            value.layout = before
            infos.append(Info(dtypes.f32, operand))
        else:
            value = graph.constant(operand)
            infos.append(Info(value.known_dtype, operand.shape, operand))
        values.append(value)
    node = graph.add(op, values, attrs)
    (result,) = OPS[op].infer(attrs, infos, 1)
    node.output.dtype, node.output.shape, node.output.layout = result.dtype, result.shape, after
    ctx = LowerContext(graph, target)
    calls = LOWERINGS[op](node, ctx)
    assert calls, f"{name} has no kernel"
    specs = {call.spec for call in calls if call.spec}
    library = jit.Library([(spec, jit.compile_kernel(spec, target)) for spec in specs])
    memory: dict[Value, np.ndarray[Any, Any]] = {}

    def address(value: Value) -> int:
        if value not in memory:
            shape = physical_shape(value.static_shape, value.layout)
            memory[value] = np.zeros(shape, value.known_dtype.numpy) if value.data is None else value.data.copy()
        return memory[value].ctypes.data

    prepared = []  # keeps the memory and the library alive, which the kernels use
    for call in calls:
        assert call.spec is not None
        pointers = (ctypes.c_void_p * 8)(
            *(address(v) + call.offsets.get(i, 0) for i, v in enumerate((*call.writes, *call.reads)))
        )
        args = (ctypes.c_int64 * max(1, len(call.packed_args)))(*call.packed_args)
        prepared.append(
            (
                KERNEL(library.addresses[call.spec]),
                pointers,
                args,
                call.chunks,
                np.zeros(call.scratch + 64, np.uint8),
                (library, memory),
            )
        )

    def run(first: int = 0) -> None:
        for kernel, pointers, args, chunks, scratch, _ in prepared:
            for chunk in range(first, first + chunks):
                kernel(ctypes.addressof(pointers), ctypes.addressof(args), chunk, scratch.ctypes.data)

    moved = sum(nbytes(v) for v in (*node.outputs, *(v for v in values if v.data is None)))
    if op == "gather":
        moved = 2 * nbytes(node.output)
    if op == "gather_reduce":
        moved = nbytes(node.output) * (1 + values[1].static_shape[1])
    return run, moved


def best_seconds(run: Callable[[], object]) -> float:
    """Returns the seconds of the shortest of many runs."""
    end, best = time.perf_counter() + 0.3, 1e9
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    wanted = sys.argv[1:]
    print(f"{'kernel':32} {'us':>9} {'GB/s':>8}  copy of as many bytes, GB/s")
    for name in cases():
        if wanted and not any(part in name for part in wanted):
            continue
        run, moved = runner(name)
        seconds = best_seconds(run) - best_seconds(partial(run, _NO_CHUNK))
        source = np.zeros(moved // 2, np.uint8)
        target = np.empty_like(source)
        copy = best_seconds(partial(np.copyto, target, source))
        print(f"{name:32} {seconds * 1e6:9.1f} {moved / seconds / 1e9:8.1f}  {moved / copy / 1e9:8.1f}")


if __name__ == "__main__":
    main()
