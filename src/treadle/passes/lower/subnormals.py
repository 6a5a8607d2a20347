"""Subnormal weights count as 0: they change sums by less than rounding does, and are multiplied up to 100 times slower.

Training leaves them behind in channels that it has given up: in layers of PP-OCRv6, two thirds of all weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.knobs import is_enabled

Array = np.ndarray[Any, Any]

_AT_ONCE = 1 << 16
"""Numbers that are looked at together, so that what NumPy makes of them stays in caches."""


def may_flush(math: str) -> bool:
    """Whether subnormal weights count as 0."""
    return math != "exact" and is_enabled("flush_subnormals")


def without_subnormals(numbers: Array) -> Array:
    """`numbers` with 0 instead of subnormal ones; a copy if there are any.

    Integers stay as they are, and so do pairs of bf16, whose products count subnormal numbers as 0 anyway.
    """
    if numbers.dtype not in (np.float32, np.float64):
        return numbers
    least = np.finfo(numbers.dtype).smallest_normal
    flat = numbers.reshape(-1)
    result: Array | None = None
    for begin in range(0, flat.size, _AT_ONCE):
        part = flat[begin : begin + _AT_ONCE]
        is_subnormal = (np.abs(part) < least) & (part != 0)
        if is_subnormal.any():
            result = flat.copy() if result is None else result
            result[begin : begin + _AT_ONCE][is_subnormal] = 0
    return numbers if result is None else result.reshape(numbers.shape)
