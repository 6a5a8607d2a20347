"""Op cases: data that every way of running an op is tested with."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Array, Info


@dataclass(frozen=True, slots=True)
class Case:
    """One op on given operands (None: absent). Those in `constant_inputs` are constants of the graph.

    `onnx` is the same computation as an ONNX node, or None where ONNX has no such op.
    """

    id: str
    op: str
    attrs: dict[str, Any]
    inputs: tuple[Array | None, ...]
    constant_inputs: frozenset[int] = frozenset()
    outputs: int = 1
    onnx: OnnxCall | None = None


@dataclass(frozen=True, slots=True)
class OnnxCall:
    """A node for the `onnx` package's reference implementation; operands default to the case's."""

    op: str
    attrs: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Array | None, ...] | None = None


def graph_of(case: Case) -> tuple[Graph, dict[str, Array]]:
    """A graph of the case's node alone, with dtypes and shapes inferred, and its inputs by name."""
    graph = Graph(case.id)
    operands: list[Value | None] = []
    given: dict[str, Array] = {}
    infos: list[Info | None] = []
    for index, array in enumerate(case.inputs):
        if array is None:
            operands.append(None)
            infos.append(None)
            continue
        dtype = dtypes.from_numpy(array.dtype)
        if index in case.constant_inputs:
            operands.append(graph.constant(array, f"c{index}"))
            infos.append(Info(dtype, array.shape, array))
        else:
            operands.append(graph.input(f"x{index}", dtype, array.shape))
            given[f"x{index}"] = array
            infos.append(Info(dtype, array.shape))
    node = graph.add(case.op, operands, case.attrs, name=case.id, outputs=case.outputs)
    for value, info in zip(node.outputs, infer_node(node, infos), strict=True):
        value.dtype, value.shape = info.dtype, info.shape
    graph.outputs = list(node.outputs)
    return graph, given


def random(key: str) -> np.random.Generator:
    """Numbers that depend on `key` alone."""
    return np.random.default_rng(zlib.crc32(key.encode()))


def floats(key: str, *shape: int, dtype: Any = np.float32) -> Array:
    """Normally distributed numbers."""
    return random(f"{key}{shape}").standard_normal(shape).astype(dtype)


def integers(key: str, low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
    """Integers in [low, high)."""
    return random(f"{key}{shape}").integers(low, high, shape).astype(dtype)


def i64(*numbers: int) -> Array:
    """A vector of int64."""
    return np.array(numbers, np.int64)
