"""Removes nodes that return their operand unchanged."""

from __future__ import annotations

from treadle.dtypes import DType
from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes, is_static
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep, uniform


class SimplifyIdentities:
    """%y = mul(%x, 1); %z = transpose(%y) perm=(0, 1); %w = relu(%z)  ->  %w = relu(%x)"""

    name = "simplify_identities"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def identity(node: Node, edit: Edit) -> Value | None:
    """identity(x) -> x"""
    return node.inputs[0]


def same_shape(node: Node, edit: Edit) -> Value | None:
    """expand(x: [2, 3], ...): [2, 3] -> x, and so for reshape, tile and others that only shape."""
    operand = node.operand(0)
    return operand if equal_shapes(operand.shape, node.output.shape) else None


def whole_slice(node: Node, edit: Edit) -> Value | None:
    """slice(x) whose result has the shape of x, steps forward -> x"""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if steps is not None and (steps.data is None or (steps.data < 0).any()):
        return None
    return same_shape(node, edit)


def pad_nothing(node: Node, edit: Edit) -> Value | None:
    """pad(x, 0) -> x"""
    return node.inputs[0] if uniform(node.inputs[1]) == 0 else None


def keep_axes(node: Node, edit: Edit) -> Value | None:
    """transpose(x) perm=(0, 1, 2) -> x"""
    perm = node.attrs["perm"]
    return node.inputs[0] if perm is not None and tuple(perm) == tuple(range(len(perm))) else None


def same_dtype(node: Node, edit: Edit) -> Value | None:
    """cast(x: f32) to=f32 -> x"""
    operand = node.operand(0)
    return operand if operand.dtype == node.attrs["to"] else None


def cast_through_wider(node: Node, edit: Edit) -> Value | None:
    """cast(cast(x: f32) to=f64) to=f32 -> cast(x) to=f32"""
    inner = produced_by(node.inputs[0], "cast")
    if inner is None:
        return None
    source = inner.operand(0)
    if source.dtype is None or not _holds(inner.attrs["to"], source.dtype):
        return None
    return edit.add("cast", [source], {"to": node.attrs["to"]})


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if wide == narrow:
        return True
    if wide.is_float and narrow.is_float:
        return wide.size > narrow.size
    if narrow.kind == "bool":
        return wide.is_integer or wide.is_float
    if wide.is_integer and narrow.is_integer:
        return wide.size > narrow.size and (wide.kind == "int" or narrow.kind == "uint")
    return wide.is_float and narrow.is_integer and wide.size > narrow.size


def lone_concat(node: Node, edit: Edit) -> Value | None:
    """concat(x, e: [0]) -> x, and an operand without elements is dropped from any concat"""
    filled = [value for value in node.inputs if value is not None and value.shape is not None and not _is_empty(value)]
    if len(node.inputs) == 1:
        return node.inputs[0]
    if node.output.shape is None or not filled or len(filled) == len(node.inputs):
        return None
    return filled[0] if len(filled) == 1 else edit.add("concat", filled, node.attrs)


def _is_empty(value: Value) -> bool:
    return value.shape is not None and is_static(value.shape) and any(equals(dim, 0) for dim in value.shape)


def add_zero(node: Node, edit: Edit) -> Value | None:
    """add(x, 0) -> x. Of floats only under fast math: -0 + 0 is +0."""
    if edit.math == "exact" and node.output.known_dtype.is_float:
        return None
    return _neutral(node, 0, (1, 0))


def subtract_zero(node: Node, edit: Edit) -> Value | None:
    """sub(x, 0) -> x"""
    return _neutral(node, 0, (1,))


def multiply_one(node: Node, edit: Edit) -> Value | None:
    """mul(x, 1) -> x"""
    return _neutral(node, 1, (1, 0))


def divide_one(node: Node, edit: Edit) -> Value | None:
    """div(x, 1) -> x; pow(x, 1) -> x"""
    return _neutral(node, 1, (1,))


def and_true(node: Node, edit: Edit) -> Value | None:
    """and(x, true) -> x"""
    return _neutral(node, True, (1, 0))


def or_false(node: Node, edit: Edit) -> Value | None:
    """or(x, false) -> x"""
    return _neutral(node, False, (1, 0))


def _neutral(node: Node, neutral: float, sides: tuple[int, ...]) -> Value | None:
    """The other operand, if the one on one of `sides` is the neutral element throughout and shapes stay."""
    for side in sides:
        constant, other = node.inputs[side], node.inputs[1 - side]
        if other is None or not equal_shapes(other.shape, node.output.shape):
            continue
        if uniform(constant) == neutral:
            return other
    return None


_RULES: Rules = {
    "identity": (identity,),
    "expand": (same_shape,),
    "tile": (same_shape,),
    "reshape": (same_shape,),
    "flatten": (same_shape,),
    "squeeze": (same_shape,),
    "unsqueeze": (same_shape,),
    "slice": (whole_slice,),
    "pad": (pad_nothing,),
    "transpose": (keep_axes,),
    "cast": (same_dtype, cast_through_wider),
    "concat": (lone_concat,),
    "add": (add_zero,),
    "sub": (subtract_zero,),
    "mul": (multiply_one,),
    "div": (divide_one,),
    "pow": (divide_one,),
    "and": (and_true,),
    "or": (or_false,),
}
