"""Turns convolutions of volumes into convolutions of images: the taps along the depth become channels."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.graph.dim import at_least, equals, is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.window import SAME
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, sweep

_DEPTH = 2
"""The axis of the depth."""


class FlattenVolumes:
    """%y = conv(%x: [n, c, d, h, w], %w: [m, c, k, i, j])
    ->  %t = gather(%x, depths) axis=2, as [n * d', c * k, h, w]; %y = conv(%t, %w as [m, c * k, i, j])

    Kernels of convolutions know images.
    """

    name = "flatten_volumes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def _flatten(node: Node, edit: Edit) -> Value | None:
    x, w = node.operand(0), node.operand(1)
    if x.dtype not in (dtypes.f32, dtypes.f64) or node.attrs["pads"] in SAME or "epilogue" in node.attrs:
        return None
    shape, weights, out = x.static_shape, w.static_shape, node.output.static_shape
    if len(shape) != 5 or any(map(is_expression, weights)) or not all(at_least(size, 1) for size in (*shape, *out)):
        return None
    (stride, *strides), (dilation, *dilations) = node.attrs["strides"], node.attrs["dilations"]
    pads = tuple(node.attrs["pads"])
    texts, channels, _, *image = shape
    count, depth, *window = weights[0], out[_DEPTH], *weights[3:]
    taps = weights[2]
    volume = _padded(x, pads[0], pads[3], edit)
    places = _places(depth, stride, taps, dilation, edit)
    slices = edit.add("gather", [volume, places], {"axis": _DEPTH})
    moved = edit.add("transpose", [slices], {"perm": (0, 2, 1, 3, 4, 5)})
    flat = edit.reshape(moved, (texts * depth, channels * taps, *image))
    kernel = edit.reshape(w, (count, weights[1] * taps, *window))
    attrs = {
        **node.attrs,
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": (pads[1], pads[2], pads[4], pads[5]),
    }
    found = edit.add("conv", [flat, kernel, *node.inputs[2:]], attrs, name=node.name)
    apart = edit.reshape(found, (texts, depth, count, *out[3:]))
    return edit.add("transpose", [apart], {"perm": (0, 2, 1, 3, 4)})


def _padded(x: Value, begin: int, end: int, edit: Edit) -> Value:
    if equals(begin, 0) and equals(end, 0):
        return x
    widths = edit.sizes((0, 0, begin, 0, 0, 0, 0, end, 0, 0))
    return edit.add("pad", [x, widths], {"mode": "constant"})


def _places(depth: int, stride: int, taps: int, dilation: int, edit: Edit) -> Value:
    """The depth of each tap of each position [depth, taps]."""
    offsets = np.arange(taps) * dilation
    if not is_expression(depth):
        return edit.constant(np.arange(depth)[:, None] * stride + offsets)
    zero, step = edit.constant(np.array(0)), edit.constant(np.array(stride))
    starts = edit.add("range", [zero, edit.reshape(edit.sizes((depth * stride,)), ()), step])
    return edit.add("add", [edit.reshape(starts, (depth, 1)), edit.constant(offsets)])


_RULES: Rules = {"conv": (_flatten,)}
