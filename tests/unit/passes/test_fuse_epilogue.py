"""Convolutions and matmuls take over the scalar ops that follow them."""

import math

import pytest

from treadle import dtypes
from treadle.passes.fuse_epilogue import FuseEpilogue


def epilogue_ops(node):
    return [step.op for step in node.attrs["epilogue"].steps if step.op != "const"]


def test_bias_residual_and_relu(write, apply):
    """
    Bias, residual add and activation end in the epilogue of the convolution, which names them all.
    """
    x = write.input(1, 4, 5, 5)
    y = write.op("add", write.conv(x, (4, 4), write.weights(4)), x)
    graph = write.done(write.op("relu", y, name="act"))

    assert apply(graph, FuseEpilogue()) == ["conv"]
    node = graph.nodes[0]
    assert epilogue_ops(node) == ["add", "add", "relu"]
    assert node.inputs[2] is None
    assert node.operand(3).shape == (4, 1, 1)
    assert node.operand(4) is x
    assert node.name == "conv0+add1+act"


def test_value_used_several_times(write, apply):
    """
    An activation that reads the result more than once, as gelu does, is taken whole.
    """
    y = write.op("add", write.matmul(write.input(2, 3), write.weights(3, 4)), write.weights(4))
    error = write.op("erf", write.op("mul", y, write.constant(math.sqrt(0.5))))
    inner = write.op("mul", y, write.op("add", error, write.constant(1)))
    graph = write.done(write.op("mul", inner, write.constant(0.5)))

    assert apply(graph, FuseEpilogue()) == ["matmul"]
    assert epilogue_ops(graph.nodes[0]) == ["add", "mul", "erf", "add", "mul", "mul"]


def test_epilogue_ends_where_a_value_is_read_elsewhere(write, apply):
    """
    The epilogue ends at a value with other readers; what follows stays outside.
    """
    y = write.op("relu", write.conv(write.input(1, 3, 5, 5), (3, 4)))
    graph = write.done(write.op("exp", y), write.op("max_pool", y, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0),
                                                    dilations=(1, 1), ceil_mode=False))  # fmt: skip

    assert apply(graph, FuseEpilogue()) == ["conv", "exp", "max_pool"]
    assert epilogue_ops(graph.nodes[0]) == ["relu"]


def test_graph_output_is_not_swallowed(write, apply):
    """
    A value that is an output of the graph stays a value.
    """
    y = write.conv(write.input(1, 3, 5, 5), (3, 4))
    graph = write.done(y, write.op("relu", y))

    assert apply(graph, FuseEpilogue()) == ["conv", "relu"]


def test_larger_operand_stays_outside(write, apply):
    """
    An operand that would broadcast the result is no epilogue operand.
    """
    y = write.matmul(write.input(1, 3), write.weights(3, 4))
    graph = write.done(write.op("add", y, write.input(5, 4, name="z")))

    assert apply(graph, FuseEpilogue()) == ["matmul", "add"]


def test_operand_that_depends_on_the_producer_stays_outside(write, apply):
    """
    An operand computed from the result by something that is not scalar cannot be in the epilogue.
    """
    y = write.matmul(write.input(2, 3), write.weights(3, 3))
    total = write.op("reduce_sum", y, axes=(1,), keepdims=True)
    graph = write.done(write.op("div", y, total))

    assert apply(graph, FuseEpilogue()) == ["matmul", "reduce_sum", "div"]


def test_deeper_producer_takes_the_residual_add(write, apply):
    """
    Of two convolutions that are added, the one with more before it takes the addition and comes last.
    """
    x = write.input(1, 3, 5, 5)
    inner = write.op("relu", write.conv(x, (3, 4)))
    deep = write.conv(inner, (4, 4))
    shortcut = write.conv(x, (3, 4))
    graph = write.done(write.op("relu", write.op("add", deep, shortcut)))
    name = deep.producer.name

    assert apply(graph, FuseEpilogue()) == ["conv", "conv", "conv"]
    assert graph.nodes[-1].name.startswith(f"{name}+")
    assert epilogue_ops(graph.nodes[-1]) == ["add", "relu"]


def test_large_products_that_are_ready_together_stay_independent(write, apply):
    """
    A sum of two large products is in the epilogue of neither, so that both can run at once; small ones are fused.
    """

    def total(size):
        x = write.input(size, size)
        return write.op("add", write.matmul(x, write.weights(size, size)), write.matmul(x, write.weights(size, size)))

    large, small = total(256), total(16)
    graph = write.done(large, small)

    assert sorted(apply(graph, FuseEpilogue())) == ["add", "matmul", "matmul", "matmul", "matmul"]
    assert sum("epilogue" in node.attrs for node in graph.nodes) == 1


def test_two_residuals_make_no_cycle(write, apply):
    """
    Producers that could each take what needs the other are fused without a cycle.
    """
    x = write.input(1, 3, 5, 5)
    left, right = write.conv(x, (3, 3)), write.conv(x, (3, 3))
    total = write.op("add", left, right)
    other = write.conv(write.op("exp", total), (3, 3))
    graph = write.done(write.op("mul", other, write.op("sigmoid", total)))

    assert set(apply(graph, FuseEpilogue())) <= {"conv", "exp", "sigmoid"}


def test_computed_bias(write, apply):
    """
    A bias that the graph computes goes to the epilogue through a reshape.
    """
    bias = write.op("exp", write.input(4, name="b"))
    graph = write.done(write.conv(write.input(1, 3, 5, 5), (3, 4), bias))

    assert sorted(apply(graph, FuseEpilogue())) == ["conv", "exp", "reshape"]
    assert graph.nodes[-1].inputs[2] is None


def test_conditions_inside_an_epilogue(write, apply):
    """
    Comparisons and choices are scalar ops like others, also with a condition from outside.
    """
    y = write.matmul(write.input(2, 3), write.weights(3, 4))
    mask = write.input(2, 4, name="mask", dtype=dtypes.boolean)
    y = write.op("where", mask, y, write.constant(-1e9))
    positive = write.op("gt", y, write.constant(0))
    graph = write.done(write.op("where", positive, y, write.op("mul", y, write.constant(0.1))))

    assert apply(graph, FuseEpilogue()) == ["matmul"]


def test_change_of_type_ends_an_epilogue(write, apply):
    """
    An epilogue gives the type of its producer: a cast to another one stays outside, one there and back is inside.
    """
    y = write.matmul(write.input(2, 3), write.weights(3, 4))
    wide = write.op("exp", write.op("cast", y, to=dtypes.f64))
    narrow = write.op("cast", wide, to=dtypes.f32)
    graph = write.done(write.op("cast", narrow, to=dtypes.i32))

    assert apply(graph, FuseEpilogue()) == ["matmul", "cast"]
    assert epilogue_ops(graph.nodes[0]) == ["cast", "exp", "cast"]


@pytest.mark.parametrize("count", [24, 25])
def test_long_chain_is_cut(write, apply, count):
    """
    An epilogue has a limited number of steps; the rest of the chain stays outside.
    """
    y = write.matmul(write.input(2, 3), write.weights(3, 4))
    for _ in range(count):
        y = write.op("tanh", y)
    graph = write.done(y)

    assert apply(graph, FuseEpilogue()) == ["matmul"] + ["tanh"] * (count - 24)
