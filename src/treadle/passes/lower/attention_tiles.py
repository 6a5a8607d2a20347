"""The tiling of attention: blocks of queries, and the register blocks of both products."""

from __future__ import annotations

from dataclasses import replace

from treadle.graph.dim import ceil_div, hint_of, is_expression, maximum
from treadle.passes.lower.gemm_tiles import (
    MANY_ROWS,
    MAX_OPEN_ROWS,
    MAX_ROWS,
    Tile,
    cut_rows,
    panel_cost,
)
from treadle.records import dataclass

_MOST_VECTORS = 2
"""Measured: wider blocks are no faster, and narrow ones make more units for workers to share."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Query blocks of `vectors` vectors, and the register blocks of both products."""

    vectors: int
    keys: Tile
    width: Tile


def choose_tiles(
    queries: int,
    keys: int,
    depth: int,
    width: int,
    lanes: int,
    registers: int,
    cache: int,
    *,
    any_number: bool = False,
    fewer_keys: bool = False,
) -> Tiles:
    """The blocks that need the least time; one vector of queries where more would not fit half of `cache` elements.

    The time of open sizes is that of many queries and many keys. With `any_number`, matrices may have fewer queries and
    keys than given, with `fewer_keys` fewer keys.
    """
    open_keys = any_number or fewer_keys or is_expression(keys)
    best: tuple[float, Tiles] | None = None
    total = ceil_div(MANY_ROWS if any_number or is_expression(queries) else queries, lanes)
    turns = MANY_ROWS if open_keys else keys
    for vectors in range(1, min(_MOST_VECTORS, total) + 1):
        if vectors > 1 and (depth + hint_of(keys) + width) * vectors * lanes * 2 > cache:
            break
        most = min(MAX_ROWS, (registers - vectors - 1) // vectors)
        if most < 1:
            break
        height = min(most, MAX_OPEN_ROWS) if open_keys and vectors > 1 else most
        tiles = Tiles(vectors, cut_rows(turns, height, vectors), cut_rows(width, most, vectors))
        full, rest = divmod(total, vectors)
        cost = full * _block_cost(tiles, vectors, depth, turns)
        cost += _block_cost(tiles, rest, depth, turns) if rest else 0
        if best is None or cost < best[0] * 0.995:
            best = (cost, replace(tiles, keys=_cut_open_keys(keys, height, vectors)) if open_keys else tiles)
    assert best is not None, "one vector always fits"
    return best[1]


def _cut_open_keys(keys: int, most: int, vectors: int) -> Tile:
    """As few register blocks as `keys` need of `most` keys each, of two heights: the small blocks overlap where they
    have more keys than are left for them."""
    if most == 1:
        return Tile((1,), keys, keys, vectors)
    blocks = ceil_div(keys, most)
    return Tile((most, most - 1), blocks, maximum(keys - blocks * (most - 1), 0), vectors)


def _block_cost(tiles: Tiles, vectors: int, depth: int, keys: int) -> float:
    return panel_cost(tiles.keys, vectors, depth) + panel_cost(tiles.width, vectors, keys)
