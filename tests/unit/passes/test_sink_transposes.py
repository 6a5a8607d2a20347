"""Channels stay where convolutions have them, from the first to the last."""

import numpy as np
import pytest

from treadle.passes.fold_pads import FoldPads
from treadle.passes.simplify_reshapes import SimplifyReshapes
from treadle.passes.simplify_transposes import SimplifyTransposes
from treadle.passes.sink_transposes import SinkTransposes

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SINK = [SinkTransposes(), SimplifyTransposes(), SimplifyReshapes()] * 4


def last(write, x):
    return write.op("transpose", x, perm=LAST)


def first(write, x):
    return write.op("transpose", x, perm=FIRST)


def chain(write, between):
    """Two convolutions with channels last between them."""
    x = write.conv(write.input(2, 4, 6, 5), (4, 8))
    return write.done(write.conv(first(write, between(last(write, x))), (8, 4)))


def test_an_op_between_layouts_takes_channels_second(write, apply):
    """
    Nothing is transposed between two convolutions with an activation between them.
    """
    assert apply(chain(write, lambda y: write.op("relu", y)), *SINK) == ["conv", "relu", "conv"]


@pytest.mark.parametrize("shape", [(8,), (1, 1, 8), (2, 1, 1, 8), (1,), (), (6, 5, 8), (1, 6, 5, 1)])
def test_operands_that_broadcast_follow(write, apply, shape):
    """
    A bias of channels, a gate of every image, a number and a constant of full size are brought to the same order.
    """
    graph = chain(write, lambda y: write.op("mul", y, write.constant(np.random.default_rng(1).random(shape))))

    assert apply(graph, *SINK) == ["conv", "mul", "conv"]


def test_a_residual_keeps_its_layout(write, apply):
    """
    Both sides of an addition are transposed, one of them is read twice: neither is left.
    """

    def between(y):
        return write.op("relu", write.op("add", write.op("sigmoid", y), y))

    assert apply(chain(write, between), *SINK) == ["conv", "sigmoid", "add", "relu", "conv"]


def test_a_gate_keeps_its_layout(write, apply):
    """
    Squeeze and excite: means, a convolution of 1 pixel and the product with it work on channels second.
    """

    def between(y):
        gate = write.op("reduce_mean", y, axes=(1, 2), keepdims=True)
        gate = last(write, write.conv(first(write, gate), (8, 8)))
        return write.op("mul", y, write.op("sigmoid", gate))

    assert apply(chain(write, between), *SINK) == ["conv", "reduce_mean", "conv", "sigmoid", "mul", "conv"]


@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions_change_their_axes(write, apply, keepdims):
    """
    The mean of all pixels is taken of the last two axes.
    """
    x = last(write, write.input(2, 8, 6, 5))
    graph = write.done(write.op("neg", write.op("reduce_mean", x, axes=(1, -2), keepdims=keepdims)))

    assert "transpose" not in apply(graph, *SINK)
    assert next(node for node in graph.nodes if node.op == "reduce_mean").attrs["axes"] == (2, 3)


def test_concatenations_and_pads_change_their_axes(write, apply):
    """
    Joining channels and padding images work on channels second.
    """

    def between(y):
        both = write.op("concat", y, write.op("relu", y), axis=3)
        padded = write.op("pad", both, write.ints(0, 1, 2, 0, 0, 3, 4, 0), mode="constant")
        return write.op("slice", padded, write.ints(0), write.ints(8), write.ints(3))

    ops = apply(chain(write, between), *SINK)
    assert ops[:4] == ["conv", "relu", "concat", "pad"]


def test_a_transpose_that_something_else_needs_stays(write, apply):
    """
    Where the transposed tensor is wanted itself, it is not computed twice.
    """
    x = last(write, write.input(2, 8, 6, 5))
    graph = write.done(x, write.op("relu", x))

    assert apply(graph, *SINK) == ["transpose", "relu"]


def test_large_operands_are_not_transposed_for_it(write, apply):
    """
    An addition of a tensor of full size in the other layout stays where it is.
    """
    x, other = write.input(2, 8, 6, 5), write.input(2, 6, 5, 8, name="other")
    graph = write.done(write.op("add", last(write, x), other))

    assert apply(graph, *SINK) == ["transpose", "add"]


def test_other_permutations_stay(write, apply):
    """
    Heads of an attention are none of this pass's business.
    """
    x = write.op("transpose", write.input(2, 8, 6, 5), perm=(0, 2, 1, 3))
    graph = write.done(write.op("relu", x))

    assert apply(graph, *SINK) == ["transpose", "relu"]


def test_a_convolution_pads_its_input_itself(write, apply):
    """
    Zeros put around images by a node of their own become pads of the convolution.
    """
    x = write.op("pad", write.input(1, 4, 6, 5), write.ints(0, 0, 1, 0, 0, 0, 1, 2), mode="constant")
    graph = write.done(write.conv(x, (4, 8), size=3))

    assert apply(graph, FoldPads()) == ["conv"]
    assert graph.nodes[0].attrs["pads"] == (2, 1, 2, 3)


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "reflect"},
        {"mode": "constant", "value": 1.0},
        {"mode": "constant", "pads": (0, 1, 0, 0, 0, 0, 0, 0)},
        {"mode": "constant", "pads": (0, 0, -1, 0, 0, 0, 0, 0)},
    ],
)
def test_pads_that_a_convolution_cannot_do_stay(write, apply, how):
    """
    Reflections, other values than 0, padded channels and cropping remain nodes.
    """
    value = write.constant(np.float32(how["value"])) if "value" in how else None
    pads = how.get("pads", (0, 0, 1, 1, 0, 0, 1, 1))
    channels = 4 + pads[1]
    x = write.op("pad", write.input(1, 4, 6, 5), write.ints(*pads), value, mode=how["mode"])
    graph = write.done(write.conv(x, (channels, 8)))

    assert apply(graph, FoldPads()) == ["pad", "conv"]
