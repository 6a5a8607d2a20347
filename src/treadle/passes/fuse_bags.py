"""Fuses a gather of rows and the reduction of each bag of them."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes, may_be_empty, normalize_axis
from treadle.graph.value import Value
from treadle.ops.reduce import REDUCTIONS, reduced_axes
from treadle.passes.base import PassContext
from treadle.passes.lower.gather_reduce import bag_step
from treadle.passes.match import Edit, Rules, join_names, produced_by, sweep


class FuseBags:
    """%r = gather(%x, %i) axis=0; %y = reduce_sum(%r) axes=(1,)  ->  %y = gather_reduce(%x, %i) how=reduce_sum
    axes=(1,)

    Any reduction, over neighbouring axes of the indices, of which nothing else reads the rows. They may be multiplied
    by weights before, one a row: %p = mul(%r, %w), which become a third operand; and what is reduced may be a reshape
    of either, that has whole rows. Bits stay as they are.
    """

    name = "fuse_bags"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def bag(node: Node, edit: Edit) -> Value | None:
    """reduce(reshape(gather(x, indices) * weights)) -> gather_reduce(x, indices, weights)"""
    if len(node.inputs) != 1 or node.attrs["axes"] is None:
        return None
    reduced = node.operand(0)
    made = [node]
    rows = _without(edit, reduced, "reshape", made)
    product, weights = _without(edit, rows, "mul", made), None
    if product is not rows:
        rows, weights = _factors(made[-1])
    gather = produced_by(rows, "gather") if edit.graph.has_one_use(rows) else None
    if gather is None or normalize_axis(gather.attrs["axis"], len(gather.operand(0).static_shape)):
        return None
    x, indices = gather.operand(0), gather.operand(1)
    if weights is not None and not _are_weights(weights, rows, len(indices.static_shape)):
        return None
    rank = len(reduced.static_shape) - len(x.static_shape) + 1
    axes = reduced_axes(node.attrs["axes"], len(reduced.static_shape))
    if not axes or axes[-1] >= rank or not _has_whole_rows(reduced, x, rank):
        return None
    if not equal_shapes(reduced.shape, rows.shape):
        shape = reduced.static_shape[:rank]
        indices, weights = _shaped(edit, indices, shape), weights and _shaped(edit, weights, shape)
    if bag_step(node.op, x, indices, axes) is None:
        return None
    attrs = {"how": node.op, "axes": axes, "keepdims": node.attrs["keepdims"]}
    return edit.add("gather_reduce", [x, indices, weights], attrs, name=join_names([gather, *reversed(made)]))


def _without(edit: Edit, value: Value, op: str, made: list[Node]) -> Value:
    """The first operand of the node of `op` that makes `value` for one reader, and is noted in `made`; else `value`."""
    node = produced_by(value, op) if edit.graph.has_one_use(value) else None
    if node is None:
        return value
    made.append(node)
    return node.operand(0)


def _factors(product: Node) -> tuple[Value, Value]:
    """(rows, weights): the gathered operand of its shape first."""
    left, right = product.operand(0), product.operand(1)
    swapped = produced_by(left, "gather") is None or not equal_shapes(left.shape, product.output.shape)
    return (right, left) if swapped else (left, right)


def _has_whole_rows(reduced: Value, x: Value, rank: int) -> bool:
    """Whether `reduced` has rows of `x`, all of its elements, along the axes after the first `rank`."""
    return not may_be_empty(x.static_shape) and equal_shapes(reduced.static_shape[rank:], x.static_shape[1:])


def _are_weights(weights: Value, rows: Value, rank: int) -> bool:
    """Whether `weights` have one number for each of the rows, which `rank` axes number."""
    shape = weights.static_shape
    return equal_shapes(shape, (*rows.static_shape[:rank], *[1] * (len(rows.static_shape) - rank)))


def _shaped(edit: Edit, value: Value, shape: StaticShape) -> Value:
    """`value` in the `shape` of the indices."""
    if value.data is not None:
        return edit.constant(value.data.reshape(shape), name=value.name)
    return edit.reshape(value, shape)


_RULES: Rules = dict.fromkeys(REDUCTIONS, (bag,))
