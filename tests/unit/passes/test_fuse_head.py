"""Reductions take over the loops that compute what they reduce."""

from __future__ import annotations

import pytest

from treadle.dtypes import f32
from treadle.errors import ShapeError
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.passes.fuse_head import FuseHead
from treadle.passes.group_elementwise import GroupElementwise


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"])
@pytest.mark.parametrize("axes", [(0,), (1,), None])
def test_a_product_is_computed_while_it_is_reduced(write, apply, op, axes):
    """
    Elements that only a reduction reads are not stored, whatever it reduces and how.
    """
    product = write.op("mul", write.input(5, 7), write.op("add", write.input(5, 7, name="z"), write.constant(2)))
    graph = write.done(write.op(op, product, axes=axes, keepdims=False))

    assert apply(graph, GroupElementwise(), FuseHead()) == [op]
    assert len(graph.nodes[0].inputs) == 2
    assert [step.op for step in graph.nodes[0].attrs["head"].steps] == ["const", "add", "mul"]


def test_elements_that_others_read_are_stored(write, apply):
    """
    What is an output, or read twice, is computed once and kept.
    """
    x = write.input(5, 7)
    one, two = write.op("mul", x, x), write.op("sqrt", x)
    sums = [write.op("reduce_sum", value, axes=(0,), keepdims=False) for value in (one, two, two)]
    graph = write.done(one, *sums)

    assert apply(graph, GroupElementwise(), FuseHead()).count("reduce_sum") == 3
    assert all("head" not in node.attrs for node in graph.nodes)


def test_operands_that_are_spread_stay_apart(write, apply):
    """
    A row that is added to every row is no operand of a head, which knows one shape.
    """
    sums = write.op("add", write.input(5, 7), write.input(7, name="z"))
    graph = write.done(write.op("reduce_sum", sums, axes=(1,), keepdims=False))

    assert apply(graph, GroupElementwise(), FuseHead()) == ["elementwise", "reduce_sum"]


def test_operands_without_a_head_are_refused() -> None:
    """
    A reduction of two operands must say what becomes of them.
    """
    info = Info(f32, (2,), None)
    with pytest.raises(ShapeError, match="head"):
        OPS["reduce_sum"].infer({"axes": None, "keepdims": False}, [info, info], 1)
