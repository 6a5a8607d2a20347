"""What a Winograd convolution costs, cut in one way or another, and when it pays.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/adr/0003-winograd.md.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from weft.dtypes import f32
from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_tile_groups import groups_of_chunk, unevenness, useful_chunks
from weft.passes.lower.conv_winograd_cut import Cut, cuts
from weft.plan.target import Target

_INPUT_COST = (1.2, 0.45)
_OUTPUT_COST = (0.7, 0.3)
"""Cost of transforming one vector of input, and of output, channels of a tile: for each point, the first number
plus the second for each of the points along both of its axes; with stride 2 half of them are not transformed."""
_BLOCK_COST = 40.0
"""Cost of beginning and storing a register block."""
_FAR_BYTE = 0.08
"""Cost of reading a byte of weights for the first time: models as a whole stay in no cache, and cores share memory."""
_NEAR_BYTE = 0.01
"""Cost of reading it again if the weights are larger than L2."""
_PASSED_BYTE = 0.2
"""Cost of handing a byte of transformed input from one call to the next outside L2; inside, _KEPT_SHARE of it."""
_KEPT_SHARE = 0.4
_CALL_COST = 3000.0
"""Cost of one more call that every worker waits for."""
_LEAST_GAIN = 1.1
"""How many times faster than direct convolution the model must promise to be."""

_CHUNK_COST = 80_000.0
"""A convolution whose input is at hand is cut into chunks of this cost, or smaller ones where they would be too few."""


@lru_cache(maxsize=1024)
def choose_cut(shape: ConvShape, target: Target, *, pairs: bool = False) -> Cut | None:
    """The cheapest cut for an fp32 convolution; None if direct convolution should be faster.

    `pairs`: direct convolution would multiply pairs of bf16.
    """
    best = min(cuts(shape, target), key=lambda cut: rating(cut, shape, target), default=None)
    if best is None or rating(best, shape, target) * _LEAST_GAIN >= direct_cost(shape, target, pairs=pairs):
        return None
    return best


def direct_cost(shape: ConvShape, target: Target, *, pairs: bool = False) -> float:
    """The cost of direct convolution at its limit; with `pairs` of bf16 that of half the products and bytes."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    weights = vectors * lanes * shape.channels * prod(shape.kernel) * f32.size
    cost = shape.multiply_adds / shape.outputs * vectors + _FAR_BYTE * weights
    return cost / 2 if pairs else cost


def input_cost(cut: Cut, target: Target) -> float:
    """The cost of transforming the input once."""
    cost = _transform_cost(cut, _INPUT_COST) * cut.group.size * cut.tile_groups * cut.in_blocks
    if cut.fused:
        return cost
    size = prod(cut.reach) * cut.tile_groups * cut.group.size * cut.in_blocks * target.vector_bytes
    return cost + _CALL_COST + size * _PASSED_BYTE * (1.0 if 2 * size > target.l2 else _KEPT_SHARE)


def product_cost(cut: Cut, shape: ConvShape, target: Target) -> float:
    """The cost of everything after the transform of the input."""
    group = cut.group.cost(shape.channels, _BLOCK_COST)
    product = prod(cut.reach) * group * cut.tile_groups * cut.out_groups
    weights = prod(cut.factors) * shape.channels * cut.out_groups * cut.group.vectors * target.vector_bytes
    again = _NEAR_BYTE * (cut.tile_groups - 1) if 2 * weights > target.l2 else 0.0
    return product + _transform_cost(cut, _OUTPUT_COST) * cut.tiles * cut.out_blocks + (_FAR_BYTE + again) * weights


def groups_per_chunk(cut: Cut, shape: ConvShape, target: Target) -> int:
    """Groups of output channels a chunk: few if the input is at hand, many if each chunk must transform it."""
    cost = product_cost(cut, shape, target)
    wanted = useful_chunks(cost)
    if not cut.fused:
        wanted = max(wanted, cost / _CHUNK_COST)
    return groups_of_chunk(cut.out_groups, cut.tile_groups, wanted)


def rating(cut: Cut, shape: ConvShape, target: Target) -> float:
    """The cost of all, with what is lost where chunks do not come out even."""
    group_chunks = -(-cut.out_groups // groups_per_chunk(cut, shape, target))
    transforms = input_cost(cut, target) * (group_chunks if cut.fused else 1)
    return transforms + product_cost(cut, shape, target) * unevenness(group_chunks * cut.tile_groups)


def _transform_cost(cut: Cut, per_point: tuple[float, float]) -> float:
    """The cost of transforming one vector of a tile."""
    first, each = per_point
    transformed = sum(reach // stride for reach, stride in zip(cut.reach, cut.strides, strict=True))
    return prod(cut.reach) * (first + each * transformed)
