"""Blocks of pixels as channels or as images of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.conv import Layout
from treadle.frontends.tensorflow.rules.kinds import Same, Value


def _by_blocks(e: Emitter, input: Value, block_size: int, data_format: str | None) -> Layout:
    """Return the layout of images. Raises ValueError for another rank than 4 and blocks of less than 2."""
    if e.rank(input) != 4 or int(block_size) < 2:
        raise ValueError(
            f"wanted images of rank 4 and block_size of at least 2, got {list(e.shape(input))}, {block_size}"
        )
    return Layout(4, data_format)


def depth_to_space(e: Emitter, input: Same, block_size: int, data_format: str | None = None) -> Value:
    """Rearrange [N, H, W, C] to [N, H * block_size, W * block_size, C / block_size**2]."""
    e.expect_rank(input, 4)
    layout = _by_blocks(e, input, block_size, data_format)
    return layout.leave(e, e.add("depth_to_space", layout.enter(e, input), block=int(block_size), mode="DCR"))


def space_to_depth(e: Emitter, input: Same, block_size: int, data_format: str | None = None) -> Value:
    """Rearrange [N, H, W, C] to [N, H / block_size, W / block_size, C * block_size**2]."""
    e.expect_rank(input, 4)
    layout = _by_blocks(e, input, block_size, data_format)
    return layout.leave(e, e.add("space_to_depth", layout.enter(e, input), block=int(block_size)))


Pairs = Sequence[Sequence[int]]


def _checked(e: Emitter, input: Value, blocks: Sequence[int], what: str, pairs: Pairs) -> None:
    """Raise ValueError unless `input` has an axis for each of `blocks`, with a pair of at least 0 for it."""
    if not len(blocks) < e.rank(input):
        raise ValueError(f"block_shape: wanted fewer than {e.rank(input)} numbers, got {list(blocks)}")
    if any(block < 1 for block in blocks):
        raise ValueError(f"block_shape: wanted numbers of at least 1, got {list(blocks)}")
    if len(pairs) != len(blocks) or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ValueError(f"{what}: wanted {len(blocks)} pairs of numbers of at least 0, got {pairs!r}")


def space_to_batch(e: Emitter, input: Same, block_shape: Sequence[int], paddings: Pairs) -> Value:
    """Pad input [N, *S, ...] with zeros and make every block_shape-th element of S an image of its own."""
    blocks = [int(block) for block in block_shape]
    _checked(e, input, blocks, "paddings", paddings)
    widths = [(0, 0), *((int(a), int(b)) for a, b in paddings)]
    widths += [(0, 0)] * (e.rank(input) - len(widths))
    pads = e.integers([*(begin for begin, _ in widths), *(end for _, end in widths)])
    padded = e.add("pad", input, pads, e.scalar(0, input), mode="constant")
    batch, *rest = e.shape(padded)
    if any(size % block for size, block in zip(rest, blocks, strict=False)):
        raise ValueError(f"block_shape: {blocks} does not divide the padded sizes {list(rest)}")
    count = len(blocks)
    cut = [part for size, block in zip(rest, blocks, strict=False) for part in (size // block, block)]
    spread = e.reshape(padded, [batch, *cut, *rest[count:]])
    order = [*(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count))]
    moved = e.transpose(spread, [*order, *range(1 + 2 * count, e.rank(spread))])
    inner = [size // block for size, block in zip(rest, blocks, strict=False)]
    return e.reshape(moved, [batch * math.prod(blocks), *inner, *rest[count:]])


def batch_to_space(e: Emitter, input: Same, block_shape: Sequence[int], crops: Pairs) -> Value:
    """Reverse space_to_batch, and remove `crops` at both ends of each axis of S."""
    blocks = [int(block) for block in block_shape]
    _checked(e, input, blocks, "crops", crops)
    count = len(blocks)
    batch, *rest = e.shape(input)
    if batch % math.prod(blocks):
        raise ValueError(f"block_shape: {blocks} does not divide the batch of {batch}")
    images = batch // math.prod(blocks)
    spread = e.reshape(input, [*blocks, images, *rest])
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i))]
    moved = e.transpose(spread, [*order, *range(2 * count + 1, e.rank(spread))])
    sizes = [size * block for size, block in zip(rest, blocks, strict=False)]
    whole = e.reshape(moved, [images, *sizes, *rest[count:]])
    if any(int(begin) + int(end) > size for (begin, end), size in zip(crops, sizes, strict=False)):
        raise ValueError(f"crops: {crops!r} are more than the sizes {sizes}")
    starts = [int(begin) for begin, _ in crops]
    ends = [size - int(end) for size, (_, end) in zip(sizes, crops, strict=True)]
    return e.add("slice", whole, e.integers(starts), e.integers(ends), e.integers(range(1, count + 1)))
