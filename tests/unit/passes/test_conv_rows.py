"""How direct convolutions divide rows into register blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.passes.lower.conv.open_rows import row_tiling
from treadle.passes.lower.conv.rows import MAX_SEGMENTS, RowTiling, choose_row_tiling
from treadle.passes.lower.conv.shape import ConvShape

_SHAPE = ConvShape(
    images=1, channels=144, size=(56, 56), outputs=24, out_size=(56, 56), kernel=(1, 1), strides=(1, 1),
    dilations=(1, 1), pads=(0, 0), groups=1,
)  # fmt: skip


def _tile(outputs: int, *, halves: bool = True, groups: int = 1) -> RowTiling:
    return choose_row_tiling(replace(_SHAPE, outputs=outputs, groups=groups), 16, 32, halves=halves)


@pytest.mark.parametrize(("outputs", "vectors"), [(1, 1), (8, 1), (20, 2), (24, 2), (40, 3)])
def test_half_a_vector_is_computed_where_it_holds_all_that_is_left(outputs: int, vectors: int) -> None:
    """
    8, 24 or 40 outputs need half of the last of their 1, 2 or 3 vectors, and blocks leave the compiler registers.
    """
    tile = _tile(outputs)
    assert (tile.halved, tile.vectors) == (True, vectors)
    assert max(map(len, tile.segments)) * vectors <= 32 - 6 - vectors


@pytest.mark.parametrize("outputs", [9, 16, 32, 48, 58, 96, 116])
def test_vectors_are_whole_where_more_is_left_or_groups_follow(outputs: int) -> None:
    """
    A last vector more than half full is computed whole, and so is one that only the last of several groups has.
    """
    assert not _tile(outputs).halved


def test_half_vectors_are_chosen_only_where_they_are_cheaper() -> None:
    """
    Where the CPU or the number format has no use for half vectors, and in grouped convolutions, there are none.
    """
    assert not _tile(24, halves=False).halved
    assert not _tile(24, groups=3).halved


@pytest.mark.parametrize("outputs", [16, 80, 112])
def test_blocks_of_one_vector_are_so_wide_that_loading_it_takes_little(outputs: int) -> None:
    """
    1, 5 or 7 vectors of outputs are taken one at a time, each time for 28 pixels.
    """
    tile = _tile(outputs)
    assert (tile.vectors, {len(segment) for segment in tile.segments}) == (1, {28})


@pytest.mark.parametrize("outputs", [24, 40, 96])
@pytest.mark.parametrize("halves", [False, True])
def test_blocks_cover_a_row_exactly(outputs: int, halves: bool) -> None:
    """
    The blocks of all segments, laid side by side, are the row.
    """
    tile = _tile(outputs, halves=halves)
    assert tile.flat
    assert sum(len(s) * count for s, (_, count) in zip(tile.segments, tile.spans, strict=True)) == 56 * 56


@pytest.mark.parametrize(("dilation", "in_runs"), [(1, False), (6, True)])
def test_rows_of_far_dilated_kernels_are_divided_at_run_time(dilation: int, in_runs: bool) -> None:
    """
    Blocks at the ends of a row would otherwise come in more forms than a kernel has code for.
    """
    shape = replace(_SHAPE, kernel=(1, 9), dilations=(1, dilation), pads=(0, 4 * dilation), outputs=64)
    found = row_tiling(shape, 8, 16)
    assert found is not None
    assert found.in_runs == in_runs
    assert in_runs or len(found.segments) <= MAX_SEGMENTS


def test_bytes_are_not_multiplied_in_runs() -> None:
    shape = replace(_SHAPE, kernel=(1, 9), dilations=(1, 6), pads=(0, 24), outputs=64)
    found = row_tiling(shape, 8, 16, runs=False)
    assert found is not None
    assert not found.in_runs
