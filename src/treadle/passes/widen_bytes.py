"""Replaces products and interpolations of 8-bit numbers that have no kernel by those of wider numbers."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.dim import at_most
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.base import PassContext
from treadle.passes.lower.conv.lower import takes_bytes
from treadle.passes.lower.matmul import vnni_product
from treadle.passes.match import Edit, Rules, sweep

_EXACT = 1 << 24
"""Largest sum of absolute values of integers that f32 adds exactly in any order."""


class WidenBytes:
    """%y: i32 = conv(%x: u8, %w: i8) zero=3  ->  %f = sub(cast(%x, f32), 3); %y = cast(conv(%f, cast(%w, f32)) exact,
    i32)

    Only where no kernel multiplies bytes, or mixes them in a resize. Convolutions whose sums do not fit f32 are summed
    in f64, matrix products in i32.
    """

    name = "widen_bytes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        def widened(node: Node, edit: Edit) -> Value | None:
            if node.operand(0).dtype not in BYTES:
                return None
            if node.op == "conv":
                return None if takes_bytes(node, context.target) else _conv(node, edit)
            return None if vnni_product(node) is not None else _matmul(node, edit)

        rules: Rules = {"conv": (widened,), "matmul": (widened,), "max_pool": (_max_pool,), "resize": (_resize,)}
        return sweep(graph, context, rules)


def _max_pool(node: Node, edit: Edit) -> Value | None:
    """max_pool(x: u8) -> cast(max_pool(cast(x, f32)), u8); a window of nothing but padding gives the least number"""
    x = node.operand(0)
    if x.dtype not in BYTES or len(node.outputs) != 1:
        return None
    limits = np.iinfo(x.known_dtype.numpy)
    most = edit.add("max_pool", [edit.add("cast", [x], {"to": dtypes.f32})], node.attrs)
    held = edit.add("max", [most, edit.constant(limits.min, like=most)])
    return edit.add("cast", [held], {"to": x.dtype})


def _resize(node: Node, edit: Edit) -> Value | None:
    """resize(x: u8) -> cast(round(resize(cast(x, f64))) within the limits of u8, u8), for all modes but nearest"""
    x = node.operand(0)
    if x.dtype not in BYTES or node.attrs["mode"] == "nearest":
        return None
    limits = np.iinfo(x.known_dtype.numpy)
    mixed = edit.add("resize", [edit.add("cast", [x], {"to": dtypes.f64}), *node.inputs[1:]], dict(node.attrs))
    rounded = edit.add("round", [mixed])
    held = edit.add("min", [rounded, edit.constant(limits.max, like=rounded)])
    held = edit.add("max", [held, edit.constant(limits.min, like=rounded)])
    return edit.add("cast", [held], {"to": x.dtype})


def _conv(node: Node, edit: Edit) -> Value:
    x, weights = node.operand(0), node.operand(1)
    zero = node.attrs.get("zero", 0)
    to = dtypes.f32 if at_most(_most(node, _reach(x, zero), axis=0), _EXACT) else dtypes.f64
    wide = edit.add("cast", [x], {"to": to})
    if zero:
        wide = edit.add("sub", [wide, edit.constant(zero, like=wide)])
    attrs = {**{name: value for name, value in node.attrs.items() if name != "zero"}, "exact": True}
    sums = edit.add("conv", [wide, _cast(weights, to, edit)], attrs)
    return _added(_rounded(sums, edit), node, edit)


def _rounded(sums: Value, edit: Edit) -> Value:
    """Sums as i32; those that were added in f64 modulo 2 ** 32."""
    if sums.dtype == dtypes.f64:
        sums = edit.add("cast", [sums], {"to": dtypes.i64})
    return edit.add("cast", [sums], {"to": dtypes.i32})


def _added(sums: Value, node: Node, edit: Edit) -> Value:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return sums
    shape = edit.constant(np.asarray([-1, *(1 for _ in node.output.static_shape[2:])], np.int64))
    return edit.add("add", [sums, edit.add("reshape", [bias, shape], {"allowzero": False})])


def _matmul(node: Node, edit: Edit) -> Value:
    a, b = node.operand(0), node.operand(1)
    axis = -1 if node.attrs.get("transpose_b") else -2
    fits = "b_perm" not in node.attrs and at_most(_most(node, _reach(a, 0), axis=axis), _EXACT)
    to = dtypes.f32 if fits else dtypes.i32
    sums = edit.add("matmul", [_cast(a, to, edit), _cast(b, to, edit)], dict(node.attrs))
    return edit.add("cast", [sums], {"to": dtypes.i32}) if fits else sums


def _cast(value: Value, to: DType, edit: Edit) -> Value:
    if value.data is not None:
        return edit.constant(value.data.astype(to.numpy), name=value.name)
    return edit.add("cast", [value], {"to": to})


def _reach(x: Value, zero: int) -> int:
    """The largest absolute value of an element of `x` less `zero`."""
    limits = np.iinfo(x.known_dtype.numpy)
    return max(limits.max - zero, zero - limits.min)


def _most(node: Node, reach: int, axis: int) -> int:
    """The largest sum of absolute products there can be of numbers up to `reach` and the right factor.

    `axis`: of the right factor, that of the results in a convolution (0), that of the sum in a matrix product.
    """
    right = node.operand(1)
    if right.data is None or right.data.ndim < 2:
        shape = right.static_shape
        depth = elements(shape[1:]) if node.op == "conv" else shape[axis] if len(shape) > 1 else elements(shape)
        return reach * 255 * depth
    sizes = np.abs(right.data.astype(np.int64))
    sums = sizes.reshape(sizes.shape[0], -1).sum(axis=1) if node.op == "conv" else sizes.sum(axis=axis)
    return reach * int(sums.max(initial=0))
