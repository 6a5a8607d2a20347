"""Constant right factors in the order that product kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack_panels(matrices: Array, width: int) -> Array:
    """[batch, K, N] -> [batch, N / width, K, width]; N padded with zeros to whole panels."""
    batch, depth, columns = matrices.shape
    panels = -(-columns // width)
    if columns == panels * width:
        source = matrices
    else:
        source = np.zeros((batch, depth, panels * width), matrices.dtype)
        source[:, :, :columns] = matrices
    return np.ascontiguousarray(source.reshape(batch, depth, panels, width).transpose(0, 2, 1, 3))
