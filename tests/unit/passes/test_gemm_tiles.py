"""The tiling of matrix products into register blocks, and their partition into chunks."""

from __future__ import annotations

import pytest

from treadle.dtypes import f32
from treadle.graph.dim import minimum
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.gemm_tiles import (
    NO_PREFETCH,
    Grid,
    Parts,
    Prefetched,
    Tile,
    choose_grid,
    choose_tile,
    cut_open_rows,
    prefetched,
)
from treadle.passes.lower.matmul import lower_matmul
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.kernels.register_block import UNROLL, shared_lines
from treadle.plan.target import Target

SIZES = [(1, 1, 1), (1, 1000, 2048), (7, 5, 3), (64, 384, 1536), (128, 768, 768), (128, 3072, 768), (1000, 16, 64)]
TARGET = Target("avx512", "x86_64-unknown-linux-gnu", "", "", 64, 32, 1 << 15, 1 << 20, 1 << 25)
REGISTERS = [(16, 32), (8, 16), (4, 16), (2, 16)]


@pytest.mark.parametrize(("lanes", "registers"), REGISTERS)
@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES)
def test_a_block_fits_the_registers_and_blocks_cover_the_rows(
    rows: int, depth: int, columns: int, lanes: int, registers: int
) -> None:
    """
    Sums, one row of the right factor and one broadcast element have a register each; heights differ by one at most.
    """
    tile = choose_tile(rows, columns, depth, lanes, registers)
    assert tile.heights[0] * tile.vectors + tile.vectors + 1 <= registers
    small = tile.blocks - tile.large_blocks
    assert tile.large_blocks * tile.heights[0] + small * tile.heights[-1] == rows
    assert len(tile.heights) == 1 or tile.heights[0] - tile.heights[1] == 1


@pytest.mark.parametrize("most", [1, 2, 3, 6, 9])
def test_blocks_of_an_open_number_of_rows_cover_them(most: int) -> None:
    """
    Whatever the number turns out to be: as few blocks as it needs, of two heights that differ by one and that the
    kernel has.
    """
    for rows in range(1, 100):
        tile = cut_open_rows(rows, most, 4)
        small = tile.blocks - tile.large_blocks
        assert tile.blocks == -(-rows // most)
        assert tile.large_blocks * tile.height + small * (tile.height - 1) == rows
        assert tile.large_blocks >= 0 <= small
        assert tile.height in tile.heights
        assert not small or tile.height - 1 in tile.heights


def test_a_width_that_wastes_no_columns_is_preferred() -> None:
    """
    63 vectors of columns make panels of three vectors, not of four.
    """
    assert choose_tile(64, 63 * 16, 512, 16, 32).vectors == 3
    assert choose_tile(64, 64 * 16, 512, 16, 32).vectors == 4


def grid_of(tile: Tile, panels: int, batches: int, block_ns: float) -> Grid:
    return choose_grid(tile, panels, batches, block_ns, 4e5, 2e6, TARGET, copies=False)


@pytest.mark.parametrize(
    ("blocks", "panels", "batches"), [(1, 1, 1), (15, 16, 1), (1, 300, 1), (2000, 1, 1), (3, 2, 500)]
)
def test_chunks_cover_every_block_once(blocks: int, panels: int, batches: int) -> None:
    """
    Each dimension is covered, and no chunk is empty.
    """
    grid = grid_of(Tile((9,), blocks, blocks, 3), panels, batches, 1000.0)
    for each, count, total in (
        (grid.batches, grid.batch_chunks, batches),
        (grid.blocks, grid.block_chunks, blocks),
        (grid.panels, grid.panel_chunks, panels),
    ):
        assert each * count >= total > each * (count - 1)


@pytest.mark.parametrize(("blocks", "panels"), [(2, 100), (100, 2)])
def test_long_and_wide_products_are_both_cut(blocks: int, panels: int) -> None:
    """
    Few rows with many columns, and the reverse, give chunks for several workers.
    """
    assert grid_of(Tile((9,), blocks, blocks, 3), panels, 1, 2000.0).chunks >= 8


def test_small_matrices_of_a_batch_share_a_chunk() -> None:
    """
    A chunk of tiny products holds many of them.
    """
    grid = grid_of(Tile((8,), 4, 4, 2), 1, 256, 150.0)
    assert 2 <= grid.chunks <= 16


def test_short_products_have_blocks_of_one_height() -> None:
    """
    Where blocks end often, those of one height that divides the rows are taken, even if they are smaller.
    """
    assert choose_tile(64, 64, 64, 16, 32) == Tile((4,), 16, 16, 4)
    assert choose_tile(64, 64, 1024, 16, 32).heights == (6, 5)


@pytest.mark.parametrize(("blocks", "lines"), [(2, 6), (5, 3), (8, 2), (16, 1), (17, 0)])
def test_blocks_share_what_is_fetched_ahead(blocks: int, lines: int) -> None:
    """
    The blocks of a chunk ask for all of a later panel together, unless there are so many that the first one's wait is
    nothing.
    """
    found = prefetched(Grid(1, blocks, 1, 1, 1, 4), Parts.whole(256), 3 * 64, 256 * 3 * 64, TARGET.machine, alone=True)

    assert found == Prefetched(lines, lines, 2 * 256 * 3 * 64 if lines else 0)
    assert lines == 0 or lines * blocks >= 4 * 3


@pytest.mark.parametrize(("panels", "length"), [(1, 256), (4, 8)])
def test_a_single_block_asks_for_what_it_reads_soon(panels: int, length: int) -> None:
    """
    It asks for each line once, as early as memory needs, of all panels that it reads by turns together; but for none
    where the model's weights stay in L2.
    """
    machine = TARGET.machine
    parts = Parts(length, panels, several=panels > 1, share=1.0)
    found = prefetched(Grid(1, 1, 4, 1, 1, 4), parts, 3 * 64, 256 * 3 * 64, machine, alone=True)

    assert found.lines == found.most == UNROLL * 3
    assert prefetched(Grid(1, 1, 4, 1, 1, 4), parts, 3 * 64, 256 * 3 * 64, machine, alone=False) == NO_PREFETCH
    under_way = (found.ahead - (length * 3 * 64 if panels > 1 else 0)) * panels
    assert 0 <= under_way - machine.memory_latency_ns * machine.memory_bytes_per_ns < 64 * panels


def test_open_numbers_of_blocks_share_what_is_fetched_ahead() -> None:
    """
    A kernel for any number of blocks has code for the most lines, and is told how many, and where, when it is bound.
    """
    facts = Facts()
    blocks = facts.symbol("blocks", 10)
    parts = Parts(8 + minimum(blocks - 1, 1) * 248, 4, several=True, share=1.0)
    found = prefetched(Grid(1, blocks, 1, 1, blocks, 4), parts, 3 * 64, 256 * 3 * 64, TARGET.machine, alone=True)
    by_turns = Parts(8, 4, several=True, share=1.0)
    single = prefetched(Grid(1, 1, 1, 1, 1, 4), by_turns, 3 * 64, 0, TARGET.machine, alone=True)
    near = prefetched(Grid(1, blocks, 1, 1, blocks, 4), parts, 3 * 64, 256 * 3 * 64, TARGET.machine, alone=False)

    lines = {number: evaluate(found.lines, {"blocks": number}) for number in (1, 2, 3, 4, 5, 100)}
    ahead = {number: evaluate(found.ahead, {"blocks": number}) for number in (1, 2, 100)}

    assert lines == {1: 12, 2: 6, 3: 4, 4: 3, 5: 3, 100: 3}
    assert found.most == near.most == 12
    assert {number: evaluate(near.lines, {"blocks": number}) for number in lines} == {**lines, 1: 0}
    assert set(lines.values()) == set(shared_lines(12))
    assert ahead == {1: single.ahead, 2: 256 * 3 * 64, 100: 256 * 3 * 64}


@pytest.mark.parametrize(("blocks", "lines"), [(5, 3), (40, 1)])
def test_chunks_of_products_in_parts_ask_for_the_next_panel(blocks: int, lines: int) -> None:
    """
    However many blocks there are: what a part of the depth takes is read soon.
    """
    parts = Parts(64, 4, several=True, share=0.25)
    found = prefetched(Grid(1, blocks, 1, 1, 1, 4), parts, 3 * 64, 256 * 3 * 64, TARGET.machine, alone=True)

    assert found == Prefetched(lines, lines, 256 * 3 * 64)


@pytest.mark.parametrize(("size", "asked"), [(768, False), (2048, True)])
def test_panels_that_a_call_packs_are_asked_for_where_the_product_leaves_the_caches(size: int, asked: bool) -> None:
    """
    Three matrices of 16 MB do not fit 32 MB of L3: the depth is multiplied in parts, too. What lies in a cache need not
    be asked for.
    """
    target = TARGET
    graph = Graph()
    factors = [graph.input(name, f32, (size, size)) for name in "ab"]
    node = graph.add("matmul", factors, {"transpose_a": False, "transpose_b": False}, outputs=1)
    node.output.dtype, node.output.shape = f32, (size, size)

    packing, multiplying = lower_matmul(node, LowerContext(graph, target)) or ()

    assert [call.spec and call.spec.family for call in (packing, multiplying)] == ["gemm_pack", "gemm"]
    assert isinstance(multiplying.spec, GemmSpec)
    assert (multiplying.spec.prefetch_lines > 0) == asked
    assert multiplying.spec.parts == asked
