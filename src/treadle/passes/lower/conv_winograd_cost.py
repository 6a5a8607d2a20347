"""What a Winograd convolution costs, cut in one way or another, and when it pays.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/measurements/winograd.md.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from treadle.dtypes import f32
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.conv_tile_groups import groups_of_chunk, imbalance_factor, useful_chunks
from treadle.passes.lower.conv_winograd_cut import Cut, cuts
from treadle.plan.target import Target

_INPUT_COST = (1.2, 0.45)
_OUTPUT_COST = (0.7, 0.3)
"""Cost of transforming one vector of input, and of output, channels of a tile: for each point, the first number
plus the second for each of the points along both of its axes; with stride 2 half of them are not transformed."""
_BLOCK_COST = 40.0
"""Cost of beginning and storing a register block."""
_FAR_BYTE = 0.3
"""Cost of reading a byte of weights for the first time from memory, which cores share."""
_HELD_BYTE = 0.08
"""The same if all of the model's weights stay in the last cache."""
_NEAR_BYTE = 0.01
"""Cost of reading it again if the weights are larger than L2."""
_PASSED_BYTE = 0.2
"""Cost of handing a byte of transformed input from one call to the next outside L2; inside, _KEPT_SHARE of it."""
_KEPT_SHARE = 0.4
_FACTOR_COST = 4.5
"""Cost of making one vector of a section's weights for one point."""
_CALL_COST = 3000.0
"""Cost of one more call that every worker waits for."""
_LEAST_GAIN = 1.1
"""How many times faster than direct convolution the model must promise to be."""

_CHUNK_COST = 80_000.0
"""A convolution whose input is at hand is cut into chunks of this cost, or smaller ones where they would be too few."""


@lru_cache(maxsize=1024)
def choose_cut(shape: ConvShape, target: Target, *, streamed: bool = True, pairs: bool = False) -> Cut | None:
    """The cheapest cut for an fp32 convolution; None if direct convolution should be faster.

    `streamed`: the model's weights do not stay in the caches from one run to the next, here and in all functions below.
    `pairs`: direct convolution would multiply pairs of bf16.
    """
    best = min(cuts(shape, target), key=lambda cut: rating(cut, shape, target, streamed=streamed), default=None)
    if best is None:
        return None
    promised = rating(best, shape, target, streamed=streamed) * _LEAST_GAIN
    return None if promised >= direct_cost(shape, target, streamed=streamed, pairs=pairs) else best


def direct_cost(shape: ConvShape, target: Target, *, streamed: bool = True, pairs: bool = False) -> float:
    """The cost of direct convolution at its limit; with `pairs` of bf16 that of half the products and bytes."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    weights = vectors * lanes * shape.channels * prod(shape.kernel) * f32.size
    cost = shape.multiply_adds / shape.outputs * vectors + _first_byte(streamed) * weights
    return cost / 2 if pairs else cost


def input_cost(cut: Cut, target: Target) -> float:
    """The cost of transforming the input once."""
    cost = _transform_cost(cut, _INPUT_COST) * cut.group.size * cut.tile_groups * cut.in_blocks
    if cut.fused:
        return cost
    size = prod(cut.reach) * cut.tile_groups * cut.group.size * cut.in_blocks * target.vector_bytes
    return cost + _CALL_COST + size * _PASSED_BYTE * (1.0 if 2 * size > target.l2 else _KEPT_SHARE)


def product_cost(cut: Cut, shape: ConvShape, target: Target, *, streamed: bool = True) -> float:
    """The cost of everything after the transform of the input."""
    group = cut.group.cost(shape.channels, _BLOCK_COST * cut.sections)
    product = prod(cut.reach) * group * cut.tile_groups * cut.out_groups
    vectors = shape.channels * cut.out_groups * cut.group.vectors
    weights = vectors * target.vector_bytes * prod(shape.kernel if cut.section_blocks else cut.factors)
    again = _NEAR_BYTE * (cut.tile_groups - 1) if 2 * weights > target.l2 else 0.0
    if cut.section_blocks:
        product += _FACTOR_COST * prod(cut.factors) * vectors * cut.tile_groups
    return (
        product
        + _transform_cost(cut, _OUTPUT_COST) * cut.tiles * cut.out_blocks
        + (_first_byte(streamed) + again) * weights
    )


def groups_per_chunk(cut: Cut, shape: ConvShape, target: Target, *, streamed: bool = True) -> int:
    """Groups of output channels a chunk: few if the input is at hand, many if each chunk must transform it."""
    cost = product_cost(cut, shape, target, streamed=streamed)
    wanted = useful_chunks(cost)
    if not cut.fused:
        wanted = max(wanted, cost / _CHUNK_COST)
    return groups_of_chunk(cut.out_groups, cut.tile_groups, wanted)


def rating(cut: Cut, shape: ConvShape, target: Target, *, streamed: bool = True) -> float:
    """The cost of all, with what is lost where chunks do not come out even."""
    group_chunks = -(-cut.out_groups // groups_per_chunk(cut, shape, target, streamed=streamed))
    transforms = input_cost(cut, target) * (group_chunks if cut.fused else 1)
    return transforms + product_cost(cut, shape, target, streamed=streamed) * imbalance_factor(
        group_chunks * cut.tile_groups
    )


def _first_byte(streamed: bool) -> float:
    return _FAR_BYTE if streamed else _HELD_BYTE


def _transform_cost(cut: Cut, per_point: tuple[float, float]) -> float:
    """The cost of transforming one vector of a tile."""
    first, each = per_point
    transformed = sum(reach // stride for reach, stride in zip(cut.reach, cut.strides, strict=True))
    return prod(cut.reach) * (first + each * transformed)
