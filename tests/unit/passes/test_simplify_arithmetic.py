"""Arithmetic takes cheaper forms, and under exact math only those that round the same."""

import math

import numpy as np
import pytest

from treadle import dtypes
from treadle.passes.simplify_arithmetic import SimplifyArithmetic


@pytest.mark.parametrize(
    ("exponent", "ops"), [(2, ["mul"]), (3, ["mul", "mul"]), (0.5, ["sqrt"]), (-0.5, ["rsqrt"]), (-1, ["reciprocal"])]
)
def test_powers(write, apply, exponent, ops):
    """
    Powers with simple exponents become multiplications and roots.
    """
    x = write.op("abs", write.input(5))
    graph = write.done(write.op("pow", x, write.constant(exponent)))

    assert apply(graph, SimplifyArithmetic()) == ["abs", *ops]


def test_exact_math_keeps_roots(write, apply, exact):
    """
    Under exact math only squares are rewritten.
    """
    x = write.op("abs", write.input(5))
    y = write.op("pow", x, write.constant(0.5))
    graph = write.done(write.op("pow", y, write.constant(2)))

    assert apply(graph, SimplifyArithmetic(), context=exact) == ["abs", "pow", "mul"]


@pytest.mark.parametrize(("divisor", "op"), [(8, "mul"), (math.sqrt(2), "div"), (0, "div")])
def test_exact_division(write, apply, exact, divisor, op):
    """
    Under exact math a division becomes a multiplication only for powers of two.
    """
    graph = write.done(write.op("div", write.input(5), write.constant(divisor)))
    graph.outputs = [write.op("isnan", graph.outputs[0])] if divisor == 0 else graph.outputs
    write.done(*graph.outputs)

    assert apply(graph, SimplifyArithmetic(), context=exact)[0] == op


def test_fast_division(write, apply):
    """
    Under fast math dividing by any constant that has a reciprocal becomes a multiplication.
    """
    graph = write.done(write.op("div", write.input(5), write.constant(math.sqrt(2))))

    assert apply(graph, SimplifyArithmetic()) == ["mul"]


def test_integer_division_stays(write, apply):
    """
    Integers have no reciprocals.
    """
    x = write.input(5, dtype=dtypes.i64)
    graph = write.done(write.op("div", x, write.ints(2)))

    assert apply(graph, SimplifyArithmetic()) == ["div"]


def test_factors_merge(write, apply):
    """
    Two multiplications by constants become one.
    """
    y = write.op("mul", write.input(5), write.constant(2))
    graph = write.done(write.op("mul", write.constant(3), y))

    assert apply(graph, SimplifyArithmetic()) == ["mul"]
    assert graph.nodes[0].operand(1).data == 6


def test_double_negation(write, apply):
    """
    Negating twice does nothing.
    """
    graph = write.done(write.op("neg", write.op("neg", write.op("exp", write.input(5)))))

    assert apply(graph, SimplifyArithmetic()) == ["exp"]


@pytest.mark.parametrize("chosen", [True, False])
def test_decided_where(write, apply, chosen):
    """
    A choice whose condition is constant is made at once.
    """
    x, y = write.input(2, 3), write.input(2, 3, name="y")
    condition = write.constant(np.full((2, 3), chosen), np.bool_)
    graph = write.done(write.op("where", condition, write.op("exp", x), write.op("neg", y)))

    assert apply(graph, SimplifyArithmetic()) == ["exp" if chosen else "neg"]
