"""Nodes that do nothing disappear, and only those."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.passes.simplify_identities import SimplifyIdentities


@pytest.mark.parametrize(
    ("op", "neutral", "side"),
    [("add", 0, 0), ("add", 0, 1), ("sub", 0, 1), ("mul", 1, 0), ("mul", 1, 1), ("div", 1, 1), ("pow", 1, 1)],
)
def test_neutral_operand(write, apply, op, neutral, side):
    """
    An operation with its neutral element is replaced by its other operand.
    """
    x, c = write.input(2, 3), write.constant([[neutral]])
    y = write.op(op, *((c, x) if side == 0 else (x, c)))
    graph = write.done(write.op("neg", y))

    assert apply(graph, SimplifyIdentities()) == ["neg"]


def test_neutral_operand_that_broadcasts_stays(write, apply):
    """
    A neutral constant that makes the result larger than the other operand is not removed.
    """
    x = write.input(3)
    graph = write.done(write.op("add", x, write.constant(np.zeros((2, 3)))))

    assert apply(graph, SimplifyIdentities()) == ["add"]


def test_zero_minus_x_stays(write, apply):
    """
    0 - x is not x.
    """
    graph = write.done(write.op("sub", write.constant(0), write.input(3)))

    assert apply(graph, SimplifyIdentities()) == ["sub"]


def test_exact_math_keeps_adding_zero(write, apply, exact):
    """
    Under exact math x + 0 stays, because it turns -0 into +0.
    """
    graph = write.done(write.op("add", write.input(3), write.constant(0)))

    assert apply(graph, SimplifyIdentities(), context=exact) == ["add"]


def test_shape_ops_without_effect(write, apply):
    """
    Reshape, expand, tile, slice, pad, transpose, cast, concat and identity that change nothing disappear.
    """
    x = write.input(2, 3)
    y = write.op("reshape", x, write.ints(2, 3), allowzero=False)
    y = write.op("expand", y, write.ints(2, 3))
    y = write.op("tile", y, write.ints(1, 1))
    y = write.op("slice", y, write.ints(0), write.ints(99), write.ints(1), None)
    y = write.op("pad", y, write.ints(0, 0, 0, 0), None, None, mode="constant")
    y = write.op("transpose", y, perm=(0, 1))
    y = write.op("cast", y, to=dtypes.f32)
    y = write.op("concat", y, axis=0)
    y = write.op("identity", y)
    graph = write.done(write.op("neg", y))

    assert apply(graph, *[SimplifyIdentities()] * 2) == ["neg"]


def test_reversing_slice_stays(write, apply):
    """
    A slice with a negative step keeps the shape but not the order.
    """
    x = write.input(2, 3)
    graph = write.done(write.op("slice", x, write.ints(-1), write.ints(-99), write.ints(1), write.ints(-1)))

    assert apply(graph, SimplifyIdentities()) == ["slice"]


def test_pad_that_shifts_stays(write, apply):
    """
    Padding in front and cropping behind keeps the shape but moves the elements.
    """
    x = write.input(4)
    graph = write.done(write.op("pad", x, write.ints(1, -1), None, None, mode="constant"))

    assert apply(graph, SimplifyIdentities()) == ["pad"]


def test_cast_through_wider_type(write, apply):
    """
    A cast to a wider type and back disappears; one through a narrower type stays.
    """
    x = write.input(2, 3)
    wide = write.op("cast", write.op("cast", x, to=dtypes.f64), to=dtypes.f32)
    narrow = write.op("cast", write.op("cast", x, to=dtypes.i32), to=dtypes.f32)
    graph = write.done(write.op("neg", wide), write.op("neg", narrow))

    assert sorted(apply(graph, *[SimplifyIdentities()] * 2)) == ["cast", "cast", "neg", "neg"]


def test_output_keeps_its_name(write, apply):
    """
    An output whose node disappears hands its name to the value that replaces it.
    """
    y = write.op("identity", write.op("neg", write.input(3)), name="result")
    name = y.name
    graph = write.done(y)

    assert apply(graph, SimplifyIdentities()) == ["neg"]
    assert [value.name for value in graph.outputs] == [name]


def test_empty_operands_of_concat(write, apply):
    """
    Operands without elements are dropped from a concat.
    """
    x, y = write.input(2, 3), write.input(2, 1, name="y")
    graph = write.done(write.op("concat", x, write.constant(np.zeros((2, 0))), y, axis=1))

    assert apply(graph, SimplifyIdentities()) == ["concat"]
    assert len(graph.nodes[0].inputs) == 2
