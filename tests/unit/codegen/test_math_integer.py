"""Integer arithmetic of kernels against exact Python integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import StatusError
from tests.single_node import SingleNode
from tests.ulps import evaluate

from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

DTYPES = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)


def _operands(dtype: type, *, small: bool) -> tuple[Array, Array]:
    """Numbers of all sizes and both ends of the range; divisors without 0, or small exponents and shifts."""
    rng, ends = np.random.default_rng(0), np.iinfo(dtype)
    x = rng.integers(ends.min, ends.max, 2003, dtype, endpoint=True)
    x[:3] = ends.min
    if small:
        return x, rng.integers(0, 70, x.size).astype(dtype)
    y = rng.integers(ends.min, ends.max, x.size, dtype, endpoint=True)
    y[100:1000] = rng.integers(1, 10, 900)
    y[y == 0] = 3
    if ends.min < 0:
        y[:2] = -1, 1
    return x, y


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


EXACT: dict[str, Callable[[int, int], int]] = {
    "div": _quotient,
    "fmod": lambda x, y: x - y * _quotient(x, y),
    "mod": lambda x, y: x % y,
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "min": min,
    "max": max,
    "pow": lambda x, y: x**y,
    "shift_right": lambda x, y: x >> y,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", EXACT)
def test_integers_wrap_around_and_are_exact_otherwise(target: Target, op: str, dtype: type) -> None:
    """
    Every operation gives the exact result modulo 2 ** width; quotients drop the fraction, mod has the divisor's sign.
    """
    x, y = _operands(dtype, small=op in ("pow", "shift_right"))
    bits = 8 * x.itemsize
    exact = [EXACT[op](int(a), int(b)) % (1 << bits) for a, b in zip(x, y, strict=True)]
    want = np.array(exact, np.uint64).astype(np.dtype(f"u{x.itemsize}")).view(dtype)
    np.testing.assert_array_equal(evaluate(op, [x, y], target), want)


@pytest.mark.parametrize("op", ["div", "mod", "fmod"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_division_by_zero_is_reported(target: Target, op: str, dtype: type) -> None:
    """
    One zero among the divisors makes the kernel return its status; memory past a short remainder does not count.
    """
    x = np.arange(1, 40, dtype=dtype)
    y = np.full(39, 3, dtype)
    SingleNode(op, [x, y]).check(target)
    y[38] = 0
    with pytest.raises(StatusError, match="status 2"):
        SingleNode(op, [x, y]).run(target)
