"""Constants of 8 bits, four neighbours of the summed axis to an element, as products of quads read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dtypes import i8
from treadle.graph.value import Value

Array = np.ndarray[Any, Any]


def joined_quads(values: Array, axis: int) -> Array:
    """i8 [.., n, ..] -> i32 [.., n / 4, ..]: elements 4 i (lowest byte) to 4 i + 3 of `axis`, filled up with zeros."""
    moved = np.moveaxis(values, axis, -1)
    missing = -moved.shape[-1] % 4
    if missing:
        moved = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, missing)])
    quads = np.ascontiguousarray(moved).view(np.dtype("<i4"))
    return np.moveaxis(quads, -1, axis)


def kind_of(x: Value) -> str:
    """How kernels of quads call the bytes of `x`."""
    return "signed" if x.dtype == i8 else "unsigned"


def offset_of(x: Value, zero: int) -> int:
    """What is subtracted from the bytes of `x` as kernels of quads see them: signed ones are 128 higher there."""
    return zero + 128 if x.dtype == i8 else zero
