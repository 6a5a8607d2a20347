"""Reshapes, transposes and broadcasts take their simplest form."""

import numpy as np
import pytest

from treadle.passes.simplify_broadcasts import SimplifyBroadcasts
from treadle.passes.simplify_reshapes import SimplifyReshapes
from treadle.passes.simplify_transposes import SimplifyTransposes


def test_regrouping_ops_become_one_reshape(write, apply):
    """
    Flatten, unsqueeze, squeeze and reshape in a row become one reshape to a constant shape.
    """
    y = write.op("flatten", write.input(2, 3, 4), axis=1)
    y = write.op("unsqueeze", y, write.ints(0))
    y = write.op("squeeze", y, None)
    y = write.op("reshape", y, write.ints(-1, 6), allowzero=False)
    graph = write.done(y)

    assert apply(graph, *[SimplifyReshapes()] * 3) == ["reshape"]
    assert graph.nodes[0].operand(0) is graph.inputs[0]
    assert graph.nodes[0].operand(1).data.tolist() == [4, 6]


def test_reshape_there_and_back(write, apply):
    """
    A reshape that is undone leaves nothing.
    """
    x = write.input(2, 6)
    y = write.op("reshape", x, write.ints(3, 4), allowzero=False)
    y = write.op("reshape", y, write.ints(2, 6), allowzero=False)
    graph = write.done(write.op("neg", y))

    assert apply(graph, SimplifyReshapes()) == ["neg"]


def test_transpose_of_ones_is_a_reshape(write, apply):
    """
    A transpose that moves only axes of size 1 moves no data.
    """
    graph = write.done(write.op("transpose", write.input(1, 8, 4), perm=(1, 0, 2)))

    assert apply(graph, SimplifyReshapes()) == ["reshape"]


@pytest.mark.parametrize("keepdims", [True, False])
def test_reduction_over_ones_is_a_reshape(write, apply, keepdims):
    """
    A reduction over axes of size 1 moves no data; if it keeps them, it does nothing.
    """
    y = write.op("reduce_mean", write.input(8, 1, 2), axes=(1,), keepdims=keepdims)
    graph = write.done(write.op("neg", y))

    assert apply(graph, SimplifyReshapes()) == (["neg"] if keepdims else ["reshape", "neg"])


def test_transposes_merge(write, apply):
    """
    Two transposes become one with the composed permutation.
    """
    y = write.op("transpose", write.input(2, 3, 4), perm=(0, 2, 1))
    graph = write.done(write.op("transpose", y, perm=(1, 0, 2)))

    assert apply(graph, SimplifyTransposes()) == ["transpose"]
    assert graph.nodes[0].attrs["perm"] == (2, 0, 1)


def test_expand_before_arithmetic(write, apply):
    """
    An operand is not expanded for an op that broadcasts by itself.
    """
    x, m = write.input(2, 4), write.input(4, name="m")
    graph = write.done(write.op("add", x, write.op("expand", m, write.ints(2, 4))))

    assert apply(graph, SimplifyBroadcasts()) == ["add"]


def test_expand_that_gives_the_shape_stays(write, apply):
    """
    An expansion without which the result would be smaller stays.
    """
    m = write.input(4, name="m")
    graph = write.done(write.op("neg", write.op("expand", m, write.ints(2, 4))))

    assert apply(graph, SimplifyBroadcasts()) == ["expand", "neg"]


def test_expanded_batch_of_matmul(write, apply):
    """
    A matmul broadcasts its batch axes by itself.
    """
    x, w = write.input(3, 2, 4), write.input(4, 5, name="w")
    graph = write.done(write.matmul(x, write.op("expand", w, write.ints(3, 4, 5))))

    assert apply(graph, SimplifyBroadcasts()) == ["matmul"]


def test_repeating_constant_shrinks(write, apply):
    """
    A constant that repeats along an axis is kept once along it.
    """
    table = np.broadcast_to(np.arange(4.0), (3, 4))
    graph = write.done(write.op("add", write.input(2, 3, 4), write.constant(table)))

    assert apply(graph, SimplifyBroadcasts()) == ["add"]
    assert graph.nodes[0].operand(1).shape == (1, 4)
