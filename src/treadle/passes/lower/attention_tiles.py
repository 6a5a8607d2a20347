"""The tiling of attention: blocks of queries, and the register blocks of both products."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.passes.lower.gemm_tiles import MAX_ROWS, Tile, cut_rows, panel_cost

_MOST_VECTORS = 2
"""Measured: wider blocks are no faster, and narrow ones make more units for workers to share."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Query blocks of `vectors` vectors, and the register blocks of both products."""

    vectors: int
    keys: Tile
    width: Tile


def choose_tiles(queries: int, keys: int, depth: int, width: int, lanes: int, registers: int, cache: int) -> Tiles:
    """The blocks that need the least time; one vector of queries where more would not fit half of `cache` elements."""
    best: tuple[float, Tiles] | None = None
    total = -(-queries // lanes)
    for vectors in range(1, min(_MOST_VECTORS, total) + 1):
        if vectors > 1 and (depth + keys + width) * vectors * lanes * 2 > cache:
            break
        most = min(MAX_ROWS, (registers - vectors - 1) // vectors)
        if most < 1:
            break
        tiles = Tiles(vectors, cut_rows(keys, most, vectors), cut_rows(width, most, vectors))
        full, rest = divmod(total, vectors)
        cost = full * _block_cost(tiles, vectors, depth, keys) + (_block_cost(tiles, rest, depth, keys) if rest else 0)
        if best is None or cost < best[0] * 0.995:
            best = (cost, tiles)
    assert best is not None, "one vector always fits"
    return best[1]


def _block_cost(tiles: Tiles, vectors: int, depth: int, keys: int) -> float:
    return panel_cost(tiles.keys, vectors, depth) + panel_cost(tiles.width, vectors, keys)
