"""Elementary functions of f64 against extended precision."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.ulps import assert_within
from tests.unit.codegen.test_math_f32 import TRUTH

from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

LIMITS = {
    "erf": 4.0, "erfc": 4.0, "tan": 4.0, "asinh": 4.0, "acosh": 4.0, "atanh": 4.0, "sqrt": 0.5, "reciprocal": 0.5,
    "floor": 0.0, "ceil": 0.0, "round": 0.0, "sign": 0.0,
}  # fmt: skip
"""In ulps; 2 for all others."""

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="this machine's long double is no wider than f64: there is no truth here"
)


@lru_cache(maxsize=1)
def _points() -> Array:
    """Floats of all exponents, the edges, many of ordinary size, and neighbours of multiples of pi / 2."""
    rng = np.random.default_rng(0)
    return np.concatenate([
        rng.integers(0, 2**64, 200_000, np.uint64).view(np.float64),
        np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1.7e308, 5e-324, 709.78, 709.79, -745.1, -745.2, -708.4]),
        rng.uniform(-10, 10, 100_000), rng.uniform(-750, 750, 100_000), rng.uniform(-1, 1, 100_000),
        np.exp(rng.uniform(-40, 1, 100_000)) * rng.choice([-1, 1], 100_000),
        np.pi / 2 * rng.integers(1, 2**30, 50_000), np.pi / 2 * np.arange(1, 3000),
    ])  # fmt: skip


@lru_cache(maxsize=len(TRUTH))
def _truth(op: str) -> Array:
    with np.errstate(all="ignore"):
        if op in ("erf", "erfc"):
            return TRUTH[op](_points()).astype(np.longdouble)
        return TRUTH[op](_points().astype(np.longdouble))


@pytest.mark.parametrize("op", TRUTH)
def test_functions_are_within_two_ulps_everywhere(target: Target, op: str) -> None:
    """
    From denormals to infinities no result is more than 2 ulps from the truth, 4 for erf, erfc, tan and the
    inverses of the hyperbolic functions.
    """
    assert_within(LIMITS.get(op, 2.0), op, [_points()], _truth(op), target)


def test_powers_are_within_two_ulps(target: Target) -> None:
    """
    pow is within 2 ulps for ordinary and extreme operands and follows IEEE 754 at the edges.
    """
    rng = np.random.default_rng(1)
    edges = np.array([0, -0.0, 1, -1, 2, -2, 3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 2.0**53 + 2])
    x, y = (axis.ravel() for axis in np.meshgrid(edges, edges))
    n = 100_000
    x = np.concatenate([x, rng.uniform(0, 3, n), np.exp(rng.uniform(-700, 700, n)), rng.uniform(0.9, 1.1, n)])
    y = np.concatenate([y, rng.uniform(-20, 20, n), rng.uniform(-1, 1, n), rng.uniform(-7000, 7000, n)])
    with np.errstate(all="ignore"):
        truth: Callable[..., Array] = np.power
        assert_within(2.0, "pow", [x, y], truth(x.astype(np.longdouble), y.astype(np.longdouble)), target)
