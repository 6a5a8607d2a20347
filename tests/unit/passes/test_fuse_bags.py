"""Reductions take over the gathers of the rows that they reduce."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import dtypes
from treadle.passes.fuse_bags import FuseBags
from treadle.passes.group_elementwise import GroupElementwise

REDUCTIONS = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]


def _indices(write, *shape):
    return write.input(*shape, name="i", dtype=dtypes.i64)


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_a_bag_of_rows_becomes_one_node(write, apply, op, keepdims, constant):
    """
    Whatever the reduction is and whether the table is a constant; the negative axis of the indices too.
    """
    table = write.weights(4, 8) if constant else write.input(4, 8)
    rows = write.op("gather", table, _indices(write, 5, 3), axis=0)
    graph = write.done(write.op(op, rows, axes=(-2,), keepdims=keepdims))

    assert apply(graph, FuseBags()) == ["gather_reduce"]
    assert graph.nodes[0].name == f"gather0+{op}1"
    assert graph.outputs[0].static_shape == ((5, 1, 8) if keepdims else (5, 8))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_weights_of_rows_become_an_operand(write, apply, swapped, constant):
    """
    A product with one number for each row is part of the bag, on either side.
    """
    rows = write.op("gather", write.weights(4, 8), _indices(write, 5, 3), axis=0)
    weights = write.weights(5, 3, 1) if constant else write.input(5, 3, 1, name="w")
    product = write.op("mul", *((weights, rows) if swapped else (rows, weights)))
    graph = write.done(write.op("reduce_sum", product, axes=(1,), keepdims=False))

    assert apply(graph, FuseBags()) == ["gather_reduce"]
    assert len(graph.nodes[0].inputs) == 3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_rows_may_be_grouped_afterwards(write, apply, weighted, constant):
    """
    Indices of one axis, the rows of which are reshaped to bags, as PyTorch's embedding_bag has them.
    """
    indices = write.constant([3, 0, 1] * 5, np.int64) if constant else _indices(write, 15)
    rows = write.op("gather", write.weights(4, 8), indices, axis=0)
    if weighted:
        rows = write.op("mul", rows, write.weights(15, 1) if constant else write.input(15, 1, name="w"))
    bags = write.op("reshape", rows, write.ints(5, 3, 8), allowzero=False)
    graph = write.done(write.op("reduce_mean", bags, axes=(1,), keepdims=False))

    assert [op for op in apply(graph, FuseBags()) if op != "reshape"] == ["gather_reduce"]
    assert len(graph.nodes) == 1 if constant else graph.nodes[-1].operand(1).producer.op == "reshape"


def test_rows_that_are_cut_stay_apart(write, apply):
    """
    A reshape that joins parts of neighbouring rows, or reduces within them, is done as written.
    """
    for shape, axes in (((5, 3, 2, 4), (1,)), ((5, 24), (1,)), ((30, 4), (0,))):
        rows = write.op(
            "gather", write.weights(4, 8), write.input(15, name=f"i{len(shape)}{axes}{shape}", dtype=dtypes.i64), axis=0
        )
        grouped = write.op("reshape", rows, write.ints(*shape), allowzero=False)
        graph = write.done(write.op("reduce_sum", grouped, axes=axes, keepdims=False))

        assert "gather_reduce" not in apply(graph, FuseBags())


@pytest.mark.parametrize("shape", [(5, 3, 8), (8,), (5, 1, 1), (1, 1, 1)], ids=str)
def test_other_factors_stay_apart(write, apply, shape):
    """
    What is not one number for each row, element by element, is no weight.
    """
    rows = write.op("gather", write.weights(4, 8), _indices(write, 5, 3), axis=0)
    product = write.op("mul", rows, write.input(*shape, name="w"))
    graph = write.done(write.op("reduce_sum", product, axes=(1,), keepdims=False))

    assert apply(graph, FuseBags()) == ["gather", "mul", "reduce_sum"]


def test_a_product_of_two_gathers_has_one_as_weights(write, apply):
    """
    Weights may be looked up as well.
    """
    indices = _indices(write, 5, 3)
    rows = write.op("gather", write.weights(4, 8), indices, axis=0)
    weights = write.op("gather", write.weights(4, 1), indices, axis=0)
    graph = write.done(write.op("reduce_sum", write.op("mul", weights, rows), axes=(1,), keepdims=False))

    assert apply(graph, FuseBags()) == ["gather", "gather_reduce"]


@pytest.mark.parametrize(
    ("axis", "axes", "row"),
    [(1, (1,), 8), (0, (2,), 8), (0, (1, 2), 8), (0, None, 8), (0, (), 8), (0, (1,), 1)],
    ids=str,
)
def test_other_reductions_stay_apart(write, apply, axis, axes, row):
    """
    Gathers along another axis, reductions within rows or of nothing, and rows of one element, which are summed up
    in another order.
    """
    rows = write.op(
        "gather", write.weights(4, 4, row) if axis else write.weights(4, row), _indices(write, 5, 3), axis=axis
    )
    graph = write.done(write.op("reduce_sum", rows, axes=axes, keepdims=False))

    assert "gather_reduce" not in apply(graph, FuseBags())


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.bool_])
def test_what_has_no_kernel_stays_apart(write, apply, dtype):
    """
    The mean of integers, half precision and booleans go to the reference, reduced or fused.
    """
    rows = write.op("gather", write.constant(np.ones((4, 8)), dtype), _indices(write, 5, 3), axis=0)
    op = "reduce_mean" if dtype == np.int32 else "reduce_max"
    graph = write.done(write.op(op, rows, axes=(1,), keepdims=False))

    assert apply(graph, FuseBags()) == ["gather", op]


def test_rows_without_elements_stay_apart(write, apply):
    """
    Reshaped or not: no number of rows follows from no elements.
    """
    rows, others = (
        write.op("gather", write.weights(4, 0), write.constant([0] * 6, np.int64), axis=0) for _ in range(2)
    )
    grouped = write.op("reshape", others, write.ints(5, 3, 0), allowzero=True)
    graph = write.done(*(write.op("reduce_sum", value, axes=(0,), keepdims=False) for value in (rows, grouped)))

    assert "gather_reduce" not in apply(graph, FuseBags())


def test_rows_that_others_read_are_stored(write, apply):
    """
    Rows that are an output, or reduced twice, are gathered once and kept.
    """
    table, indices = write.weights(4, 8), _indices(write, 5, 3)
    one, two = (write.op("gather", table, indices, axis=0) for _ in range(2))
    sums = [
        write.op(op, rows, axes=(1,), keepdims=False)
        for op, rows in (("reduce_sum", one), ("reduce_max", two), ("reduce_sum", two))
    ]
    graph = write.done(one, *sums)

    assert sorted(apply(graph, FuseBags())) == ["gather", "gather", "reduce_max", "reduce_sum", "reduce_sum"]


def test_a_reduction_with_a_head_keeps_it(write, apply):
    """
    What follows the rows but weights is done by a loop, as before.
    """
    rows = write.op("gather", write.weights(4, 8), _indices(write, 5, 3), axis=0)
    graph = write.done(write.op("reduce_sum", write.op("exp", rows), axes=(1,), keepdims=False))

    assert apply(graph, FuseBags(), GroupElementwise()) == ["gather", "elementwise", "reduce_sum"]
