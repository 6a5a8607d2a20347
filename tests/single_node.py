"""Runs one node through its kernel and through its NumPy reference, on any target and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.kernel_runner import run_graph
from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, Layout, physical_shape
from treadle.graph.value import Value
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


def to_physical(array: Array, layout: Layout) -> Array:
    """`array` as memory in `layout`; spare lanes hold NaN, or ones in integers."""
    if layout is None:
        return array
    n, blocks, *spatial, block = physical_shape(array.shape, layout)
    padded = np.full((n, blocks * block, *spatial), np.nan if array.dtype.kind == "f" else 1, array.dtype)
    padded[:, : array.shape[1]] = array
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, blocks, block, *spatial), 2, -1))


def to_logical(array: Array, shape: tuple[int, ...], layout: Layout) -> Array:
    """The tensor of logical `shape` that the memory `array` holds in `layout`."""
    if layout is None:
        return array.reshape(shape)
    n, blocks, *spatial, block = physical_shape(shape, layout)
    moved = np.moveaxis(array.reshape(n, blocks, *spatial, block), -1, 2)
    return moved.reshape(n, blocks * block, *spatial)[:, : shape[1]]


class SingleNode:
    """A graph of one node. Operands given in `constants` (by index) are constants, the rest inputs."""

    def __init__(
        self,
        op: str,
        arrays: Sequence[Array | None],
        attrs: dict[str, Any] | None = None,
        *,
        constants: Sequence[int] = (),
        layouts: tuple[Layout, Layout] = (None, None),
        outputs: int = 1,
    ) -> None:
        self.arrays, self.attrs = list(arrays), dict(attrs or {})
        self.input_layout, self.output_layout = layouts
        self.graph = Graph()
        infos = [
            None if a is None else Info(dtypes.from_numpy(a.dtype), a.shape, a if i in constants else None)
            for i, a in enumerate(arrays)
        ]
        operands: list[Value | None] = []
        self.given: dict[str, Array] = {}
        for i, array in enumerate(arrays):
            if array is None:
                operands.append(None)
            elif i in constants:
                operands.append(self.graph.constant(array))
            else:
                layout = self.input_layout if array.ndim >= 2 else None
                value = self.graph.input(f"x{i}", dtypes.from_numpy(array.dtype), array.shape)
                value.layout = layout
                self.given[value.name] = to_physical(array, layout)
                operands.append(value)
        self.results = OPS[op].infer(self.attrs, infos, outputs)
        node = self.graph.add(op, operands, self.attrs, outputs=outputs)
        for value, info in zip(node.outputs, self.results, strict=True):
            value.dtype, value.shape, value.layout = info.dtype, info.shape, self.output_layout
        self.graph.outputs = list(node.outputs)
        self.op = op

    def expected(self) -> list[Array]:
        """What the NumPy reference gives."""
        evaluate = OPS[self.op].evaluate
        if evaluate is None:
            return list(self.arrays[:1])
        return evaluate(self.attrs, self.arrays)  # type: ignore[arg-type]

    def run(self, target: Target | None = None, *, reverse_chunks: bool = False, guard: int = 64) -> list[Array]:
        """What the kernels give, as logical tensors."""
        found = run_graph(self.graph, self.given, target=target, reverse_chunks=reverse_chunks, guard=guard)
        return [to_logical(found[v.name], v.static_shape, v.layout) for v in self.graph.outputs]

    def check(self, target: Target | None = None, tolerance: float = 0.0) -> None:
        """The kernels agree with the reference, and give the same bits with chunks in reverse and memory unaligned."""
        expected, found = self.expected(), self.run(target)
        for want, got in zip(expected, found, strict=True):
            assert got.dtype == want.dtype
            if tolerance:
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, want)
        for forward, backward in zip(found, self.run(target, reverse_chunks=True, guard=72), strict=True):
            assert forward.tobytes() == backward.tobytes()


def blocked(target: Target) -> Blocked:
    """The blocked layout of f32 tensors that suits `target`."""
    return Blocked(target.lanes(dtypes.f32))
