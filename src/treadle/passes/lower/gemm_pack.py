"""Constant right factors in the order that product kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack_panels(matrices: Array, width: int) -> Array:
    """[batch, K, N] -> [batch, N / width, K, width]; N padded with zeros to whole panels."""
    batch, depth, columns = matrices.shape
    whole, rest = divmod(columns, width)
    packed = np.empty((batch, whole + (rest > 0), depth, width), matrices.dtype)
    source = matrices[:, :, : whole * width].reshape(batch, depth, whole, width)
    packed[:, :whole] = source.transpose(0, 2, 1, 3)
    if rest:
        packed[:, whole, :, :rest] = matrices[:, :, whole * width :]
        packed[:, whole, :, rest:] = 0
    return packed
