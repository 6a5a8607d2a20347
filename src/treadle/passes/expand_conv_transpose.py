"""Turns transposed convolutions into convolutions whose channels are spread over the pixels of the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import dtypes
from treadle.graph.dim import ceil_div, equals, is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements
from treadle.graph.value import Value
from treadle.ops.elementwise import SCALAR_OPS
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep
from treadle.records import dataclass

Array = np.ndarray[Any, Any]


class ExpandConvTranspose:
    """%y = conv_transpose(%x, %w, %b) strides=(s, s)  ->  %c = conv(%x, %w', %b') strides=(1, 1);
    %y = spread(%c) strides=(s, s)

    What the pads take away is sliced off, unless the pads of the convolution can leave it out. Channels fill whole
    vectors where that at most doubles them, so that they can be spread in blocks. Scalar ops behind the spread go in
    front of it, where the convolution takes them. In groups, and with weights that are not constant, a transpose
    spreads the channels; such weights are rearranged in the graph.
    """

    name = "expand_conv_transpose"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: `size` positions of x give `out` of y. `shift` of the pads at the begin are left out by the
    convolution, whose first tap is `last` positions before its position.
    """

    size: int
    out: int
    stride: int
    kernel: int
    dilation: int
    shift: int
    crop: int

    @staticmethod
    def of(size: int, out: int, stride: int, kernel: int, dilation: int, begin: int) -> _Axis:
        """The axis with the fewest taps; of those, the one without a slice at the begin."""
        at_once = _Axis(size, out, stride, kernel, dilation, begin, 0)
        sliced = _Axis(size, out, stride, kernel, dilation, begin - begin % stride, begin % stride)
        return min(at_once, sliced, key=lambda axis: axis.taps)

    @property
    def reach(self) -> int:
        """Positions of the kernel, those between its taps included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def last(self) -> int:
        return (self.reach - 1 - self.shift) // self.stride

    @property
    def taps(self) -> int:
        """Taps of the convolution."""
        return self.last + (self.stride - 1 + self.shift) // self.stride + 1

    @property
    def positions(self) -> int:
        """Positions of the convolution's result: each gives `stride` of y."""
        return ceil_div(self.out + self.crop, self.stride)

    @property
    def rest(self) -> int:
        """How many places of the convolution's last position are not part of y."""
        return self.positions * self.stride - self.crop - self.out

    @property
    def pads(self) -> tuple[int, int]:
        """The pads of the convolution."""
        return self.last, self.positions - self.size + self.taps - 1 - self.last

    def places(self) -> Array:
        """[stride, taps]: for each position of y within a stride the place of each tap in the kernel; `kernel`: none"""
        place = self.stride * (self.last - np.arange(self.taps)) + np.arange(self.stride)[:, None] + self.shift
        is_there = (place >= 0) & (place < self.reach) & (place % self.dilation == 0)
        return np.where(is_there, place // self.dilation, self.kernel)


def _expand(node: Node, edit: Edit) -> Value | None:
    x, w = node.operand(0), node.operand(1)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if w.dtype not in (dtypes.f32, dtypes.f64) or any(map(is_expression, w.static_shape)):
        return None
    batch, _, *sizes = x.static_shape
    channels, *out = node.output.static_shape[1:]
    if any(size < 1 for size in (*sizes, *out)) or 0 in w.static_shape:  # assumes that sizes of data are not 0
        return None
    strides, dilations, begins = node.attrs["strides"], node.attrs["dilations"], node.attrs["pads"]
    axes = [_Axis.of(*each) for each in zip(sizes, out, strides, w.static_shape[2:], dilations, begins, strict=False)]
    pads = tuple(axis.pads[end] for end in (0, 1) for axis in axes)
    if any(is_expression(pad) or pad < 0 for pad in pads):
        return None
    attrs = {
        "strides": (1,) * len(axes),
        "pads": pads,
        "dilations": (1,) * len(axes),
        "groups": node.attrs["groups"],
    }
    parts = elements(strides)
    if parts > 1 and _can_be_in_parts(node, axes):
        assert w.data is not None, "they are constant"
        inputs = _in_parts(w.data, None if bias is None else bias.data, axes, edit)
        found = edit.add("conv", [x, *inputs], attrs, name=node.name)
        begins, ends = (axis.crop for axis in axes), (axis.rest for axis in axes)
        cut = {"begins": tuple(begins), "ends": tuple(ends)}
        return edit.add("spread", [found], {"strides": strides, "channels": channels, **cut})
    inputs = [_weights(w, node.attrs["groups"], axes, edit)]
    if bias is not None:
        inputs.append(_repeated(bias, parts, edit))
    found = edit.add("conv", [x, *inputs], attrs, name=node.name)
    if parts > 1:
        found = _spread(found, (batch, channels), axes, edit)
    return _cropped(found, axes, edit)


def _can_be_in_parts(node: Node, axes: list[_Axis]) -> bool:
    """Whether channels of the convolution of `node` can be in parts for the places of a stride, and what is cut off of
    its result is a number."""
    are_constant = all(value is None or value.data is not None for value in node.inputs[1:])
    return are_constant and node.attrs["groups"] == 1 and not any(is_expression(axis.rest) for axis in axes)


def _in_parts(w: Array, bias: Array | None, axes: list[_Axis], edit: Edit) -> list[Value]:
    """w [C, M, *kernel] as [strides * M', C, *taps] and the bias, repeated: M' is M, or more to fill vectors."""
    inner, channels = w.shape[:2]
    lanes = edit.target.lanes(dtypes.from_numpy(w.dtype))
    spare = -channels % lanes if 2 * channels >= lanes else 0
    places = elements(tuple(axis.stride for axis in axes))
    parts = _rearranged(w, 1, axes).reshape(channels, places, inner, -1).swapaxes(0, 1)
    filled = np.pad(parts, ((0, 0), (0, spare), (0, 0), (0, 0)))
    shape = (places * (channels + spare), inner, *(axis.taps for axis in axes))
    factors = [edit.constant(filled.reshape(shape), name=edit.node.operand(1).name)]
    if bias is not None:
        factors.append(edit.constant(np.tile(np.pad(bias, (0, spare)), places)))
    return factors


def _before_spread(node: Node, edit: Edit) -> Value | None:
    """relu(spread(c)) -> spread(relu(c)), for scalar ops of one value."""
    values = [value for value in node.inputs if value is not None]
    spreads = [value for value in values if produced_by(value, "spread") is not None]
    if len(spreads) != 1 or len(spreads[0].users) > 1 or edit.graph.is_output(spreads[0]):
        return None
    others = [value.data for value in values if value is not spreads[0]]
    spread = spreads[0].producer
    if spread is None or any(data is None or data.size != 1 or data.ndim > 1 for data in others):
        return None
    inner = edit.again([spread.operand(0) if value is spreads[0] else value for value in node.inputs])[0]
    return edit.add("spread", [inner], dict(spread.attrs))


def _weights(w: Value, groups: int, axes: list[_Axis], edit: Edit) -> Value:
    """w [C, M / groups, *kernel] as [M * strides, C / groups, *taps]."""
    if w.data is not None:
        return edit.constant(_rearranged(w.data, groups, axes), name=w.name)
    rank, shape = len(axes), w.static_shape
    inner = shape[0] // groups
    grouped = edit.reshape(w, (groups, inner, *shape[1:]))
    widths = edit.constant(np.array([0] * (2 * (3 + rank) - rank) + [1] * rank, np.int64))
    taken = edit.add("pad", [grouped, widths], {"mode": "constant"})
    for number, axis in enumerate(axes):
        taken = edit.add("gather", [taken, edit.constant(axis.places())], {"axis": 3 + 2 * number})
    moved = edit.add("transpose", [taken], {"perm": _order(rank)})
    outer = groups * shape[1] * elements(tuple(axis.stride for axis in axes))
    return edit.reshape(moved, (outer, inner, *(axis.taps for axis in axes)))


def _repeated(bias: Value, times: int, edit: Edit) -> Value:
    """Each element of `bias` so many times, one after another."""
    if bias.data is not None:
        return edit.constant(np.repeat(bias.data, times), name=bias.name)
    (size,) = bias.static_shape
    apart = edit.add("expand", [edit.reshape(bias, (size, 1)), edit.sizes((size, times))])
    return edit.reshape(apart, (size * times,))


def _order(rank: int) -> tuple[int, ...]:
    """Brings [groups, C, M, strides and taps of each axis by turns] to [groups, M, strides, C, taps]."""
    firsts, seconds = (tuple(range(start, 3 + 2 * rank, 2)) for start in (3, 4))
    return (0, 2, *firsts, 1, *seconds)


def _rearranged(w: Array, groups: int, axes: list[_Axis]) -> Array:
    """What `_weights` returns, of a constant."""
    rank = len(axes)
    grouped = w.reshape(groups, -1, *w.shape[1:])
    taken = np.pad(grouped, [(0, 0)] * 3 + [(0, 1)] * rank)
    for number, axis in enumerate(axes):
        taken = np.take(taken, axis.places(), axis=3 + 2 * number)
    moved = taken.transpose(_order(rank))
    return np.ascontiguousarray(moved).reshape(-1, grouped.shape[1], *(axis.taps for axis in axes))


def _spread(found: Value, outer: StaticShape, axes: list[_Axis], edit: Edit) -> Value:
    """[N, M * strides, *positions] as [N, M, *(positions * strides)]."""
    rank = len(axes)
    strides, positions = [axis.stride for axis in axes], [axis.positions for axis in axes]
    apart = edit.reshape(found, (*outer, *strides, *positions))
    pairs = [place for number in range(rank) for place in (2 + rank + number, 2 + number)]
    moved = edit.add("transpose", [apart], {"perm": (0, 1, *pairs)})
    wide = (stride * size for stride, size in zip(strides, positions, strict=True))
    return edit.reshape(moved, (*outer, *wide))


def _cropped(found: Value, axes: list[_Axis], edit: Edit) -> Value:
    """`found` without what the pads take away."""
    cut = [number for number, axis in enumerate(axes) if not equals(axis.out, axis.positions * axis.stride)]
    if not cut:
        return found
    begins = [axes[number].crop for number in cut]
    ends = [axes[number].crop + axes[number].out for number in cut]
    over, steps = [2 + number for number in cut], [1] * len(cut)
    return edit.add("slice", [found, *(edit.sizes(tuple(numbers)) for numbers in (begins, ends, over, steps))])


_RULES: Rules = {"conv_transpose": (_expand,), **dict.fromkeys((*SCALAR_OPS, "cast"), (_before_spread,))}
