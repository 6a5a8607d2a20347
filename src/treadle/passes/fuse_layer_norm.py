"""Recognises layer normalisation written out in primitive ops, as older exporters do."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import certain_broadcast, equal_shapes
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, number, produced_by, sweep


class FuseLayerNorm:
    """%d = sub(%x, reduce_mean(%x)); %s = sqrt(add(reduce_mean(mul(%d, %d)), eps)); %n = div(%d, %s)
    ->  %n = layer_norm(%x, _, _);  mul(%n, scale) and add(%n, bias) then become its operands

    Only under fast math: the fused kernel sums in another order.
    """

    name = "fuse_layer_norm"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return context.math == "fast" and sweep(graph, context, _RULES)


def divided(node: Node, edit: Edit) -> Value | None:
    """div(d, sqrt(v + eps)) -> layer_norm(x), where d = x - mean(x) and v = mean(d * d)"""
    root = produced_by(node.inputs[1], "sqrt")
    return None if root is None else _normalised(node.operand(0), root.operand(0), edit)


def multiplied(node: Node, edit: Edit) -> Value | None:
    """mul(d, rsqrt(v + eps)) or mul(d, reciprocal(sqrt(v + eps))) -> layer_norm(x)"""
    for side in (0, 1):
        inverse = produced_by(node.inputs[side], "rsqrt", "reciprocal")
        if inverse is not None and inverse.op == "reciprocal":
            inverse = produced_by(inverse.inputs[0], "sqrt")
        if inverse is None:
            continue
        found = _normalised(node.operand(1 - side), inverse.operand(0), edit)
        if found is not None:
            return found
    return None


def _normalised(centred: Value, radicand: Value, edit: Edit) -> Value | None:
    """layer_norm(x) if `centred` is x - mean(x) and `radicand` its mean square plus a constant."""
    subtraction = produced_by(centred, "sub")
    total = produced_by(radicand, "add")
    if subtraction is None or total is None:
        return None
    x = subtraction.operand(0)
    axes = _mean_axes(subtraction.inputs[1], x)
    if axes is None or not x.known_dtype.is_float:
        return None
    for side in (0, 1):
        epsilon, variance = number(total.inputs[side]), total.operand(1 - side)
        if epsilon is None or epsilon < 0:
            continue
        mean = produced_by(variance, "reduce_mean")
        if mean is None or not _is_square(mean.inputs[0], centred) or _mean_axes(variance, mean.operand(0)) != axes:
            continue
        return edit.add("layer_norm", [x, None, None], {"axis": axes[0], "epsilon": float(epsilon)})
    return None


def _is_square(value: Value | None, of: Value) -> bool:
    node = produced_by(value, "mul", "pow")
    if node is None or node.inputs[0] is not of:
        return False
    return node.inputs[1] is of if node.op == "mul" else number(node.inputs[1]) == 2


def _mean_axes(value: Value | None, of: Value) -> tuple[int, ...] | None:
    """The axes, if `value` is the mean of `of` over its last axes, kept as axes of size 1."""
    node = produced_by(value, "reduce_mean")
    if node is None or node.inputs[0] is not of or not node.attrs.get("keepdims") or of.shape is None:
        return None
    rank = len(of.shape)
    axes = node.attrs.get("axes")
    axes = tuple(range(rank)) if axes is None else tuple(sorted(axis % rank for axis in axes))
    return axes if axes and axes == tuple(range(rank - len(axes), rank)) else None


def scaled(node: Node, edit: Edit) -> Value | None:
    """mul(layer_norm(x, _, _), c) -> layer_norm(x, c, _)"""
    for side in (0, 1):
        norm, scale = produced_by(node.inputs[side], "layer_norm"), node.operand(1 - side)
        if norm is not None and norm.inputs[1] is None and norm.inputs[2] is None and _is_operand(norm, scale, edit):
            return edit.add("layer_norm", [norm.inputs[0], scale, None], norm.attrs, name=norm.name)
    return None


def shifted(node: Node, edit: Edit) -> Value | None:
    """add(layer_norm(x, scale, _), c) -> layer_norm(x, scale, c)"""
    for side in (0, 1):
        norm, bias = produced_by(node.inputs[side], "layer_norm"), node.operand(1 - side)
        if norm is not None and norm.inputs[2] is None and _is_operand(norm, bias, edit):
            return edit.add("layer_norm", [norm.inputs[0], norm.inputs[1], bias], norm.attrs, name=norm.name)
    return None


def _is_operand(norm: Node, value: Value, edit: Edit) -> bool:
    """Whether `value` can be scale or bias of `norm`: a constant that broadcasts to the normalised axes."""
    if value.data is None or not edit.graph.has_one_use(norm.output) or norm.output.shape is None:
        return False
    normalised = norm.output.static_shape[norm.attrs["axis"] :]
    return equal_shapes(certain_broadcast(value.static_shape, normalised), normalised)


_RULES: Rules = {"div": (divided,), "mul": (multiplied, scaled), "add": (shifted,)}
