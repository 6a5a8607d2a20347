"""How a pointwise convolution by Strassen's algorithm is cut into tiles, register blocks and chunks, and what it costs.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/measurements/strassen-convolutions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from treadle.dtypes import f32
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.conv_tile_groups import (
    TileGroup,
    groups_of_chunk,
    imbalance_factor,
    tile_groups,
    useful_chunks,
)
from treadle.plan.target import Target

SIDES = {2: 7, 4: 49}
"""Pixels of a tile, and the products that it takes: Strassen's algorithm once, and within itself."""

_INPUT_COST = 3.0
"""Cost of making one vector of the sums of the input."""
_OUTPUT_COST = 4.0
"""Cost of storing one vector of results and adding it up."""
_BLOCK_COST = 20.0
"""Cost of beginning and storing a register block."""
_FAR_BYTE = 0.2
"""Cost of reading a byte of weights for the first time: models as a whole stay in no cache, and cores share memory."""
_NEAR_BYTE = 0.004
"""Cost of reading it again if the weights are larger than L2."""
_LEAST_GAIN = 1.04
"""How many times faster than direct convolution the model must promise to be."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to do a convolution, a `group` of tiles after another.

    A tile is `side` pixels, a part `side` blocks of channels.
    """

    side: int
    group: TileGroup
    images: int
    tiles: int
    in_parts: int
    out_parts: int

    @property
    def products(self) -> int:
        """Smaller products that a tile takes."""
        return SIDES[self.side]

    @property
    def tile_groups(self) -> int:
        """Groups of tiles of an image; the last one may be short."""
        return -(-self.tiles // self.group.size)

    @property
    def units(self) -> int:
        """Groups of tiles of all images."""
        return self.images * self.tile_groups

    @property
    def out_groups(self) -> int:
        """Groups of as many parts of output channels as a register block has vectors; the last one may be short."""
        return -(-self.out_parts // self.group.vectors)


def cuts(shape: ConvShape, target: Target) -> Iterator[Cut]:
    """Every cut worth thinking about; none if channels do not come in whole parts."""
    lanes = target.lanes(f32)
    blocks, rest = divmod(shape.channels, lanes)
    pixels = shape.out_size[0] * shape.out_size[1]
    for side, products in SIDES.items():
        if rest or blocks % side:
            continue
        in_parts, out_parts = blocks // side, -(-shape.outputs // (lanes * side))
        tiles = -(-pixels // side)
        tile_bytes = products * in_parts * lanes * f32.size
        for group in tile_groups(tiles, out_parts, tile_bytes, target):
            yield Cut(side, group, shape.images, tiles, in_parts, out_parts)


@lru_cache(maxsize=1024)
def choose_cut(shape: ConvShape, target: Target) -> Cut | None:
    """The cheapest cut for an fp32 pointwise convolution; None if direct convolution should be faster."""
    best = min(cuts(shape, target), key=lambda cut: rating(cut, target), default=None)
    if best is None or rating(best, target) * _LEAST_GAIN >= direct_cost(shape, target):
        return None
    return best


def direct_cost(shape: ConvShape, target: Target) -> float:
    """The cost of direct convolution at its limit."""
    lanes = target.lanes(f32)
    vectors = -(-shape.outputs // lanes)
    return shape.multiply_adds / shape.outputs * vectors + _FAR_BYTE * vectors * lanes * shape.channels * f32.size


def input_cost(cut: Cut) -> float:
    """The cost of making the sums of the input once."""
    return _INPUT_COST * cut.products * cut.units * cut.group.size * cut.in_parts


def product_cost(cut: Cut, target: Target) -> float:
    """The cost of everything after the sums of the input."""
    channels = cut.in_parts * target.lanes(f32)
    product = cut.products * cut.group.cost(channels, _BLOCK_COST) * cut.units * cut.out_groups
    results = _OUTPUT_COST * cut.products * cut.images * cut.tiles * cut.out_parts
    weights = cut.products * channels * cut.out_groups * cut.group.vectors * target.vector_bytes
    again = _NEAR_BYTE * (cut.units - 1) if 2 * weights > target.l2 else 0.0
    return product + results + (_FAR_BYTE + again) * weights


def groups_per_chunk(cut: Cut, target: Target) -> int:
    """Groups of output channels a chunk: many, since each chunk makes the sums of its input anew."""
    return groups_of_chunk(cut.out_groups, cut.units, useful_chunks(product_cost(cut, target)))


def rating(cut: Cut, target: Target) -> float:
    """The cost of all, with what is lost where the chunks do not come out even."""
    group_chunks = -(-cut.out_groups // groups_per_chunk(cut, target))
    return (input_cost(cut) * group_chunks + product_cost(cut, target)) * imbalance_factor(group_chunks * cut.units)
