"""Runs a graph through lowering and generated kernels, one call after another, without the thread runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.codegen import jit
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.graph.layout import physical_shape
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.table import LOWERINGS
from treadle.plan.call import Call
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_cache: dict[tuple[str, Target], bytes] = {}


class NoKernelError(Exception):
    """A node of the graph has no kernel."""


class StatusError(Exception):
    """A kernel returned a status other than 0."""


def object_code(spec: Any, target: Target) -> bytes:
    """Object code of the kernel, compiled once a test session."""
    key = (str(spec), target)
    if key not in _cache:
        _cache[key] = jit.compile_kernel(spec, target)
    return _cache[key]


def lower_graph(graph: Graph, target: Target, math: str = "fast") -> tuple[list[Call], LowerContext]:
    """The calls of every node of `graph`; raises NoKernelError where a node has no kernel."""
    ctx = LowerContext(graph, target, math)
    calls: list[Call] = []
    for node in graph.nodes:
        if ctx.is_done(node):
            continue
        lowering = LOWERINGS.get(node.op)
        lowered = lowering(node, ctx) if lowering else None
        if lowered is None:
            raise NoKernelError(f"{node.op} {node.name} with {[i.dtype if i else None for i in node.inputs]}")
        calls.extend(lowered)
    return calls, ctx


def run_graph(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    target: Target | None = None,
    reverse_chunks: bool = False,
    math: str = "fast",
    guard: int = 8192,
) -> dict[str, Array]:
    """The outputs of `graph` (static shapes and dtypes throughout) computed by generated kernels.

    The `guard` bytes before and after every buffer are checked for stray writes; outputs start as NaN bytes.
    """
    target = target or targets.detect()
    calls, ctx = lower_graph(graph, target, math)
    return run_calls(graph, calls, ctx, inputs, target=target, reverse_chunks=reverse_chunks, guard=guard)


def run_calls(
    graph: Graph,
    calls: Sequence[Call],
    ctx: LowerContext,
    inputs: Mapping[str, Array],
    *,
    target: Target,
    reverse_chunks: bool = False,
    guard: int = 8192,
) -> dict[str, Array]:
    """The outputs of `graph` computed by `calls`, which `lower_graph` made of it; see `run_graph`."""
    specs = {str(call.spec): call.spec for call in calls if call.spec is not None}
    library = jit.Library([(spec, object_code(spec, target)) for spec in specs.values()])
    memory: dict[Value, Array] = {}

    def place(value: Value) -> tuple[int, Array]:
        if value in ctx.aliases:
            base, offset = ctx.aliases[value]
            address, owner = place(base)
            return address + offset, owner
        if value not in memory:
            shape = physical_shape(value.static_shape, value.layout)
            size = int(np.prod(shape)) * value.known_dtype.size
            block = np.full(size + 2 * guard, 0xFF, np.uint8)
            if value.data is not None:
                block[guard : guard + size] = np.ascontiguousarray(value.data).reshape(-1).view(np.uint8)
            memory[value] = block
        return memory[value].ctypes.data + guard, memory[value]

    for value in graph.inputs:
        _, block = place(value)
        given = np.asarray(inputs[value.name], value.known_dtype.numpy, order="C")
        assert given.shape == physical_shape(value.static_shape, value.layout)
        block[guard : block.size - guard] = given.reshape(-1).view(np.uint8)
    for call in calls:
        assert call.spec is not None
        addresses = [place(value)[0] + call.offsets.get(i, 0) for i, value in enumerate((*call.writes, *call.reads))]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        args = (ctypes.c_int64 * max(1, len(call.packed_args)))(*call.packed_args)
        scratch = np.full(call.scratch + 2 * guard + 64, 0xFF, np.uint8)
        scratch_at = -(-(scratch.ctypes.data + guard) // 64) * 64
        kernel = _KERNEL(library.addresses[call.spec])
        order = range(call.chunks)
        for chunk in reversed(order) if reverse_chunks else order:
            status = kernel(ctypes.addressof(pointers), ctypes.addressof(args), chunk, scratch_at)
            if status:
                raise StatusError(f"{call.op} {call.node}: status {status}")
        end = scratch_at - scratch.ctypes.data + call.scratch
        assert (scratch[end:] == 0xFF).all(), f"{call.spec} wrote past its {call.scratch} bytes of scratch"
    for value, block in memory.items():
        intact = (block[:guard] == 0xFF).all() and (block[block.size - guard :] == 0xFF).all()
        assert intact, f"a kernel wrote outside %{value.name}"
    results: dict[str, Array] = {}
    for value in graph.outputs:
        address, owner = place(value)
        shape = physical_shape(value.static_shape, value.layout)
        start = address - owner.ctypes.data
        size = int(np.prod(shape)) * value.known_dtype.size
        results[value.name] = owner[start : start + size].copy().view(value.known_dtype.numpy).reshape(shape)
    return results


def without_vnni(target: Target) -> Target:
    """The same CPU without VNNI dot products."""
    features = target.features.replace("+avx512vnni", "-avx512vnni").replace("+avxvnni", "-avxvnni")
    return replace(target, features=features)
