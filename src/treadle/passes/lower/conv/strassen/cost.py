"""What pointwise convolution by Strassen's algorithm costs with each tiling, and where it is faster than direct.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/measurements/strassen-convolutions.md.
"""

from __future__ import annotations

from functools import lru_cache

from treadle.dtypes import f32
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.strassen.tiling import Tiling, tilings
from treadle.passes.lower.conv.tile_product import groups_of_chunk, imbalance_factor, useful_chunks
from treadle.plan.target import Target

_INPUT_COST = 3.0
"""Cost of computing one vector of the sums of the input."""
_OUTPUT_COST = 4.0
"""Cost of storing one vector of results and adding it up."""
_BLOCK_COST = 20.0
"""Cost of beginning and storing a register block."""
_STREAMED_BYTE = 0.2
"""Cost of reading a byte of weights for the first time: most are streamed, and cores share the memory."""
_REREAD_BYTE = 0.004
"""Cost of reading a byte of weights again if they are larger than L2."""
_LEAST_GAIN = 1.04
"""How many times faster than direct convolution the cost must be."""


@lru_cache(maxsize=1024)
def choose_tiling(shape: ConvShape, target: Target) -> Tiling | None:
    """Returns the cheapest tiling for an fp32 pointwise convolution; None if direct convolution should be faster."""
    best = min(tilings(shape, target), key=lambda tiling: rating(tiling, target), default=None)
    if best is None or rating(best, target) * _LEAST_GAIN >= direct_cost(shape, target):
        return None
    return best


def direct_cost(shape: ConvShape, target: Target) -> float:
    """Returns the cost of direct convolution at its limit."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    return shape.multiply_adds / shape.outputs * vectors + _STREAMED_BYTE * vectors * lanes * shape.channels * f32.size


def input_cost(tiling: Tiling) -> float:
    """Returns the cost of computing the sums of the input once."""
    return _INPUT_COST * tiling.products * tiling.units * tiling.group.size * tiling.in_parts


def product_cost(tiling: Tiling, target: Target) -> float:
    """Returns the cost of everything after the sums of the input."""
    channels = tiling.in_parts * target.lanes(f32)
    product = tiling.products * tiling.group.cost(channels, _BLOCK_COST) * tiling.units * tiling.out_groups
    results = _OUTPUT_COST * tiling.products * tiling.images * tiling.tiles * tiling.out_parts
    weights = tiling.products * channels * tiling.out_groups * tiling.group.vectors * target.vector_bytes
    again = _REREAD_BYTE * (tiling.units - 1) if 2 * weights > target.l2 else 0.0
    return product + results + (_STREAMED_BYTE + again) * weights


def groups_per_chunk(tiling: Tiling, target: Target) -> int:
    """Returns the groups of output channels of a chunk: many, since each chunk computes the sums of its input."""
    return groups_of_chunk(tiling.out_groups, tiling.units, useful_chunks(product_cost(tiling, target)))


def rating(tiling: Tiling, target: Target) -> float:
    """Returns the total cost, load imbalance included."""
    group_chunks = -(-tiling.out_groups // groups_per_chunk(tiling, target))
    return (input_cost(tiling) * group_chunks + product_cost(tiling, target)) * imbalance_factor(
        group_chunks * tiling.units
    )
