"""Numbers that do not fit a dtype: which of them PyTorch refuses, and which it lets wrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.compat.torch.dtypes import dtype as DType  # noqa: N812
from treadle.ops.op import Array

_IN_C = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
}
"""The C types that PyTorch's messages name."""

_MOST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo(np.float32).max)}
"""The largest numbers of the floating-point types that refuse larger ones."""


def require_fit(number: Any, to: DType, name: str = "") -> None:
    """Raises RuntimeError if the Python number does not fit into `to`, called `name` in the message.

    Negative integers whose magnitude fits an unsigned type are accepted, as they wrap. float64 accepts all.
    """
    if to.category == 1:
        limits = np.iinfo(to.numpy)
        least = -limits.max if limits.min == 0 else limits.min
        fits = math.isfinite(number) and least <= int(number) <= limits.max
    else:
        fits = to.name not in _MOST or not math.isfinite(number) or abs(number) <= _MOST[to.name]
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {name or _IN_C[to.name]} without overflow")


def checked_scalar(number: Any, to: DType, count: int = 2) -> Array:
    """Returns a Python or NumPy number as a 0-d array of `to`, rounded once, for writing to `count` elements.

    Raises RuntimeError if a Python number does not fit; as in PyTorch, a single float16 or bfloat16 element becomes
    infinite.
    """
    if not isinstance(number, np.generic) and (count > 1 or to.name not in ("float16", "bfloat16")):
        require_fit(number, to)
    with np.errstate(invalid="ignore", over="ignore"):
        return wrapping_scalar(number, to.numpy)


def wrapping_scalar(number: Any, to: np.dtype[Any]) -> Array:
    """Returns a Python number as a 0-d array of `to`; integers of up to 64 bits wrap, as PyTorch's operands do.

    Raises OverflowError for longer ones, as PyTorch.
    """
    if to.kind in "iu" and isinstance(number, int):
        return np.asarray(number, np.uint64 if number >= 1 << 63 else np.int64).astype(to)
    return np.asarray(number, to)
