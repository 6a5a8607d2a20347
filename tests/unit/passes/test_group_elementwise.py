"""Scalar ops become few loops over memory."""

from treadle import dtypes
from treadle.passes.base import Limits
from treadle.passes.group_elementwise import GroupElementwise, Grouping


def test_chain_is_one_loop(write, apply):
    """
    A chain of scalar ops becomes one node with one program; small constants are steps of it.
    """
    x, y = write.input(2, 3), write.input(3, name="y")
    z = write.op("mul", write.op("add", write.op("exp", x), y), write.constant(2))
    graph = write.done(z)

    assert apply(graph, GroupElementwise()) == ["elementwise"]
    node = graph.nodes[0]
    assert str(node.attrs["expr"]) == (
        "(v0: f32, v1: f32) { v2: f32 = exp(v0); v3: f32 = add(v2, v1); v4: f32 = 2.0; "
        "v5: f32 = mul(v3, v4); return v5 }"
    )
    assert node.name == "exp0+add1+mul2"


def test_inner_value_may_be_a_result(write, apply):
    """
    A value that is also read elsewhere becomes a second result of the loop.
    """
    y = write.op("exp", write.input(2, 3))
    total = write.op("reduce_sum", y, axes=(1,), keepdims=False)
    graph = write.done(write.op("neg", y), total)

    assert apply(graph, GroupElementwise()) == ["elementwise", "reduce_sum"]
    assert len(graph.nodes[0].outputs) == 2


def test_no_group_waits_for_itself(write, apply):
    """
    Nodes between which another node must run are not put into one loop.
    """
    y = write.op("exp", write.input(2, 3))
    total = write.op("reduce_sum", y, axes=(1,), keepdims=True)
    graph = write.done(write.op("div", y, total))

    assert apply(graph, GroupElementwise()) == ["elementwise", "reduce_sum", "elementwise"]


def test_detour_through_another_group(write, apply):
    """
    The detour may lead through a group that was joined earlier.
    """
    x, z = write.input(2, 3), write.input(2, 3, name="z")
    a, b = write.op("exp", x), write.op("neg", z)
    s = write.op("softmax", a, axis=1)
    c = write.op("add", s, b)
    t = write.op("softmax", c, axis=1)
    graph = write.done(write.op("add", write.op("mul", a, t), b))

    assert apply(graph, GroupElementwise()).count("softmax") == 2


def test_smaller_values_are_not_computed_again(write, apply):
    """
    A value that is broadcast by its reader is computed once, in a loop of its own.
    """
    row = write.op("exp", write.input(3, name="row"))
    graph = write.done(write.op("add", write.input(5, 3), row))

    assert apply(graph, GroupElementwise()) == ["elementwise", "elementwise"]


def test_lone_ops_and_casts(write, apply):
    """
    A single scalar op is a loop too, and a cast belongs to the loop of its neighbours.
    """
    x = write.input(4, dtype=dtypes.i64)
    y = write.op("mul", write.op("cast", x, to=dtypes.f32), write.constant(0.5))
    graph = write.done(y, write.op("neg", write.input(7, name="z")))

    assert apply(graph, GroupElementwise()) == ["elementwise", "elementwise"]


def test_constant_that_adds_an_axis(write, apply):
    """
    A constant of one element that gives the result its rank stays an operand.
    """
    graph = write.done(write.op("add", write.input(3), write.constant([[1.0]])))

    assert apply(graph, GroupElementwise()) == ["elementwise"]
    assert len(graph.nodes[0].inputs) == 2


def test_limits(write, apply):
    """
    Loops have a limited number of steps and operands.
    """
    y = write.input(4)
    for _ in range(30):
        y = write.op("tanh", y)
    total = write.input(5, name="a")
    for i in range(12):
        total = write.op("add", total, write.input(5, name=f"b{i}"))
    graph = write.done(y, total)

    assert len(apply(graph, GroupElementwise())) == 4
    assert all(len(node.inputs) <= 8 and len(node.attrs["expr"].steps) <= 24 for node in graph.nodes)


def test_loops_can_be_joined_again(write, apply):
    """
    A second run finds loops and what was added since, and leaves finished graphs alone.
    """
    y = write.op("exp", write.input(4))
    graph = write.done(y)
    grouping = GroupElementwise()
    apply(graph, grouping)
    graph.outputs = [write.op("neg", graph.outputs[0])]
    write.done(*graph.outputs)

    assert apply(graph, grouping) == ["elementwise"]
    assert [step.op for step in graph.nodes[0].attrs["expr"].steps] == ["exp", "neg"]


def test_strings_stay_nodes(write, apply, context):
    """
    Strings have no loops.
    """
    x = write.input(3, dtype=dtypes.string)
    graph = write.done(write.op("eq", x, x))

    assert not GroupElementwise().run(graph, context)


def test_masks_have_a_bit_for_each_group(write):
    """
    Masks of dependences grow with the number of loops, not with that of nodes: memory stays linear.
    """
    value = write.input(2, 3)
    for _ in range(200):
        value = write.op("exp", value)
    graph = write.done(value)
    grouping = Grouping(graph, Limits())
    for node in graph.nodes:
        grouping.place(node)

    groups = grouping.groups()
    assert len(groups) < 20
    assert all(group.bit.bit_length() <= len(groups) for group in groups)
