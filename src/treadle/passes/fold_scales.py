"""Moves multiplications by constants to where they cost nothing: into constant weights, or behind a matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.fold_batch_norm import scaled_bias, scaled_weights
from treadle.passes.match import Edit, Rules, number, produced_by, sweep

Array = np.ndarray[Any, Any]

_COPIED_BYTES = 1 << 20
"""Larger matmul weights are not copied to be scaled."""


class FoldScales:
    """%m = matmul(%x, %w); %y = mul(%m, 0.5)  ->  %y = matmul(%x, %w'), where %w' = 0.5 * %w

    A negation is a factor of -1. Weights are scaled only if nothing else reads them, or they are small and the factor
    is -1; large ones of a matmul are left, as a copy costs more memory than a step in the epilogue costs time. Under
    exact math nothing is done.
    """

    name = "fold_scales"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return context.math == "fast" and sweep(graph, context, _RULES)


def into_weights(node: Node, edit: Edit) -> Value | None:
    """mul(conv(x, w, b), c: [C, 1, 1]) -> conv(x, w * c, b * c); mul(matmul(x, w), c: [N]) -> matmul(x, w * c)"""
    for side in (0, 1):
        factor = node.operand(1 - side).data
        if factor is None or not equal_shapes(node.operand(side).shape, node.output.shape):
            continue
        found = _scaled(node, node.operand(side), factor, edit)
        if found is not None:
            return found
    return None


def sign_into_weights(node: Node, edit: Edit) -> Value | None:
    """neg(conv(x, w, b)) -> conv(x, -w, -b); neg(matmul(x, w)) -> matmul(x, -w)"""
    return _scaled(node, node.operand(0), np.asarray(-1.0), edit, copied_bytes=_COPIED_BYTES)


def _scaled(node: Node, product: Value, factor: Array, edit: Edit, *, copied_bytes: int = 0) -> Value | None:
    """`product * factor`, which `node` computes, by other weights; None if it is no product of such.

    Of weights that others read, at most `copied_bytes` are copied.
    """
    producer = produced_by(product, "conv", "matmul")
    if producer is None or not edit.graph.has_one_use(product) or "epilogue" in producer.attrs:
        return None
    weights = producer.operand(1)
    if weights.data is None or not weights.known_dtype.is_float:
        return None
    if len(weights.users) != 1 and weights.data.nbytes > copied_bytes:
        return None
    scaled = _scaled_conv(producer, factor) if producer.op == "conv" else _scaled_matmul(producer, factor)
    if scaled is None:
        return None
    dtype = weights.known_dtype
    inputs: list[Value | None] = [producer.inputs[0], edit.constant(scaled[0].astype(dtype.numpy))]
    if scaled[1] is not None:
        inputs.append(edit.constant(scaled[1].astype(dtype.numpy)))
    return edit.add(producer.op, inputs, producer.attrs, name=f"{producer.name}+{node.name}")


def _per_channel(factor: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """`factor` as [shape[axis]] in f64, if it varies along `axis` of `shape` alone."""
    if factor.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - factor.ndim) + factor.shape
    if any(size != 1 for i, size in enumerate(full) if i != axis):
        return None
    return np.broadcast_to(factor.astype(np.float64).reshape(-1), (shape[axis],))


def _scaled_conv(conv: Node, factor: Array) -> tuple[Array, Array | None] | None:
    scale = _per_channel(factor, conv.output.static_shape, 1)
    if scale is None:
        return None
    weights, bias = scaled_weights(conv, scale), scaled_bias(conv, scale)
    if weights is None or bias is None:
        return None
    return weights, bias if len(conv.inputs) > 2 and conv.inputs[2] is not None else None


def _scaled_matmul(matmul: Node, factor: Array) -> tuple[Array, None] | None:
    weights = matmul.operand(1).data
    if weights is None or weights.ndim != 2 or weights.nbytes > _COPIED_BYTES:
        return None
    if any(matmul.attrs.get(key) for key in ("b_perm", "out_perm")):
        return None
    if len(matmul.operand(0).static_shape) < 2:
        return None
    shape = matmul.output.static_shape
    scale = _per_channel(factor, shape, len(shape) - 1)
    if scale is None:
        return None
    columns = (-1, 1) if matmul.attrs.get("transpose_b") else (1, -1)
    return weights.astype(np.float64) * scale.reshape(columns), None


def behind_matmul(node: Node, edit: Edit) -> Value | None:
    """matmul(mul(q, 0.5), k) -> mul(matmul(q, k), 0.5), also through transposes and reshapes of the operand"""
    if "epilogue" in node.attrs or not node.output.known_dtype.is_float:
        return None
    for index in (0, 1):
        path: list[Node] = []
        value = node.operand(index)
        while (step := produced_by(value, "transpose", "reshape")) is not None and edit.graph.has_one_use(value):
            path.append(step)
            value = step.operand(0)
        multiply = produced_by(value, "mul")
        if multiply is None or not edit.graph.has_one_use(value):
            continue
        for side in (0, 1):
            factor, source = multiply.operand(side), multiply.operand(1 - side)
            if number(factor) is None or not equal_shapes(source.shape, value.shape):
                continue
            for step in reversed(path):
                source = edit.add(step.op, [source, *step.inputs[1:]], step.attrs, name=step.name)
            inputs = list(node.inputs)
            inputs[index] = source
            product = edit.add("matmul", inputs, node.attrs)
            scalar = edit.constant(np.asarray(number(factor)), like=product)
            return edit.add("mul", [product, scalar], name=multiply.name)
    return None


_RULES: Rules = {"mul": (into_weights,), "neg": (sign_into_weights,), "matmul": (behind_matmul,)}
