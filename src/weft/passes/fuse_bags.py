"""Lets a reduction of rows that a gather picks read them where they are."""

from __future__ import annotations

from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.graph.shape import normalize_axis
from weft.graph.value import Value
from weft.ops.reduce import reduced_axes
from weft.passes.base import PassContext
from weft.passes.lower.gather_reduce import bag_step
from weft.passes.match import Edit, Rules, join_names, only_use, produced_by, sweep


class FuseBags:
    """%r = gather(%x, %i) axis=0; %y = reduce_sum(%r) axes=(1,)  ->  %y = gather_reduce(%x, %i) how=reduce_sum axes=(1,)

    Any reduction, over neighbouring axes of the indices, of which nothing else reads the rows. They may be multiplied by
    weights between, one a row: %p = mul(%r, %w), which become a third operand. Bits stay as they are.
    """

    name = "fuse_bags"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def bag(node: Node, edit: Edit) -> Value | None:
    """reduce(gather(x, indices) * weights) -> gather_reduce(x, indices, weights)"""
    rows, weights, fused = node.operand(0), None, [node]
    product = produced_by(rows, "mul")
    if product is not None and only_use(edit.graph, rows):
        left, right = product.operand(0), product.operand(1)
        swapped = produced_by(left, "gather") is None or left.shape != rows.shape
        rows, weights = (right, left) if swapped else (left, right)
        fused = [product, node]
    gather = produced_by(rows, "gather")
    if gather is None or not only_use(edit.graph, rows) or node.attrs.get("head") is not None or len(node.inputs) != 1:
        return None
    x, indices = gather.operand(0), gather.operand(1)
    rank = len(indices.static_shape)
    axes = reduced_axes(node.attrs["axes"], len(rows.static_shape))
    if normalize_axis(gather.attrs["axis"], len(x.static_shape)) or not axes or axes[-1] >= rank:
        return None
    if bag_step(node.op, x, indices, axes) is None or (weights is not None and not _are_weights(weights, rows, rank)):
        return None
    attrs = {"how": node.op, "axes": axes, "keepdims": node.attrs["keepdims"]}
    return edit.add("gather_reduce", [x, indices, weights], attrs, name=join_names([gather, *fused]))


def _are_weights(weights: Value, rows: Value, rank: int) -> bool:
    """Whether `weights` have one number for each of the rows, which `rank` axes number."""
    shape = weights.static_shape
    return shape[:rank] == rows.static_shape[:rank] and shape[rank:] == (1,) * (len(rows.static_shape) - rank)


_RULES: Rules = dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"), (bag,))
