"""concat: each operand is copied into the result, or its producer writes it there directly; or it is there already."""

from __future__ import annotations

from treadle.graph.dim import divides, equals
from treadle.graph.graph import Graph
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements, strides_of
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import Axis, copy_call
from treadle.plan.call import Call


def can_concat_blocked(shapes: list[StaticShape], block: int, axis: int = 1) -> bool:
    """Whether blocked tensors of logical `shapes` can be joined on `axis`: along the channels, every operand
    but the last must fill its blocks."""
    return axis != 1 or all(divides(block, shape[1]) for shape in shapes[:-1])


def image_stride(value: Value, ctx: LowerContext, *, alone: bool) -> int:
    """Elements from one image of the blocked `value` to the next, in the memory that its producer writes.

    Where the only reader concatenates channels, that is the memory of the reader's result, and the reader needs no call
    for `value`; but not if `value` must have memory of its own (`alone`).
    """
    if alone or not is_enabled("concat_in_place") or not _may_live_in(value, ctx):
        return _image_elements(value)
    (node,) = value.users
    if node.op != "concat" or not _joins_blocks(node):
        return _image_elements(value)
    ctx.in_place.add(value)
    return _image_elements(node.output)


def lower_concat(node: Node, ctx: LowerContext) -> list[Call] | None:
    """At most a copy an operand; None for mixed layouts, or blocks that operands do not fill."""
    operands, y, axis = _operands(node), node.output, _axis(node)
    if not _has_kernel(node):
        return None
    physical = physical_shape(y.static_shape, y.layout)
    strides = strides_of(physical)
    in_one_piece = equals(elements(physical[:axis]), 1)
    calls: list[Call] = []
    start = 0
    for number, value in enumerate(operands):
        shape = physical_shape(value.static_shape, value.layout)
        if number == 0 and is_appended(ctx.graph, y):
            pass
        elif value in ctx.in_place or (in_one_piece and _may_live_in(value, ctx)):
            ctx.alias(value, y, start * y.known_dtype.size)
        elif not equals(elements(shape), 0):
            axes = [Axis(*numbers) for numbers in zip(shape, strides, strides_of(shape), strict=True)]
            calls.append(copy_call(node, ctx, y, value, axes, target_start=start))
        start += shape[axis] * strides[axis]
    return calls


def is_appended(graph: Graph, value: Value) -> bool:
    """Whether `value` is an output whose memory the caller gives, with the first operand of its concatenation in it."""
    node = value.producer
    if node is None or node.op != "concat" or not node.attrs.get("appends"):
        return False
    return node.inputs[0] in graph.inputs and graph.is_output(value)


def _image_elements(value: Value) -> int:
    return elements(physical_shape(value.static_shape, value.layout)[1:])


def _operands(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _axis(node: Node) -> int:
    axis: int = node.attrs["axis"]
    return axis + (len(node.output.static_shape) if axis < 0 else 0)


def _has_kernel(node: Node) -> bool:
    operands, y, axis = _operands(node), node.output, _axis(node)
    if y.known_dtype.kind == "string" or any(value.layout != y.layout for value in operands):
        return False
    return y.layout is None or can_concat_blocked([v.static_shape for v in operands], y.layout.block, axis)


def _joins_blocks(node: Node) -> bool:
    return node.output.layout is not None and _axis(node) == 1 and _has_kernel(node)


def _may_live_in(value: Value, ctx: LowerContext) -> bool:
    """Whether the producer of `value` may write straight into the result of its reader.

    A value with several readers has memory of its own: otherwise they would have to wait for all that is written there.
    """
    return value.producer is not None and value not in ctx.aliases and ctx.graph.has_one_use(value)
