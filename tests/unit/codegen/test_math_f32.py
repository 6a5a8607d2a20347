"""Elementary functions of f32 against float64, over all exponents."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.ulps import assert_within, evaluate

from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


TRUTH: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": np.log, "expm1": np.expm1, "log1p": np.log1p, "tanh": np.tanh, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": _sigmoid,
    "softplus": _softplus, "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x, "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign,
}  # fmt: skip
TELL_ZEROS = (
    "exp", "log", "expm1", "log1p", "asinh", "atanh", "tanh", "erf", "sigmoid", "sin", "floor", "ceil", "round", "sqrt",
)  # fmt: skip
EXACT = ("sqrt", "reciprocal", "floor", "ceil", "round", "sign")
EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3.4028235e38, 88.72283, 88.72284, -87.33, -103.97, 89.4)


@lru_cache(maxsize=1)
def _points() -> Array:
    """A million floats evenly spread over all bit patterns, the edges, and many of ordinary size."""
    rng = np.random.default_rng(0)
    return np.concatenate([
        np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32),
        np.array(EDGES, np.float32),
        rng.uniform(-10, 10, 200_003).astype(np.float32),
        rng.uniform(-110, 110, 200_003).astype(np.float32),
        np.exp(rng.uniform(-20, 1, 100_003)).astype(np.float32) * rng.choice(np.float32([-1, 1]), 100_003),
    ])  # fmt: skip


@lru_cache(maxsize=len(TRUTH))
def _truth(op: str) -> Array:
    with np.errstate(all="ignore"):
        return TRUTH[op](_points().astype(np.float64))


@pytest.mark.parametrize("op", TRUTH)
def test_functions_are_within_two_ulps_everywhere(target: Target, op: str) -> None:
    """
    From denormals to infinities no result is more than 2 ulps from the truth; roundings and roots are exact.
    """
    assert_within(0.5 if op in EXACT else 2.0, op, [_points()], _truth(op), target)


@pytest.mark.parametrize("op", TELL_ZEROS)
def test_zero_keeps_its_sign_where_it_should(target: Target, op: str) -> None:
    """
    Odd functions and roundings map -0 to -0; the others do not tell the zeros apart.
    """
    zeros = np.array([0.0, -0.0], np.float32)
    expected = TRUTH[op](zeros.astype(np.float64)) if op != "log" else np.array([-np.inf, -np.inf])
    assert (np.signbit(evaluate(op, [zeros], target)) == np.signbit(expected)).all()


def _pairs() -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    edges = np.array([0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45, 1.5, -1.5])
    x, y = (axis.ravel() for axis in np.meshgrid(edges, edges))
    n = 200_000
    x = np.concatenate([x, rng.uniform(0, 3, n), np.exp(rng.uniform(-80, 80, n)), rng.uniform(-5, 5, n)])
    y = np.concatenate([y, rng.uniform(-20, 20, n), rng.uniform(-9, 9, n), rng.integers(-20, 20, n)])
    return x.astype(np.float32), y.astype(np.float32)


def test_powers_are_correct_to_the_last_place_or_so(target: Target) -> None:
    """
    pow is within an ulp for ordinary and extreme operands and follows IEEE 754 at the edges.
    """
    x, y = _pairs()
    with np.errstate(all="ignore"):
        assert_within(1.0, "pow", [x, y], np.power(x.astype(np.float64), y.astype(np.float64)), target)


@pytest.mark.parametrize(("op", "truth"), [("fmod", np.fmod), ("mod", np.mod)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(target: Target, op: str, truth: Callable[..., Array], dtype: type) -> None:
    """
    Remainders are exact however large the quotient, with the sign of the dividend (fmod) or divisor (mod).
    """
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 2**64, (2, 20_000), np.uint64).view(np.float64)
    near = _pairs()
    with np.errstate(all="ignore"):
        x, y = (np.concatenate([a, b]).astype(dtype) for a, b in zip(raw, near, strict=True))
        want = truth(x, y)
    got = evaluate(op, [x, y], target)
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize(("op", "truth"), [("min", np.minimum), ("max", np.maximum)])
def test_extremes_are_nan_if_either_operand_is(target: Target, op: str, truth: Callable[..., Array]) -> None:
    """
    min and max give NaN if the first or the second operand is NaN.
    """
    x, y = _pairs()
    np.testing.assert_array_equal(evaluate(op, [x, y], target), truth(x, y))
    np.testing.assert_array_equal(evaluate(op, [y, x], target), truth(y, x))
