"""Nodes that a front end makes once the shapes of operands are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import ModelError, ShapeError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.ops.deferred import DeferredNodes
from treadle.ops.evaluate import infer_node, results_of
from treadle.ops.op import Info

built: list[tuple[Info, ...]] = []


def doubled(infos: Sequence[Info]) -> Graph:
    """Returns x + x."""
    built.append(tuple(infos))
    graph = Graph("doubled")
    for number, info in enumerate(infos):
        graph.input(f"in{number}", info.dtype, info.shape or ())
    graph.outputs = [graph.add("add", [graph.inputs[0], graph.inputs[0]]).output]
    return graph


def info(*shape: int) -> Info:
    return Info(dtypes.f32, shape)


@pytest.fixture(autouse=True)
def nothing_built() -> None:
    built.clear()


def test_a_graph_is_built_once_for_each_form() -> None:
    nodes = DeferredNodes(doubled, [dtypes.f32])
    n = Facts().symbol("n", 5)
    for shape in ((2, 3), (2, 3), (4,), (n,), (n,)):
        assert nodes.graph([info(*shape)]) is not None
    assert [infos[0].shape for infos in built] == [(2, 3), (4,), (n,)]


def test_a_graph_is_kept_for_one_case_of_several() -> None:
    nodes = DeferredNodes(doubled, [dtypes.f32])
    facts = CaseAnalysis()
    n = facts.unknown()

    def two_cases() -> bool:
        for _ in range(2):
            nodes.graph([info(n)])
        return n == 5

    assert facts.results(two_cases) in ([True, False], [False, True])
    assert len(built) == 2


def test_nothing_is_built_before_shapes_and_numbers_are_known() -> None:
    nodes = DeferredNodes(doubled, [dtypes.f32], [1])
    count = Info(dtypes.i64, ())
    assert nodes.graph([Info(dtypes.f32, None), count]) is None
    assert nodes.graph([info(3), count]) is None
    assert built == []
    assert nodes.graph([info(3), Info(dtypes.i64, (), np.array(2))]) is not None


def test_a_node_is_inferred_and_evaluated_as_what_it_stands_for() -> None:
    graph = Graph("g")
    x = graph.input("x", dtypes.f32, (3,))
    node = graph.add("deferred", [x], {"nodes": DeferredNodes(doubled, [dtypes.f32])})
    assert [(each.dtype, each.shape) for each in infer_node(node, [info(3)])] == [(dtypes.f32, (3,))]
    assert [(each.dtype, each.shape) for each in infer_node(node, [Info(dtypes.f32, None)])] == [(dtypes.f32, None)]
    (found,) = results_of(node, [np.arange(3, dtype=np.float32)])
    assert found.tolist() == [0, 2, 4]


def test_operands_that_do_not_fit_are_those_of_a_shape() -> None:
    def refuses(_: Sequence[Info]) -> Graph:
        raise ModelError("a rank is wrong")

    with pytest.raises(ShapeError, match="a rank is wrong"):
        DeferredNodes(refuses, [dtypes.f32]).graph([info(3)])
