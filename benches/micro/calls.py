"""Calls of generated kernels from Python: their C type, and memory with the alignment of arenas."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
"""status = kernel(addresses of outputs and inputs, address of the i64 arguments, number of the chunk, scratch)."""


def aligned(shape: Sequence[int], dtype: Any) -> Array:
    """Returns a zeroed array that begins at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    array: Array = block[start : start + size].view(dtype).reshape(shape)
    return array
