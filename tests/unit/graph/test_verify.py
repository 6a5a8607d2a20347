"""Every broken invariant is found and told in its own words."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import GraphError
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.ops.table import arity


@pytest.fixture
def graph():
    """A valid graph: x -> relu -> add with a constant."""
    graph = Graph("g")
    x = graph.input("x", dtypes.f32, ("N", 3))
    y = graph.add("relu", [x], name="first").output
    z = graph.add("add", [y, graph.constant(np.ones(3, np.float32), "c")], name="second").output
    graph.outputs = [z]
    return graph


def faults(graph, **options):
    with pytest.raises(GraphError) as caught:
        verify(graph, **options)
    return str(caught.value)


def test_a_valid_graph_passes(graph):
    """Nothing is complained about where nothing is wrong."""
    verify(graph)
    verify(graph, arity)


def test_reading_what_nothing_makes(graph):
    """An operand from nowhere is found."""
    graph.set_input(graph.nodes[0], 0, Value("ghost"))
    assert "node 'first' (relu) reads %ghost (operand 0), which nothing makes" in faults(graph)


def test_reading_before_it_is_made(graph):
    """Nodes out of order are found."""
    graph.nodes.reverse()
    assert "node 'second' (add) reads %first (operand 0) before it is made" in faults(graph)


def test_making_a_value_twice(graph):
    """A value has one maker."""
    first = graph.nodes[0]
    again = Node("exp", first.inputs, first.outputs, {}, "again")
    graph.inputs[0].users.append(again)
    graph.nodes.insert(1, again)
    message = faults(graph)
    assert "node 'again' (exp) makes %first, which is made already" in message
    assert "but says that node 'first' (relu) makes it" in message


def test_two_values_of_one_name(graph):
    """Names are unique."""
    graph.nodes[0].output.name = "x"
    assert "2 values are called %x" in faults(graph)


def test_an_empty_name(graph):
    """Every value has a name."""
    graph.inputs[0].name = ""
    assert "empty name" in faults(graph)


def test_users_that_do_not_read(graph):
    """A stale entry in the users of a value is found."""
    graph.inputs[0].users.append(graph.nodes[1])
    assert "%x lists node 'second' (add) 1 times as its user, which reads it 0 times" in faults(graph)


def test_readers_that_are_no_users(graph):
    """A missing entry in the users of a value is found."""
    graph.inputs[0].users.clear()
    assert "%x lists node 'first' (relu) 0 times as its user, which reads it 1 times" in faults(graph)


def test_an_output_from_nowhere(graph):
    """Outputs must be made."""
    graph.outputs.append(Value("ghost"))
    assert "output %ghost is made by nothing" in faults(graph)


def test_an_input_that_is_made(graph):
    """Inputs come from outside."""
    graph.inputs.append(graph.nodes[0].output)
    message = faults(graph)
    assert "input %first is made by node 'first' (relu); inputs have no maker" in message


def test_an_input_with_data(graph):
    """A constant is no input."""
    graph.inputs[0].data = np.ones(3, np.float32)
    assert "input %x holds data" in faults(graph)


def test_an_input_listed_twice(graph):
    """Each input is listed once."""
    graph.inputs.append(graph.inputs[0])
    assert "input %x is listed 2 times" in faults(graph)


def test_a_constant_that_is_not_what_it_says(graph):
    """Dtype and shape of a constant are those of its data."""
    constant = next(graph.constants())
    constant.dtype = dtypes.f64
    assert "constant %c is declared %c: f64[3], but holds f32[3]" in faults(graph)


def test_a_negative_dimension(graph):
    """Dimensions are 0 or more."""
    graph.inputs[0].shape = (-1, 3)
    assert "%x has a negative dimension: [-1, 3]" in faults(graph)


def test_a_blocked_vector(graph):
    """A blocked layout needs a channel axis."""
    value = graph.nodes[0].output
    value.shape, value.layout = (3,), Blocked(8)
    assert "%first of rank 1 has layout c8" in faults(graph)


def test_unknown_types_count_only_if_asked(graph):
    """`typed` demands a dtype and a static shape of every value."""
    message = faults(graph, typed=True)
    assert "%first has no dtype" in message
    assert "%x has no static shape" in message


def test_unknown_ops_and_wrong_numbers_of_operands(graph):
    """With the op table, ops and their arity are checked."""
    graph.nodes[0].op = "rellu"
    graph.nodes[1].op = "where"
    message = faults(graph, arity=arity)
    assert "node 'first' (rellu): no core op is called 'rellu'" in message
    assert "node 'second' (where) takes 3 operands, got 2" in message


def test_a_node_without_results(graph):
    """A node makes something."""
    graph.nodes.append(Node("relu", [], [], {}, "mute"))
    assert "node 'mute' (relu) has no results" in faults(graph)


def test_all_faults_come_in_one_error(graph):
    """Every fault is a line of the one error."""
    graph.inputs[0].shape = (-1,)
    graph.outputs.append(Value("ghost"))
    assert faults(graph).startswith("graph 'g': 2 invariants are broken\n  - ")
