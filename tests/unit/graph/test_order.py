"""Orders of nodes."""

import random

import pytest

from treadle.errors import GraphError
from treadle.graph.graph import Graph
from treadle.graph.order import needed, topological


@pytest.fixture
def diamond():
    """x -> a -> (b, c) -> d, and a node `dead` that no output needs."""
    graph = Graph()
    x = graph.input("x", None, None)
    a = graph.add("relu", [x], name="a")
    b = graph.add("relu", [a.output], name="b")
    c = graph.add("relu", [a.output], name="c")
    d = graph.add("add", [b.output, c.output], name="d")
    graph.add("relu", [x], name="dead")
    graph.outputs = [d.output]
    return graph


def names(nodes):
    return [node.name for node in nodes]


def test_an_ordered_list_stays_as_it_is(diamond):
    """Sorting changes nothing where nothing must change."""
    assert topological(diamond.nodes) == diamond.nodes


def test_shuffled_nodes_are_put_in_order(diamond):
    """Every node follows those whose results it reads."""
    for seed in range(20):
        shuffled = random.Random(seed).sample(diamond.nodes, len(diamond.nodes))
        position = {node.name: i for i, node in enumerate(topological(shuffled))}
        assert position["a"] < position["b"] < position["d"]
        assert position["a"] < position["c"] < position["d"]


def test_a_cycle_is_named(diamond):
    """The error of a cycle lists its nodes and no others."""
    a, b, c, d, _ = diamond.nodes
    diamond.set_input(a, 0, d.output)
    with pytest.raises(GraphError, match=r"'d' \(add\) <- 'b' \(relu\) <- 'a' \(relu\) <- 'd'|cycle") as caught:
        topological([b, c, d, a])
    assert "dead" not in str(caught.value)


def test_a_node_that_reads_itself_is_a_cycle(diamond):
    """The shortest cycle is found too."""
    a = diamond.nodes[0]
    diamond.set_input(a, 0, a.output)
    with pytest.raises(GraphError, match=r"'a' \(relu\) <- 'a' \(relu\)"):
        topological(diamond.nodes)


def test_very_long_chains_need_no_deep_stack():
    """Sorting a chain longer than Python's stack works."""
    graph = Graph()
    value = graph.input("x", None, None)
    for _ in range(5000):
        value = graph.add("relu", [value]).output
    assert topological(graph.nodes[::-1]) == graph.nodes


def test_needed_leaves_out_what_no_output_reads(diamond):
    """Dead nodes are not needed."""
    assert set(names(needed(diamond.outputs))) == {"a", "b", "c", "d"}
