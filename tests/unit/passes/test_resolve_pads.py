"""ResolvePads makes numbers of SAME padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.passes.conftest import Writer

from treadle.graph.dim import is_expression
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.resolve_pads import ResolvePads

PADS = {("same_upper", 7): (1, 1), ("same_upper", 8): (0, 1), ("same_lower", 8): (1, 0), ("same_lower", 9): (1, 1)}


@pytest.mark.parametrize(("mode", "size"), PADS)
@pytest.mark.parametrize("op", ["conv", "max_pool", "avg_pool"])
def test_known_sizes_have_known_pads(
    op: str, mode: str, size: int, write: Writer, apply: Callable[..., list[str]]
) -> None:
    """An odd number of pads has one more at the end, or at the begin."""
    x = write.input(1, 3, size)
    attrs = {"strides": (2,), "pads": mode, "dilations": (1,)}
    if op == "conv":
        y = write.op(op, x, write.weights(4, 3, 3), groups=1, **attrs)
    else:
        counts = {"count_include_pad": False} if op == "avg_pool" else {}
        y = write.op(op, x, kernel=(3,), ceil_mode=False, **attrs, **counts)
    graph = write.done(y)
    assert apply(graph, ResolvePads()) == [op]
    assert graph.nodes[0].attrs["pads"] == PADS[mode, size]
    assert apply(graph, ResolvePads()) == [op]


@pytest.mark.parametrize("op", ["conv", "max_pool"])
def test_open_pads_are_nodes_before_convolutions_and_attributes_of_pools(op: str, context: PassContext) -> None:
    """Kernels of pools take expressions."""
    w = Writer()
    x = w.graph.input("x", w.weights(1).dtype, (1, 3, Facts().symbol("n", 100, least=1)))
    attrs = {"strides": (2,), "pads": "same_upper", "dilations": (1,)}
    y = (
        w.op(op, x, w.weights(4, 3, 3), groups=1, **attrs)
        if op == "conv"
        else w.op(op, x, kernel=(3,), ceil_mode=False, **attrs)
    )
    graph: Graph = w.done(y)
    assert ResolvePads().run(graph, context)
    *before, node = graph.nodes
    assert [each.op for each in before] == (["sizes", "pad"] if op == "conv" else [])
    assert any(map(is_expression, node.attrs["pads"])) == (op == "max_pool")
    assert not ResolvePads().run(graph, context)
