"""Turns batch normalisation with constant statistics into weights, or into a multiply and an add."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep

Array = np.ndarray[Any, Any]


class FoldBatchNorm:
    """%c = conv(%x, %w, %b); %y = batch_norm(%c, ...)  ->  %y = conv(%x, %w', %b')

    Without a convolution before it, or under exact math: -> %m = mul(%x, %scale'); %y = add(%m, %bias')
    """

    name = "fold_batch_norm"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def into_conv(node: Node, edit: Edit) -> Value | None:
    """batch_norm(conv(x, w, b)) -> conv(x, w * scale, b * scale + shift), under fast math"""
    conv = produced_by(node.inputs[0], "conv", "conv_transpose")
    factors = _affine(node)
    if conv is None or factors is None or edit.math == "exact" or not edit.graph.has_one_use(conv.output):
        return None
    weights = scaled_weights(conv, factors[0])
    bias = scaled_bias(conv, factors[0])
    if weights is None or bias is None or "epilogue" in conv.attrs:
        return None
    dtype = conv.operand(1).known_dtype.numpy
    inputs = [
        conv.inputs[0],
        edit.constant(weights.astype(dtype), name=conv.operand(1).name),
        edit.constant((bias + factors[1]).astype(dtype), name=f"{conv.name}.bias"),
    ]
    return edit.add(conv.op, inputs, conv.attrs, name=f"{conv.name}+{node.name}")


def into_arithmetic(node: Node, edit: Edit) -> Value | None:
    """batch_norm(x: [N, C, H, W]) -> add(mul(x, scale [C, 1, 1]), shift [C, 1, 1])"""
    factors = _affine(node)
    x = node.operand(0)
    if factors is None or x.shape is None:
        return None
    shape = (-1, *([1] * (len(x.shape) - 2)))
    scale, shift = (edit.constant(factor.reshape(shape), like=x) for factor in factors)
    return edit.add("add", [edit.add("mul", [x, scale]), shift])


def scaled_weights(conv: Node, scale: Array) -> Array | None:
    """The constant weights of `conv` with output channel i multiplied by scale[i], in f64; None if that cannot be."""
    weights = conv.operand(1).data
    if weights is None:
        return None
    axis = 0
    if conv.op == "conv_transpose":
        if conv.attrs["groups"] != 1:
            return None
        axis = 1
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.asarray(weights.astype(np.float64) * scale.reshape(shape))


def scaled_bias(conv: Node, scale: Array) -> Array | None:
    """The bias of `conv` times `scale`, in f64 [M]; zeros if it has none, None if it is not constant."""
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if bias is None:
        return np.zeros(scale.shape)
    return None if bias.data is None else np.asarray(bias.data.astype(np.float64) * scale)


def _affine(node: Node) -> tuple[Array, Array] | None:
    """(scale, shift) in f64, each [C], such that the node computes x * scale + shift; None unless constant."""
    arrays = [None if value is None else value.data for value in node.inputs[1:5]]
    if any(array is None for array in arrays):
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    scale = gamma / np.sqrt(variance + node.attrs["epsilon"])
    return scale, beta - mean * scale


_RULES: Rules = {"batch_norm": (into_conv, into_arithmetic)}
