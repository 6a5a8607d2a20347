"""Which methods of Winograd's algorithm, and whether direct convolution, a plan with open sizes has for a convolution.

The number of tiles is open, and so is what is the fastest. A few variants serve all sizes: those that lose the least
time over usual sizes to the best one of each size.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from treadle.graph.dim import DimExpr
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.winograd.cost import LEAST_GAIN, direct_cost, total_cost
from treadle.passes.lower.conv.winograd.tiling import Method, methods
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
    return _variants(_usual_sizes(shape), target, most, streamed=streamed, bf16_dot=bf16_dot)


@lru_cache(maxsize=256)
def _variants(
    sizes: tuple[ConvShape, ...], target: Target, most: int, *, streamed: bool, bf16_dot: bool
) -> tuple[Method | None, ...]:
    ways: list[Method | None] = [None, *methods(sizes[0], target, is_open=True)]
    costs = np.array(
        [
            [direct_cost(size, target, streamed=streamed, bf16_dot=bf16_dot) for size in sizes]
            if way is None
            else [LEAST_GAIN * total_cost(way, size, target, streamed=streamed) for size in sizes]
            for way in ways
        ]
    )
    relative = costs / costs.min(axis=0)
    found: tuple[int, ...] = ()
    lowest = np.inf
    for number in range(1, most + 1):
        sets = list(combinations(range(len(ways)), number))
        times = relative[np.array(sets)].min(axis=1).mean(axis=1) if sets else np.array([np.inf])
        if times.min() > lowest - _WORTH:
            break
        found, lowest = sets[int(times.argmin())], times.min()
    return tuple(ways[number] for number in found)


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
        found.append(replace(sample, images=images, size=(0, 0), out_size=(height, width)))
    return tuple(dict.fromkeys(found))


def _scaled(size: int, sample: int, factor: float) -> int:
    """Returns `sample` times `factor` within the bounds of `size`, if that is an expression."""
    if not isinstance(size, DimExpr):
        return size
    return int(min(max(size.least, 1, round(sample * factor)), size.most))
