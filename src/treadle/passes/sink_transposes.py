"""Moves transposes that put channels last below the ops that follow, to where the next convolution takes them back."""

from __future__ import annotations

import numpy as np

from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape, StaticShape, equal_shapes, sample_elements
from treadle.graph.value import Value
from treadle.ops.elementwise import SCALAR_OPS
from treadle.ops.reduce import REDUCTIONS
from treadle.ops.sizes import known_sizes
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep

Perm = tuple[int, ...]

SMALL = 8
"""An operand is transposed for a transpose to sink only if it has at most 1 / SMALL of the elements of the result."""


class SinkTransposes:
    """%t = transpose(%c) perm=(0, 2, 3, 1); %y = relu(%t); %z = transpose(%y) perm=(0, 3, 1, 2)
    ->  %r = relu(%c); %y = transpose(%r) perm=(0, 2, 3, 1); %z = transpose(%y) perm=(0, 3, 1, 2)

    The transposes that then meet cancel (SimplifyTransposes). So a network written with channels last keeps them
    second, as convolution kernels have them, from its first convolution to the last. Only permutations that move the
    second axis to the end sink, and only past ops that work on either order.
    """

    name = "sink_transposes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def elementwise(node: Node, edit: Edit) -> Value | None:
    """relu(transpose(x)) -> transpose(relu(x)); add(transpose(x), bias: [C]) -> transpose(add(x, bias: [C, 1, 1]))"""
    out = node.output.shape
    perm = next((p for p in (sinking(edit.graph, value, out) for value in node.inputs) if p is not None), None)
    if perm is None or out is None:
        return None
    operands = [None if value is None else _inner(value, perm, node.output.static_shape) for value in node.inputs]
    if any(operand is None for operand in operands):
        return None
    inputs = [operand.placed(edit, perm) for operand in operands if operand is not None]
    return edit.add("transpose", [edit.again(inputs)[0]], {"perm": perm})


def reduction(node: Node, edit: Edit) -> Value | None:
    """reduce_mean(transpose(x: [N, C, H, W])) axes=(1, 2) -> reduce_mean(x) axes=(2, 3)"""
    perm = last_channels(node.inputs[0])
    axes = node.attrs["axes"]
    if perm is None or axes is None or not axes:
        return None
    rank = len(perm)
    over = sorted(perm[axis % rank] for axis in axes)
    inner = edit.add(node.op, [_source(node.inputs[0])], {**node.attrs, "axes": tuple(over)})
    if node.attrs["keepdims"]:
        return edit.add("transpose", [inner], {"perm": perm})
    kept = [axis for axis in perm if axis not in over]
    order = tuple(sorted(kept).index(axis) for axis in kept)
    return inner if order == tuple(range(len(order))) else edit.add("transpose", [inner], {"perm": order})


def joined(node: Node, edit: Edit) -> Value | None:
    """concat(transpose(x), transpose(y)) axis=3 -> transpose(concat(x, y) axis=1)"""
    perms = [last_channels(value) for value in node.inputs]
    perm = perms[0]
    if perm is None or any(other != perm for other in perms):
        return None
    if not all(_only_sinks(edit.graph, value) for value in node.inputs if value is not None):
        return None
    attrs = {**node.attrs, "axis": perm[node.attrs["axis"] % len(perm)]}
    inner = edit.add("concat", [_source(value) for value in node.inputs], attrs)
    return edit.add("transpose", [inner], {"perm": perm})


def padded(node: Node, edit: Edit) -> Value | None:
    """pad(transpose(x), pads of N, H, W, C) -> transpose(pad(x, pads of N, C, H, W))"""
    value = node.inputs[0]
    perm = last_channels(value)
    pads = known_sizes(node.inputs[1])
    if perm is None or pads is None or (len(node.inputs) > 3 and node.inputs[3] is not None):
        return None
    if value is None or not _only_sinks(edit.graph, value):
        return None
    moved = tuple(pads[side * len(perm) + axis] for side in (0, 1) for axis in inverse(perm))
    inner = edit.add("pad", [_source(value), edit.sizes(moved, f"{node.name}.pads"), *node.inputs[2:]], node.attrs)
    return edit.add("transpose", [inner], {"perm": perm})


def last_channels(value: Value | None) -> Perm | None:
    """The permutation that makes `value` if it is one that moves the second axis to the end.

    A reshape of [N, C, 1, 1] to [N, 1, 1, C] is one.
    """
    node = produced_by(value, "transpose", "reshape")
    if node is None or value is None or value.shape is None or node.operand(0).shape is None:
        return None
    rank = len(value.shape)
    perm = (0, *range(2, rank), 1)
    if rank < 4:
        return None
    if node.op == "transpose":
        return perm if node.attrs["perm"] is not None and tuple(node.attrs["perm"]) == perm else None
    source = node.operand(0).static_shape
    pixels = all(equals(size, 1) for size in source[2:])
    moved = (*source[:1], *source[2:], *source[1:2])
    return perm if pixels and equal_shapes(value.shape, moved) and not equal_shapes(moved, source) else None


def sinking(graph: Graph, value: Value | None, shape: Shape | None) -> Perm | None:
    """The permutation that makes `value`, of this shape, if it is to sink past what reads it."""
    perm = last_channels(value)
    if perm is None or value is None or not equal_shapes(value.shape, shape):
        return None
    return perm if _only_sinks(graph, value) else None


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`."""
    return tuple(int(axis) for axis in np.argsort(perm))


class _Operand:
    """One operand before the transpose: itself, or `value` reshaped or transposed."""

    def __init__(self, value: Value, shape: StaticShape | None = None, *, turned: bool = False) -> None:
        self._value = value
        self._shape = shape
        self._turned = turned

    def placed(self, edit: Edit, perm: Perm) -> Value:
        if self._turned and self._value.data is not None:
            data = self._value.data.reshape((1,) * (len(perm) - self._value.data.ndim) + self._value.data.shape)
            return edit.constant(np.ascontiguousarray(data.transpose(inverse(perm))))
        if self._turned:
            return edit.add("transpose", [self._value], {"perm": inverse(perm)})
        if self._shape is None:
            return self._value
        if self._value.data is not None:
            return edit.constant(np.ascontiguousarray(self._value.data.reshape(self._shape)))
        return edit.reshape(self._value, self._shape)


def _inner(value: Value, perm: Perm, out: StaticShape) -> _Operand | None:
    """How `value` is read before the transpose by `perm` of a result of shape `out`; None if it would cost too much."""
    if last_channels(value) == perm:
        return _Operand(_source(value))
    if value.shape is None:
        return None
    shape = value.static_shape
    aligned = (1,) * (len(out) - len(shape)) + shape
    if all(equals(size, 1) for size in shape) and len(shape) <= len(out):
        return _Operand(value, () if shape else None)
    if all(equals(size, 1) for size in aligned[1:-1]):
        channels = (aligned[-1], *aligned[1:-1])
        return _Operand(value, channels if equals(aligned[0], 1) else (aligned[0], *channels))
    small = len(shape) == len(out) and sample_elements(shape) * SMALL <= sample_elements(out)
    return _Operand(value, turned=True) if small or (value.is_constant and len(shape) <= len(out)) else None


def _source(value: Value | None) -> Value:
    node = produced_by(value, "transpose", "reshape")
    assert node is not None
    return node.operand(0)


def _only_sinks(graph: Graph, value: Value) -> bool:
    """Whether everything that reads the transposed `value` takes it further down, or undoes it."""
    if len(value.users) == 1:
        return not graph.is_output(value)
    return not graph.is_output(value) and all(
        user.op in _RULES or user.op in ("transpose", "reshape") for user in value.users
    )


_RULES: Rules = {
    **dict.fromkeys((*SCALAR_OPS, "cast"), (elementwise,)),
    **dict.fromkeys(REDUCTIONS, (reduction,)),
    "concat": (joined,),
    "pad": (padded,),
}
