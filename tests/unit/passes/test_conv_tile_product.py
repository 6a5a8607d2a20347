"""Groups of tiles in Winograd's algorithm: coverage, cache size, chunks."""

from __future__ import annotations

import pytest

from treadle.passes.lower.conv.tile_product import (
    TileGroup,
    groups_of_chunk,
    tile_groups,
    useful_chunks,
)
from treadle.passes.lower.searches import imbalance_factor
from treadle.plan.target import Target

CASES = [(1, 1, 4_000), (13, 2, 40_000), (196, 3, 64_000), (3136, 16, 9_000), (50, 7, 10**9)]
"""Tiles, vectors of outputs, bytes of a tile's input."""


@pytest.mark.parametrize("case", CASES)
def test_register_blocks_cover_a_group_and_fit(case: tuple[int, int, int], target: Target) -> None:
    """Blocks make up the whole group; their sums, factors and one pixel fit in the registers."""
    tiles, out_vectors, tile_bytes = case
    groups = list(tile_groups(tiles, out_vectors, tile_bytes, target))
    assert groups
    for group in groups:
        covered = sum(height * count for height, count in zip(group.heights, group.counts, strict=True))
        assert covered == group.size <= tiles
        assert group.vectors <= out_vectors
        assert max(group.heights) * group.vectors + group.vectors + 1 <= target.registers


@pytest.mark.parametrize("case", CASES)
def test_groups_of_several_blocks_stay_in_the_cache(case: tuple[int, int, int], target: Target) -> None:
    """Only a group of a single register block may have more input than L2 holds."""
    tiles, out_vectors, tile_bytes = case
    for group in tile_groups(tiles, out_vectors, tile_bytes, target):
        assert sum(group.counts) == 1 or group.size * tile_bytes < target.l2


def test_wider_blocks_cost_less_a_product() -> None:
    """A block of few sums waits as long as one of eight, and every block costs what beginning and storing it does."""
    assert TileGroup(1, 2, (1,), (1,)).cost(16, 40.0) == 16 * 8 + 40.0
    assert TileGroup(14, 2, (7,), (2,)).cost(16, 40.0) == 2 * (16 * 14 + 40.0)


def test_chunks_cover_all_groups_of_outputs() -> None:
    """Chunks of equal groups cover all of them, in about the number wanted and never more than there are groups."""
    assert groups_of_chunk(out_groups=16, tile_groups=1, chunks=8.0) == 2
    assert groups_of_chunk(out_groups=16, tile_groups=4, chunks=8.0) == 8
    assert groups_of_chunk(out_groups=16, tile_groups=100, chunks=8.0) == 16
    assert groups_of_chunk(out_groups=3, tile_groups=1, chunks=8.0) == 1


def test_small_convolutions_have_one_chunk() -> None:
    """There are several chunks only if each costs more than drawing it."""
    assert useful_chunks(100.0) == 1.0
    assert useful_chunks(1e9) == useful_chunks(1e12) > 1.0


def test_eight_chunks_balance_every_number_of_workers() -> None:
    """Multiples of eight chunks have no load imbalance; one chunk or seven have."""
    assert imbalance_factor(8) == imbalance_factor(24) == pytest.approx(1.0)
    assert imbalance_factor(1) > imbalance_factor(7) > 1.0
