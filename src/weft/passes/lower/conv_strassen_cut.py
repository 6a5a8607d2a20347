"""How a pointwise convolution by Strassen's algorithm is cut into tiles, register blocks and chunks, and what it costs.

Costs are in vector multiply-adds: direct convolution at its limit costs the number of its products. The
constants were fitted to measured layers: see docs/adr/0009-strassen.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.conv_tiles import cut_row
from weft.plan.target import Target

SIDES = {2: 7, 4: 49}
"""Pixels of a tile, and the products that it takes: Strassen's algorithm once, and within itself."""

_FLOAT = 4
_MAX_HEIGHT = 16
_MAX_VECTORS = 4
_GROUP_BLOCKS = (1, 2, 3, 4, 6, 8)
_GROUP_SHARE = 0.45
"""The part of L2 that the sums of the input of a group of tiles may fill."""

_INPUT_COST = 3.0
"""Cost of making one vector of the sums of the input."""
_OUTPUT_COST = 4.0
"""Cost of storing one vector of results and adding it up."""
_BLOCK_COST = 20.0
"""Cost of beginning and storing a register block."""
_LEAST_SUMS = 8
"""Register blocks of fewer sums wait for the latency of multiply-adds."""
_FAR_BYTE = 0.2
"""Cost of reading a byte of weights for the first time: models as a whole stay in no cache, and cores share memory."""
_NEAR_BYTE = 0.004
"""Cost of reading it again if the weights are larger than L2."""
_LEAST_GAIN = 1.04
"""How many times faster than direct convolution the model must promise to be."""

_USEFUL_CHUNKS = 8
_LEAST_CHUNK_COST = 16_000.0
"""A convolution is cut into so many chunks, unless they would be smaller."""
_EVENNESS = {1: 0.3, 2: 0.3, 4: 0.25, 8: 0.15}
"""How much it counts that chunks come out even among so many workers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to do a convolution.

    A tile is `side` pixels, a part `side` blocks of channels. Tiles are taken in groups of `group_tiles`, which register
    blocks of `heights` tiles by `vectors` vectors of output channels cover, `counts` of each.
    """

    side: int
    vectors: int
    heights: tuple[int, ...]
    counts: tuple[int, ...]
    images: int
    tiles: int
    group_tiles: int
    in_parts: int
    out_parts: int

    @property
    def products(self) -> int:
        """Smaller products that a tile takes."""
        return SIDES[self.side]

    @property
    def tile_groups(self) -> int:
        """Groups of tiles of an image; the last one may be short."""
        return -(-self.tiles // self.group_tiles)

    @property
    def units(self) -> int:
        """Groups of tiles of all images."""
        return self.images * self.tile_groups

    @property
    def groups(self) -> int:
        """Groups of `vectors` parts of output channels; the last one may be short."""
        return -(-self.out_parts // self.vectors)


def cuts(shape: ConvShape, target: Target) -> Iterator[Cut]:
    """Every cut worth thinking about; none if channels do not come in whole parts."""
    lanes = target.vector_bytes // _FLOAT
    blocks, rest = divmod(shape.channels, lanes)
    pixels = shape.out_size[0] * shape.out_size[1]
    for side, products in SIDES.items():
        if rest or blocks % side:
            continue
        in_parts, out_parts = blocks // side, -(-shape.outputs // (lanes * side))
        tiles = -(-pixels // side)
        room = _GROUP_SHARE * target.l2 / (products * in_parts * lanes * _FLOAT)
        for vectors in range(min(2, out_parts), min(_MAX_VECTORS, out_parts) + 1):
            most = max(1, min(_MAX_HEIGHT, (target.registers - vectors - 1) // vectors))
            sizes = {-(-tiles // -(-tiles // (most * count))) for count in _GROUP_BLOCKS}
            for size in sorted(sizes):
                if size > max(most, room):
                    continue
                widths = cut_row(size, most)
                heights = tuple(sorted(set(widths), reverse=True))
                counts = tuple(widths.count(height) for height in heights)
                yield Cut(side, vectors, heights, counts, shape.images, tiles, size, in_parts, out_parts)


@lru_cache(maxsize=1024)
def choose_cut(shape: ConvShape, target: Target) -> Cut | None:
    """The cheapest cut for an fp32 pointwise convolution; None if direct convolution should be faster."""
    best = min(cuts(shape, target), key=lambda cut: rating(cut, target), default=None)
    if best is None or rating(best, target) * _LEAST_GAIN >= direct_cost(shape, target):
        return None
    return best


def direct_cost(shape: ConvShape, target: Target) -> float:
    """The cost of direct convolution at its limit."""
    lanes = target.vector_bytes // _FLOAT
    vectors = -(-shape.outputs // lanes)
    return shape.multiply_adds / shape.outputs * vectors + _FAR_BYTE * vectors * lanes * shape.channels * _FLOAT


def input_cost(cut: Cut) -> float:
    """The cost of making the sums of the input once."""
    return _INPUT_COST * cut.products * cut.units * cut.group_tiles * cut.in_parts


def product_cost(cut: Cut, target: Target) -> float:
    """The cost of everything after the sums of the input."""
    lanes = target.vector_bytes // _FLOAT
    group = sum(
        count * (cut.in_parts * lanes * max(height * cut.vectors, _LEAST_SUMS) + _BLOCK_COST)
        for height, count in zip(cut.heights, cut.counts, strict=True)
    )
    product = cut.products * group * cut.units * cut.groups
    results = _OUTPUT_COST * cut.products * cut.images * cut.tiles * cut.out_parts
    weights = cut.products * cut.in_parts * lanes * cut.groups * cut.vectors * target.vector_bytes
    again = _NEAR_BYTE * (cut.units - 1) if 2 * weights > target.l2 else 0.0
    return product + results + (_FAR_BYTE + again) * weights


def groups_per_chunk(cut: Cut, target: Target) -> int:
    """Groups of output channels a chunk: many, since each chunk makes the sums of its input anew."""
    wanted = min(float(_USEFUL_CHUNKS), max(1.0, product_cost(cut, target) / _LEAST_CHUNK_COST))
    chunks = min(cut.groups, max(1, round(wanted / cut.units)))
    return -(-cut.groups // chunks)


def rating(cut: Cut, target: Target) -> float:
    """The cost of all, with what is lost where the chunks do not come out even."""
    group_chunks = -(-cut.groups // groups_per_chunk(cut, target))
    chunks = group_chunks * cut.units
    uneven = sum(share * -(-chunks // workers) * workers / chunks for workers, share in _EVENNESS.items())
    return (input_cost(cut) * group_chunks + product_cost(cut, target)) * uneven
