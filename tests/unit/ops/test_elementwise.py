"""Scalar ops at the edges of their dtypes, and scalar programs."""

import ml_dtypes
import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import KernelError, ShapeError
from treadle.graph.expr import Expr, Step, compose
from treadle.ops.elementwise import SCALAR_OPS, check_expr, evaluate_expr


def apply(op, *operands):
    return SCALAR_OPS[op].apply([np.asarray(operand) for operand in operands])


def test_integer_division_truncates_toward_zero():
    """-7 / 2 is -3."""
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    assert apply("div", a, b).tolist() == [3, -3, -3, 3]


@pytest.mark.parametrize("op", ["div", "mod", "fmod"])
def test_integers_are_not_divided_by_zero(op):
    """As in the kernels: an error, where floats give infinities and NaN."""
    with pytest.raises(KernelError, match="divided by zero"):
        apply(op, np.array([5, 6]), np.array([1, 0]))
    assert apply(op, np.empty(0, np.int64), np.array([0])).tolist() == []
    assert not np.isfinite(apply(op, 5.0, 0.0))


def test_the_smallest_integer_divided_by_minus_one_wraps():
    """The one quotient that does not fit stays the smallest integer."""
    smallest = np.array([np.iinfo(np.int32).min], np.int32)
    assert apply("div", smallest, np.array([-1], np.int32)).tolist() == smallest.tolist()


def test_mod_has_the_divisors_sign_and_fmod_the_dividends():
    """Two remainders, as in Python and in C."""
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    assert apply("mod", a, b).tolist() == [1, 2, -2, -1]
    assert apply("fmod", a, b).tolist() == [1, -1, 1, -1]


def test_integer_powers_with_negative_exponents():
    """They are whole only for 1 and -1; all else rounds to 0."""
    assert apply("pow", np.array([2, 1, -1, -1, 0]), np.array([-1, -5, -3, -2, -1])).tolist() == [0, 1, -1, 1, 0]


def test_round_goes_to_the_even_neighbour():
    """Halves are rounded to even numbers."""
    assert apply("round", np.array([0.5, 1.5, 2.5, -0.5])).tolist() == [0.0, 2.0, 2.0, -0.0]


@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_propagate_nan(op):
    """A NaN on either side is the result."""
    nan = np.float32(np.nan)
    assert np.isnan(apply(op, nan, np.float32(1)))
    assert np.isnan(apply(op, np.float32(1), nan))


def test_relu_and_clip_propagate_nan():
    """A NaN is no number to be clipped."""
    nan = np.float32(np.nan)
    assert np.isnan(apply("relu", nan))
    assert np.isnan(apply("clip", nan, np.float32(0), np.float32(1)))


def test_large_arguments_do_not_overflow():
    """softplus and sigmoid are right where a naive formula is infinite."""
    assert apply("softplus", np.float32(1000)) == 1000
    assert apply("sigmoid", np.float32(-1000)) == 0


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_rounded_once(half):
    """Half precision is computed wider and rounded at the end."""
    x = np.linspace(-3, 3, 41).astype(half)
    for op in ("exp", "tanh", "add"):
        operands = (x,) if SCALAR_OPS[op].arity == 1 else (x, x)
        wanted = SCALAR_OPS[op].function(*(operand.astype(np.float64) for operand in operands)).astype(half)
        found = apply(op, *operands)
        assert found.dtype == half
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_strings_can_be_compared_and_chosen():
    """`eq` and `where` work on strings."""
    words = np.array(["a", "b"], object)
    assert apply("eq", words, np.array(["a", "c"], object)).tolist() == [True, False]
    assert apply("where", np.array([True, False]), words, words[::-1].copy()).tolist() == ["a", "a"]


def test_composition_is_one_program_after_the_other():
    """Evaluating a composition equals evaluating producer and consumer in turn."""
    f32 = dtypes.f32
    producer = Expr((f32, f32), (Step("mul", (0, 1), f32),), (2,))
    consumer = Expr((f32, f32), (Step("sub", (0, 1), f32), Step("exp", (2,), f32)), (3,))
    a, b, c = (np.arange(4, dtype=np.float32) + n for n in range(3))
    (found,) = evaluate_expr(compose(producer, consumer, 1), [a, b, c])
    np.testing.assert_array_equal(found, SCALAR_OPS["exp"].apply([c - a * b]))


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (Expr((dtypes.f32,), (Step("expp", (0,), dtypes.f32),), (1,)), "no scalar op is called 'expp'"),
        (Expr((dtypes.f32,), (Step("exp", (1,), dtypes.f32),), (1,)), "not computed before it"),
        (Expr((dtypes.f32,), (Step("isnan", (0,), dtypes.f32),), (1,)), "isnan gives bool, not f32"),
        (Expr((dtypes.f32,), (Step("add", (0,), dtypes.f32),), (1,)), "add takes 2 operands, got 1"),
        (Expr((dtypes.f32,), (Step("cast", (0, 0), dtypes.i64),), (1,)), "cast takes 1 operand, got 2"),
        (Expr((dtypes.f32,), (), (1,)), "returns a value that it does not compute"),
    ],
)
def test_broken_programs_are_refused(expr, message):
    """Every fault of a scalar program is told."""
    with pytest.raises(ShapeError, match=message):
        check_expr(expr)
