"""The attention kernel in every chunk order, and how its blocks are chosen."""

import numpy as np
import pytest
from tests.kernel_runner import run_graph
from tests.ops.attention import CASES
from tests.ops.case import graph_of

from treadle.passes.lower.attention_tiles import choose_tiles
from treadle.plan.target import Target


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_chunks_may_run_in_any_order(case, target: Target) -> None:
    """
    Chunks write disjoint memory, stay inside their scratch and outputs, and give the same bits in both orders.
    """
    graph, inputs = graph_of(case)
    forward, backward = (run_graph(graph_of(case)[0], inputs, target=target, reverse_chunks=r) for r in (False, True))

    for value in graph.outputs:
        assert forward[value.name].tobytes() == backward[value.name].tobytes()
        assert forward[value.name].dtype == np.dtype(value.known_dtype.numpy)


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 100, 512])
@pytest.mark.parametrize("keys", [1, 9, 77, 20_000])
def test_blocks_cover_all_rows(queries: int, keys: int) -> None:
    """
    Register blocks cover keys and width exactly; long rows of scores are kept to one vector of queries.
    """
    tiles = choose_tiles(queries, keys, 64, 24, lanes=16, registers=32, cache=1 << 18)

    for rows, tile in ((keys, tiles.keys), (24, tiles.width)):
        small = tile.blocks - tile.large_blocks
        assert tile.large_blocks * tile.heights[0] + small * tile.heights[-1] == rows
    assert tiles.vectors * 16 < queries + 16
    assert keys < 20_000 or tiles.vectors == 1
