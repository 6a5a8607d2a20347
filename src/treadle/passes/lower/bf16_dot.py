"""Constant operands of bf16 dot products: two neighbours along the summed axis are one element."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def bf16_bits(values: Array) -> Array:
    """f32 rounded to the nearest bf16, ties to even, as uint16 bits; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def pack_bf16(values: Array, axis: int) -> Array:
    """f32 [.., 2 n, ..] -> uint32 [.., n, ..]: elements 2 i (lower half) and 2 i + 1 of `axis`, rounded to bf16.

    An odd axis is padded with a zero.
    """
    bits = np.moveaxis(bf16_bits(values), axis, 0)
    if bits.shape[0] % 2:
        bits = np.concatenate([bits, np.zeros_like(bits[:1])])
    return np.moveaxis(bits[0::2].astype(np.uint32) | (bits[1::2].astype(np.uint32) << np.uint32(16)), 0, axis)
