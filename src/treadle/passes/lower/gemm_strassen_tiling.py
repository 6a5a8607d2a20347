"""The tiling of a matrix product by Strassen's algorithm, its partition into chunks, and its cost.

Costs are in vector multiply-adds. The constants were fitted to measured products: see
docs/measurements/strassen-products.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from treadle.dtypes import f32
from treadle.passes.lower.conv.tile_product import imbalance_factor, odd
from treadle.passes.lower.gemm_tiles import MAX_ROWS, MAX_VECTORS, Tile, choose_tile, cut_rows, panel_cost
from treadle.plan.kernels.gemm_strassen import PRODUCTS
from treadle.plan.target import Target

_MOST_ROWS = 128
"""Rows of a tile."""
_LEAST_ROWS = 32
"""With fewer rows a tile waits for the right factor: a pair of panels is read ten times instead of eight."""
_PART = 768
"""Of the depth that is taken at once."""
_LEFT_COST = 65.0
"""Cost of computing seven sums of four vectors of the left factor."""
_DIFFERENCE_COST = 0.3
"""Cost of computing one vector of a difference of the right factor, in each register block."""
_RESULT_COST = 80.0
"""Cost of adding seven vectors of products to four of the result."""
_RESULT_ROOM = 0.3
"""The part of L2 that the results of a chunk may fill."""
_LEAST_REGISTERS = 32
"""With fewer, register blocks have too few rows to hide the computation of differences of the right factor."""
_LEAST_GAIN = 1.04
"""How many times faster than a plain product it must be by the cost model."""


@dataclass(frozen=True, slots=True)
class StrassenTiling:
    """One way to multiply: `tiles` of rows, whose halves register blocks (`tile`) cover; the depth in `parts` of `part`
    each, the last one maybe smaller; `pairs` of panels of columns."""

    rows: int
    tiles: int
    tile_rows: int
    tile: Tile
    part: int
    parts: int
    pairs: int
    pairs_per_chunk: int

    @property
    def half(self) -> int:
        """Rows of the upper half of a tile."""
        return -(-self.tile_rows // 2)

    @property
    def pair_chunks(self) -> int:
        return -(-self.pairs // self.pairs_per_chunk)

    @property
    def chunks(self) -> int:
        return self.tiles * self.pair_chunks

    def sums_row(self, lanes: int) -> int:
        """Elements between two rows of the sums of the left factor."""
        return odd(self.part // 2 // lanes) * lanes


def tilings(matrices: int, rows: int, columns: int, depth: int, target: Target) -> Iterator[StrassenTiling]:
    """Every tiling to consider; none where tiles would reach into the next matrix, or halves are not whole vectors."""
    lanes = target.lanes(f32)
    if depth % (2 * lanes) or rows < _LEAST_ROWS:
        return
    parts = -(-depth // _PART)
    part = -(-depth // (parts * 2 * lanes)) * 2 * lanes
    parts = -(-depth // part)
    for (tiles, tile_rows), vectors in product(_tilings(matrices, rows), range(2, MAX_VECTORS + 1)):
        half, width = -(-tile_rows // 2), vectors * lanes
        pairs, rest = divmod(columns, 2 * width)
        if rest:
            continue
        tile = cut_rows(half, min(MAX_ROWS, (target.registers - vectors - 1) // vectors), vectors)
        most = pairs if parts == 1 else max(1, int(_RESULT_ROOM * target.l2 / (4 * half * width * f32.size)))
        for each in sorted({-(-pairs // count) for count in range(1, pairs + 1)}):
            if each <= most:
                yield StrassenTiling(matrices * rows, matrices * tiles, tile_rows, tile, part, parts, pairs, each)


def _tilings(matrices: int, rows: int) -> Iterator[tuple[int, int]]:
    """(tiles, rows of each) of one of `matrices`: as few tiles as are needed, and twice as many.

    The latter make chunks enough of few columns; the right factor is then read twice.
    """
    fewest = -(-rows // _MOST_ROWS)
    for wanted in (fewest, 2 * fewest):
        tile_rows = -(-rows // wanted)
        tiles = -(-rows // tile_rows)
        if (tiles == fewest or tile_rows >= _LEAST_ROWS) and (matrices == 1 or rows % tile_rows == 0):
            yield tiles, tile_rows


@lru_cache(maxsize=1024)
def choose_tiling(matrices: int, rows: int, columns: int, depth: int, target: Target) -> StrassenTiling | None:
    """The cheapest tiling for [matrices, rows, depth] @ [depth, columns] of fp32; None if a plain product should do."""
    candidates = tilings(matrices, rows, columns, depth, target)
    best = min(candidates, key=lambda tiling: cost(tiling, target), default=None)
    if best is None or target.registers < _LEAST_REGISTERS:
        return None
    lanes = target.lanes(f32)
    tile = choose_tile(matrices * rows, columns, depth, lanes, target.registers)
    plain = panel_cost(tile, tile.vectors, depth) * columns / (tile.vectors * lanes)
    return best if cost(best, target) * _LEAST_GAIN < plain else None


def cost(tiling: StrassenTiling, target: Target) -> float:
    """The cost, with that of load imbalance."""
    half, depth, vectors = tiling.half, tiling.part // 2, tiling.tile.vectors
    left = _LEFT_COST * half * depth / target.lanes(f32) * tiling.parts * tiling.tiles
    products = PRODUCTS * panel_cost(tiling.tile, vectors, depth)
    differences = 3 * _DIFFERENCE_COST * tiling.tile.blocks * depth * vectors
    pair = products + differences + _RESULT_COST * half * vectors
    return left + pair * tiling.parts * tiling.pairs * tiling.tiles * imbalance_factor(tiling.chunks)
