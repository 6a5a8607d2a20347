"""Groups of tiles in Winograd's algorithm: coverage, cache size, chunks."""

from __future__ import annotations

import pytest

from treadle.graph.dim import hint_of
from treadle.graph.facts import Facts
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import blocks_to_choose_from, group_of
from treadle.passes.lower.conv.winograd.cost import tilings
from treadle.passes.lower.searches import imbalance_factor
from treadle.plan.target import Target

SIZES = [(1, 1, 16, 16), (13, 17, 96, 40), (56, 56, 64, 64), (112, 100, 24, 200), (7, 7, 600, 300)]
"""Height, width, channels and outputs."""


def shape_of(height: int, width: int, channels: int, outputs: int) -> ConvShape:
    """Returns a padded convolution of two images."""
    size = height, width
    return ConvShape(2, channels, size, outputs, size, (3, 3), (1, 1), (1, 1), (1, 1), 1)


@pytest.mark.parametrize("sizes", SIZES)
def test_register_blocks_cover_a_group_and_fit(sizes: tuple[int, int, int, int], target: Target) -> None:
    """Blocks make up the whole group; their sums, factors and one pixel fit in the registers."""
    found = list(tilings(shape_of(*sizes), target))
    assert found
    for tiling in found:
        group = tiling.group
        covered = sum(height * count for height, count in zip(group.heights, group.counts, strict=True))
        assert covered == group.size <= tiling.tiles
        assert group.vectors <= tiling.out_blocks
        assert max(group.heights) * group.vectors + group.vectors + 1 <= target.registers


@pytest.mark.parametrize("sizes", SIZES)
def test_groups_of_several_blocks_stay_in_the_cache(sizes: tuple[int, int, int, int], target: Target) -> None:
    """Only a group of a single register block may have more input than L2 holds."""
    for tiling in tilings(shape_of(*sizes), target):
        points, bytes_ = tiling.tile.point_count, tiling.in_blocks * target.vector_bytes
        read = tiling.group.size * points * (bytes_ // 2 if tiling.section_blocks else bytes_)
        assert sum(tiling.group.counts) == 1 or read < target.l2


@pytest.mark.parametrize("out_vectors", [1, 2, 3, 16])
def test_register_blocks_cover_every_open_group(out_vectors: int, target: Target) -> None:
    """Blocks of few heights make up every group that has the least height, and no count is negative."""
    for blocks in blocks_to_choose_from(out_vectors, target, is_open=True):
        for size in range(blocks.least, 8 * blocks.most + 1):
            if size < blocks.least * -(-size // blocks.most):
                continue
            group = group_of(Facts().symbol("n", size) + 0, blocks)
            counts = [hint_of(count) for count in group.counts]
            assert min(counts) >= 0
            assert sum(height * count for height, count in zip(group.heights, counts, strict=True)) == size
            assert len(counts) <= 4


@pytest.mark.parametrize("sizes", SIZES)
def test_chunks_cover_all_groups_of_outputs(sizes: tuple[int, int, int, int], target: Target) -> None:
    """Chunks of equal groups cover all of them; there are several only if each costs more than drawing it."""
    for tiling in tilings(shape_of(*sizes), target):
        assert 1 <= tiling.groups_per_chunk <= tiling.out_groups
        assert tiling.group_chunks == 1 or tiling.product_cost > 16_000
        assert tiling.total_cost >= tiling.input_cost + tiling.product_cost - 2


def test_eight_chunks_balance_every_number_of_workers() -> None:
    """Multiples of eight chunks have no load imbalance; one chunk or seven have."""
    assert imbalance_factor(8) == imbalance_factor(24) == pytest.approx(1.0)
    assert imbalance_factor(1) > imbalance_factor(7) > 1.0
