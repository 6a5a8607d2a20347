"""Numbers that an element type does not hold: where PyTorch refuses them, and where it lets them wrap."""

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
"""What PyTorch calls the element types where its messages name those of C."""

_MOST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo(np.float32).max)}
"""The largest numbers of the floats that refuse larger ones."""


def need_fit(number: Any, to: DType, name: str = "") -> None:
    """Raise RuntimeError if the Python number does not fit into `to`, called `name` in the message.

    Negative integers whose size fits count as fitting unsigned types, in which they wrap. float64 holds all.
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
    """A Python or NumPy number as a 0-d array of `to`, rounded once, to be written to `count` elements.

    Raises RuntimeError if a Python number does not fit; a single element of a short float becomes infinite, as in
    PyTorch.
    """
    if not isinstance(number, np.generic) and (count > 1 or to.name not in ("float16", "bfloat16")):
        need_fit(number, to)
    with np.errstate(invalid="ignore", over="ignore"):
        return wrapping_scalar(number, to.numpy)


def wrapping_scalar(number: Any, to: np.dtype[Any]) -> Array:
    """A Python number as a 0-d array of `to`; integers of up to 64 bits wrap, as operands of PyTorch's operators do.

    Raises OverflowError for longer ones, as PyTorch.
    """
    if to.kind in "iu" and isinstance(number, int):
        return np.asarray(number, np.uint64 if number >= 1 << 63 else np.int64).astype(to)
    return np.asarray(number, to)
