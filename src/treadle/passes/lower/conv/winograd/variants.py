"""Which methods of Winograd's algorithm, and whether direct convolution, a plan with open sizes has for a convolution.

The number of tiles is open, and so is what is the fastest. A few variants serve all sizes: those that lose the least
time over usual sizes to the best one of each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np

from treadle.dtypes import f32
from treadle.graph.dim import DimExpr
from treadle.passes.lower.conv.open_rows import has_open_rows, open_row, row_tiling
from treadle.passes.lower.conv.rows import RowTiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.winograd.cost import LEAST_GAIN, open_direct_cost, total_costs
from treadle.passes.lower.conv.winograd.tiling import Method, Tiling, methods
from treadle.passes.lower.registers import sum_registers
from treadle.plan.target import Target

_SPREAD = tuple(2.0 ** (half / 2) for half in range(-4, 9))
"""The sizes that variants should serve well, as multiples of the sample sizes: convolutions behind others have small
samples."""

_WORTH = 0.02
"""The part of the time that one more variant must save."""


def choose_variants(
    shape: ConvShape, target: Target, most: int, *, streamed: bool = True, bf16_dot: bool = False
) -> tuple[Method | None, ...]:
    """Returns at most `most` ways to compute a convolution of open sizes, None for direct convolution.

    Nothing is assumed. `streamed` and `bf16_dot` are as in `choose_tiling`.
    """
    row = _direct_row(shape, target) if has_open_rows(shape) else None
    blocks = row and (row.vectors, row.widest)
    return _variants(_usual_sizes(shape), blocks, target, most, streamed=streamed, bf16_dot=bf16_dot)


def variant_cost(
    way: Tiling | None, shape: ConvShape, target: Target, *, streamed: bool = True, bf16_dot: bool = False
) -> float:
    """Returns the cost of a way that `choose_variants` chose: binding takes the one that costs the least."""
    if way is not None:
        return way.total_cost * LEAST_GAIN
    return open_direct_cost(shape, _direct_row(shape, target), target, streamed=streamed, bf16_dot=bf16_dot)


def _direct_row(shape: ConvShape, target: Target) -> RowTiling:
    """Returns how direct convolution in fp32 divides a row of the result."""
    row = row_tiling(shape, target.lanes(f32), sum_registers(target))
    assert row is not None, "results are blocked only where direct convolution divides their rows"
    return row


@lru_cache(maxsize=256)
def _variants(
    sizes: tuple[ConvShape, ...],
    blocks: tuple[int, int] | None,
    target: Target,
    most: int,
    *,
    streamed: bool,
    bf16_dot: bool,
) -> tuple[Method | None, ...]:
    """`blocks`: vectors and most pixels of direct convolution's register blocks, if they serve rows of all lengths."""
    ways: list[Method | None] = [*methods(sizes[0], target, is_open=True), None]

    def direct(size: ConvShape) -> float:
        row = _direct_row(size, target) if blocks is None else _known_row(size, *blocks)
        return open_direct_cost(size, row, target, streamed=streamed, bf16_dot=bf16_dot)

    by_tiles = [total_costs(way, sizes, target, streamed=streamed) for way in ways if way is not None]
    costs = np.array([*(np.array(each) * LEAST_GAIN for each in by_tiles), [direct(size) for size in sizes]])
    relative = costs / costs.min(axis=0)
    found: tuple[int, ...] = ()
    lowest = np.inf
    for number in range(1, most + 1):
        sets = list(combinations(range(len(ways)), number))
        times = relative[np.array(sets)].min(axis=1).mean(axis=1) if sets else np.array([np.inf])
        if times.min() > lowest - _WORTH:
            break
        found, lowest = sets[int(times.argmin())], times.min()
    return _with_shared_weights([ways[number] for number in found])


def _with_shared_weights(ways: Sequence[Method | None]) -> tuple[Method | None, ...]:
    """Returns `ways`, those with smaller tiles with the weights of one with larger tiles if they can read these."""
    largest = max((way for way in ways if way is not None), key=lambda way: prod(way.reach), default=None)
    return tuple(way and largest and way.with_weights_of(largest) for way in ways)


def _known_row(shape: ConvShape, vectors: int, widest: int) -> RowTiling:
    """Returns the row of a kernel for rows of all lengths at a known one."""
    row = open_row(shape, widest)
    assert row is not None, "padding does not depend on sizes"
    return RowTiling(vectors, False, row.segments, row.spans, checked=True)


def _usual_sizes(shape: ConvShape) -> tuple[ConvShape, ...]:
    """Returns `shape` for numbers in place of its expressions; pixels are scaled if they are open, else images."""
    sample = shape.sample
    pixels_open = any(isinstance(size, DimExpr) for size in shape.out_size)
    found = []
    for factor in _SPREAD:
        height, width = (
            _scaled(size, usual, factor) for size, usual in zip(shape.out_size, sample.out_size, strict=True)
        )
        images = sample.images if pixels_open else _scaled(shape.images, sample.images, factor)
        grown = (width - sample.out_size[1]) * sample.strides[1]
        size = sample.size[0], max(1, sample.size[1] + grown)
        found.append(replace(sample, images=images, size=size, out_size=(height, width)))
    return tuple(dict.fromkeys(found))


def _scaled(size: int, sample: int, factor: float) -> int:
    """Returns `sample` times `factor` within the bounds of `size`, if that is an expression."""
    if not isinstance(size, DimExpr):
        return size
    return int(min(max(size.least, 1, round(sample * factor)), size.most))
