"""What a Winograd convolution costs with each tiling, and where it is faster than direct convolution.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/measurements/winograd.md.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from treadle.dtypes import f32
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import groups_of_chunk, useful_chunks
from treadle.passes.lower.conv.winograd.tiling import Tiling, tilings
from treadle.passes.lower.searches import imbalance_factor
from treadle.plan.target import Target

_INPUT_COST = (1.2, 0.45)
_OUTPUT_COST = (0.7, 0.3)
"""Cost of transforming one vector of input, and of output, channels of a tile: for each point, the first number plus
the second for each of the points along both of its axes; with stride 2 half of them are not transformed."""
_BLOCK_COST = 40.0
"""Cost of beginning and storing a register block."""
_STREAMED_BYTE = 0.3
"""Cost of reading a byte of streamed weights for the first time; cores share the memory."""
_RESIDENT_BYTE = 0.08
"""The same if the last cache holds all of the model's weights."""
_REREAD_BYTE = 0.01
"""Cost of reading a byte of weights again if they are larger than L2."""
_PASSED_BYTE = 0.2
"""Cost of writing and reading a byte of transformed input outside L2; inside, _CACHED_SHARE of it."""
_CACHED_SHARE = 0.4
_FACTOR_COST = 4.5
"""Cost of transforming one vector of a section's weights for one point."""
_CALL_COST = 3000.0
"""Cost of one more call that every worker waits for."""
_LEAST_GAIN = 1.1
"""How many times faster than direct convolution the cost must be."""

_CHUNK_COST = 80_000.0
"""Cost of a chunk of a convolution whose input is transformed before; less where chunks would be too few."""


@lru_cache(maxsize=1024)
def choose_tiling(shape: ConvShape, target: Target, *, streamed: bool = True, bf16_dot: bool = False) -> Tiling | None:
    """Returns the cheapest tiling for an fp32 convolution; None if direct convolution should be faster.

    `streamed`, here and below: no cache holds the model's weights from one run to the next. `bf16_dot`: direct
    convolution would use bf16 dot products.
    """
    best = min(
        tilings(shape, target), key=lambda tiling: rating(tiling, shape, target, streamed=streamed), default=None
    )
    if best is None:
        return None
    cost = rating(best, shape, target, streamed=streamed) * _LEAST_GAIN
    return None if cost >= direct_cost(shape, target, streamed=streamed, bf16_dot=bf16_dot) else best


def direct_cost(shape: ConvShape, target: Target, *, streamed: bool = True, bf16_dot: bool = False) -> float:
    """Returns the cost of direct convolution at its limit; with `bf16_dot`, half as many products and bytes."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    weights = vectors * lanes * shape.channels * prod(shape.kernel) * f32.size
    cost = shape.multiply_adds / shape.outputs * vectors + _first_byte(streamed) * weights
    return cost / 2 if bf16_dot else cost


def input_cost(tiling: Tiling, target: Target) -> float:
    """Returns the cost of transforming the input once."""
    cost = _transform_cost(tiling, _INPUT_COST) * tiling.group.size * tiling.tile_groups * tiling.in_blocks
    if tiling.fused:
        return cost
    size = prod(tiling.reach) * tiling.tile_groups * tiling.group.size * tiling.in_blocks * target.vector_bytes
    return cost + _CALL_COST + size * _PASSED_BYTE * (1.0 if 2 * size > target.l2 else _CACHED_SHARE)


def product_cost(tiling: Tiling, shape: ConvShape, target: Target, *, streamed: bool = True) -> float:
    """Returns the cost of everything after the transform of the input."""
    group = tiling.group.cost(shape.channels, _BLOCK_COST * tiling.sections)
    product = prod(tiling.reach) * group * tiling.tile_groups * tiling.out_groups
    vectors = shape.channels * tiling.out_groups * tiling.group.vectors
    weights = vectors * target.vector_bytes * prod(shape.kernel if tiling.section_blocks else tiling.factors)
    again = _REREAD_BYTE * (tiling.tile_groups - 1) if 2 * weights > target.l2 else 0.0
    if tiling.section_blocks:
        product += _FACTOR_COST * prod(tiling.factors) * vectors * tiling.tile_groups
    return (
        product
        + _transform_cost(tiling, _OUTPUT_COST) * tiling.tiles * tiling.out_blocks
        + (_first_byte(streamed) + again) * weights
    )


def groups_per_chunk(tiling: Tiling, shape: ConvShape, target: Target, *, streamed: bool = True) -> int:
    """Returns the groups of output channels of a chunk: few if the input is transformed before, else many."""
    cost = product_cost(tiling, shape, target, streamed=streamed)
    wanted = useful_chunks(cost)
    if not tiling.fused:
        wanted = max(wanted, cost / _CHUNK_COST)
    return groups_of_chunk(tiling.out_groups, tiling.tile_groups, wanted)


def rating(tiling: Tiling, shape: ConvShape, target: Target, *, streamed: bool = True) -> float:
    """Returns the total cost, load imbalance included."""
    group_chunks = -(-tiling.out_groups // groups_per_chunk(tiling, shape, target, streamed=streamed))
    transforms = input_cost(tiling, target) * (group_chunks if tiling.fused else 1)
    return transforms + product_cost(tiling, shape, target, streamed=streamed) * imbalance_factor(
        group_chunks * tiling.tile_groups
    )


def _first_byte(streamed: bool) -> float:
    """Returns the cost of reading a byte of weights for the first time."""
    return _STREAMED_BYTE if streamed else _RESIDENT_BYTE


def _transform_cost(tiling: Tiling, per_point: tuple[float, float]) -> float:
    """Returns the cost of transforming one vector of a tile."""
    first, each = per_point
    transformed = sum(reach // stride for reach, stride in zip(tiling.reach, tiling.strides, strict=True))
    return prod(tiling.reach) * (first + each * transformed)
