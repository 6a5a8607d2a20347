"""The reorder kernel: between plain and blocked channels."""

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph
from tests.single_node import SingleNode, to_physical

from treadle import dtypes
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.plan.target import Target

_SHAPES = [
    (1, 1, 1),
    (2, 16, 16, 16),
    (1, 3, 7, 9),
    (2, 35, 5, 13),
    (1, 64, 33),
    (3, 17, 1, 1),
    (0, 4, 4),
    (1, 20, 4, 4, 4),
]


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_both_directions_keep_every_element(target: Target, shape: tuple[int, ...], block: int, dtype: type) -> None:
    """
    Channel counts that fill no block and images that fill no tile come through unchanged.
    """
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    SingleNode("reorder", [x], layouts=(None, Blocked(block))).check(target)
    SingleNode("reorder", [x], layouts=(Blocked(block), None)).check(target)


def test_spare_lanes_are_zero(target: Target) -> None:
    """
    Lanes past the last channel are written as zeros.
    """
    graph = Graph()
    x = graph.input("x", dtypes.f32, (1, 5, 3, 7))
    y = graph.add("reorder", [x]).output
    y.dtype, y.shape, y.layout = dtypes.f32, x.shape, Blocked(8)
    graph.outputs = [y]
    array = np.random.default_rng(0).random((1, 5, 3, 7), np.float32)
    found = run_graph(graph, {"x": array}, target=target)[y.name]
    np.testing.assert_array_equal(found, np.nan_to_num(to_physical(array, Blocked(8)), nan=0.0))


def test_single_pixels_need_no_reordering() -> None:
    """
    Without spatial extent, and with whole blocks, both layouts are the same memory.
    """
    node = SingleNode("reorder", [np.ones((2, 32, 1, 1), np.float32)], layouts=(Blocked(16), None))
    assert lower_graph(node.graph, targets.detect())[0] == []
    node.check()
