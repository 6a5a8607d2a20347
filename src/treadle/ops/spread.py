"""spread: channels spread over the pixels of a larger image, as a transposed convolution leaves them."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.dim import is_expression
from treadle.graph.shape import elements, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, rank_at_least, result


def infer_spread(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """[N, C, *sizes] -> [N, channels, *(sizes * strides - begins - ends)]. attrs: strides, channels, begins, ends.

    The channels are in as many equal parts as a stride has positions, one for each position in their row-major order.
    Of each part the first `channels` are taken; the others are there to fill blocks. Less than a stride is cut off at
    the begin and at the end of each axis.
    """
    x = operand(inputs, 0, "x")
    batch, given, *sizes = rank_at_least(x, 3, "x")
    strides, channels = tuple(attrs["strides"]), attrs["channels"]
    if len(strides) != len(sizes):
        raise ShapeError(f"x must have an axis for each of {len(strides)} strides after [N, C], got {text(dims(x))}")
    if any(stride < 1 for stride in strides):
        raise ShapeError(f"strides must be 1 or more, got {strides}")
    parts = elements(strides)
    if given % parts or not 1 <= channels <= given // parts:
        raise ShapeError(f"x has {given} channels, which are not {parts} times {channels} or more")
    for name, sides in zip(("begins", "ends"), (attrs["begins"], attrs["ends"]), strict=True):
        if len(sides) != len(strides) or any(not 0 <= cut < stride for cut, stride in zip(sides, strides, strict=True)):
            raise ShapeError(f"{name} must be in 0..strides (exclusive), got {sides} for {strides}")
    wide = tuple(map(_length, sizes, strides, attrs["begins"], attrs["ends"]))
    if any(not is_expression(length) and length < 0 for length in wide):
        raise ShapeError(f"begins and ends must leave something of {text(tuple(sizes))} in strides of {strides}")
    return [result(x.dtype, (batch, channels, *wide))]


def _length(size: int, stride: int, begin: int, end: int) -> int:
    return size * stride - begin - end


def evaluate_spread(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, strides, channels = present(arrays, 0), attrs["strides"], attrs["channels"]
    batch, given, *sizes = x.shape
    rank = len(sizes)
    apart = x.reshape(batch, *strides, given // elements(strides), *sizes)
    pairs = [place for number in range(rank) for place in (2 + rank + number, 1 + number)]
    moved = apart.transpose(0, 1 + rank, *pairs)[:, :channels]
    wide = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    left = (slice(begin, size - end) for size, begin, end in zip(wide, attrs["begins"], attrs["ends"], strict=True))
    whole = np.ascontiguousarray(moved).reshape(batch, channels, *wide)
    return [np.ascontiguousarray(whole[:, :, *left])]
