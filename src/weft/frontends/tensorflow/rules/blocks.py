"""Blocks of pixels exchanged for channels or for images of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.frontends.tensorflow.emitter import Emitter
from weft.frontends.tensorflow.rules.conv import Layout
from weft.frontends.tensorflow.rules.kinds import Same, Value


def depth_to_space(e: Emitter, input: Same, block_size: int, data_format: str | None = None) -> Value:
    """[N, H, W, C] -> [N, H * block_size, W * block_size, C / block_size**2]."""
    layout = Layout(4, data_format)
    return layout.leave(e, e.add("depth_to_space", layout.enter(e, input), block=int(block_size), mode="DCR"))


def space_to_depth(e: Emitter, input: Same, block_size: int, data_format: str | None = None) -> Value:
    """[N, H, W, C] -> [N, H / block_size, W / block_size, C * block_size**2]."""
    layout = Layout(4, data_format)
    return layout.leave(e, e.add("space_to_depth", layout.enter(e, input), block=int(block_size)))


Pairs = Sequence[Sequence[int]]


def space_to_batch(e: Emitter, input: Same, block_shape: Sequence[int], paddings: Pairs) -> Value:
    """input [N, *S, ...], padded with zeros; every block_shape-th element becomes an image of its own."""
    blocks = [int(block) for block in block_shape]
    widths = [(0, 0), *((int(a), int(b)) for a, b in paddings)]
    widths += [(0, 0)] * (e.rank(input) - len(widths))
    pads = e.integers([*(begin for begin, _ in widths), *(end for _, end in widths)])
    padded = e.add("pad", input, pads, e.scalar(0, input), mode="constant")
    batch, *rest = e.shape(padded)
    count = len(blocks)
    cut = [part for size, block in zip(rest, blocks, strict=False) for part in (size // block, block)]
    spread = e.reshape(padded, [batch, *cut, *rest[count:]])
    order = [*(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count))]
    moved = e.transpose(spread, [*order, *range(1 + 2 * count, e.rank(spread))])
    inner = [size // block for size, block in zip(rest, blocks, strict=False)]
    return e.reshape(moved, [batch * math.prod(blocks), *inner, *rest[count:]])


def batch_to_space(e: Emitter, input: Same, block_shape: Sequence[int], crops: Pairs) -> Value:
    """The reverse of space_to_batch; `crops` are taken off both ends of each axis of S."""
    blocks = [int(block) for block in block_shape]
    count = len(blocks)
    batch, *rest = e.shape(input)
    images = batch // math.prod(blocks)
    spread = e.reshape(input, [*blocks, images, *rest])
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i))]
    moved = e.transpose(spread, [*order, *range(2 * count + 1, e.rank(spread))])
    sizes = [size * block for size, block in zip(rest, blocks, strict=False)]
    whole = e.reshape(moved, [images, *sizes, *rest[count:]])
    starts = [int(begin) for begin, _ in crops]
    ends = [size - int(end) for size, (_, end) in zip(sizes, crops, strict=True)]
    return e.add("slice", whole, e.integers(starts), e.integers(ends), e.integers(range(1, count + 1)))
