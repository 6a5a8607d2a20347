"""Numbers that an element type does not hold: where PyTorch refuses them, and where it lets them wrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.compat.torch.dtypes import dtype as DType  # noqa: N812
from weft.ops.op import Array

_IN_C = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float32": "float",
}
"""What PyTorch calls the element types where its messages name those of C."""


def need_fit(number: Any, to: DType, name: str = "") -> None:
    """Raise RuntimeError if the Python number does not fit into `to`, called `name` in the message.

    Negative integers whose size fits count as fitting unsigned types, in which they wrap. Of the floats only float32 refuses.
    """
    if to.category == 1:
        limits = np.iinfo(to.numpy)
        least = -limits.max if limits.min == 0 else limits.min
        fits = math.isfinite(number) and least <= int(number) <= limits.max
    else:
        fits = to.name != "float32" or not math.isfinite(number) or abs(number) <= float(np.finfo(np.float32).max)
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {name or _IN_C[to.name]} without overflow")


def wrapped(number: Any, to: np.dtype[Any]) -> Array:
    """A Python number as a 0-d array of `to`; integers outside its range wrap, as operands of PyTorch's operators do."""
    if to.kind in "iu" and isinstance(number, int):
        return np.asarray(number, np.int64).astype(to)
    return np.asarray(number, to)
