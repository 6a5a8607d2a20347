"""Patches change a graph at once and leave it valid."""

import pytest

from weft.errors import GraphError
from weft.graph.graph import Graph
from weft.graph.patch import Patch
from weft.graph.verify import verify


@pytest.fixture
def chain():
    """x -> a -> b -> output, and c that reads a too."""
    graph = Graph()
    x = graph.input("x", None, None)
    a = graph.add("relu", [x], name="a")
    b = graph.add("neg", [a.output], name="b")
    c = graph.add("add", [a.output, a.output], name="c")
    graph.outputs = [b.output, c.output]
    return graph


def names(graph):
    return [node.name for node in graph.nodes]


def test_an_empty_patch_changes_nothing(chain):
    """Applying nothing says so."""
    patch = Patch(chain)
    assert not patch
    assert not patch.apply()


def test_nothing_happens_before_apply(chain):
    """Recording changes leaves the graph alone."""
    before = names(chain)
    patch = Patch(chain)
    patch.remove(chain.nodes[0])
    patch.insert_before(chain.nodes[1], patch.make("exp", [chain.inputs[0]], name="new"))
    assert names(chain) == before
    verify(chain)


def test_insertions_stand_around_their_anchor(chain):
    """Nodes inserted before and after an anchor stand there, in the order of the calls."""
    a, b, _ = chain.nodes
    patch = Patch(chain)
    for name in ("p", "q"):
        patch.insert_before(b, patch.make("exp", [a.output], name=name))
    patch.insert_after(b, patch.make("exp", [b.output], name="r"))
    patch.insert_first(patch.make("exp", [chain.inputs[0]], name="f"))
    assert patch.apply()
    verify(chain)
    assert names(chain) == ["f", "a", "p", "q", "b", "r", "c"]


def test_a_replaced_value_is_read_by_nobody_but_the_new_nodes(chain):
    """A node put behind a value takes over all of its old readers."""
    a, b, c = chain.nodes
    patch = Patch(chain)
    copy = patch.make("exp", [a.output], name="copy")
    patch.insert_after(a, copy)
    patch.replace(a.output, copy.output)
    patch.apply()
    verify(chain)
    assert a.output.users == [copy]
    assert [node.name for node in copy.output.users] == ["b", "c", "c"]
    assert b.inputs == [copy.output]
    assert c.inputs == [copy.output, copy.output]


def test_replacements_chain(chain):
    """A value replaced by one that is replaced itself ends at the last."""
    a, b, _ = chain.nodes
    x = chain.inputs[0]
    patch = Patch(chain)
    patch.replace(b.output, a.output)
    patch.replace(a.output, x)
    patch.remove(a, b)
    patch.apply()
    verify(chain)
    assert chain.outputs[0] is x
    assert names(chain) == ["c"]


def test_one_operand_can_be_rewired(chain):
    """set_input changes one reading and leaves the others."""
    _, b, c = chain.nodes
    patch = Patch(chain)
    patch.set_input(c, 1, b.output)
    patch.apply()
    verify(chain)
    assert c.inputs[1] is b.output
    assert chain.nodes[0].output.users.count(c) == 1


def test_a_node_can_be_replaced_by_one_that_makes_the_same_values(chain):
    """A new maker may take over the results of a removed node."""
    a = chain.nodes[0]
    patch = Patch(chain)
    patch.insert_before(a, patch.make("exp", a.inputs, name="new", outputs=a.outputs))
    patch.remove(a)
    patch.apply()
    verify(chain)
    assert names(chain) == ["new", "b", "c"]


def test_nodes_are_sorted_if_the_patch_needs_it(chain):
    """A reader that stands before its new operand's maker is moved behind it."""
    a, b, c = chain.nodes
    patch = Patch(chain)
    patch.set_input(b, 0, c.output)
    patch.apply()
    verify(chain)
    assert names(chain) == ["a", "c", "b"]
    assert a.output.users.count(c) == 2


def test_removing_what_is_read_is_refused_and_changes_nothing(chain):
    """A patch that would leave a reader without its operand is refused as a whole."""
    patch = Patch(chain)
    patch.remove(chain.nodes[0])
    with pytest.raises(GraphError, match=r"removes the maker of %a, which 'b' \(neg\) reads"):
        patch.apply()
    verify(chain)
    assert names(chain) == ["a", "b", "c"]


def test_removing_the_maker_of_an_output_is_refused(chain):
    """Outputs count as readers."""
    patch = Patch(chain)
    patch.remove(chain.nodes[1])
    with pytest.raises(GraphError, match="%b, an output of the graph"):
        patch.apply()


def test_a_replacement_by_itself_is_refused(chain):
    """Replacements that go round in a circle have no end."""
    a, b, _ = chain.nodes
    patch = Patch(chain)
    patch.replace(a.output, b.output)
    patch.replace(b.output, a.output)
    with pytest.raises(GraphError, match="by itself"):
        patch.apply()


def test_a_foreign_anchor_is_refused(chain):
    """An anchor that is not in the graph is a mistake of the pass."""
    patch = Patch(chain)
    patch.insert_after(Graph().make("relu", [None], name="alien"), patch.make("exp", [chain.inputs[0]]))
    with pytest.raises(GraphError, match="'alien'"):
        patch.apply()
