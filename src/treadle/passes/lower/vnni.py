"""Operands of VNNI dot products: four neighbouring bytes along the summed axis are one element."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dtypes import i8
from treadle.graph.value import Value
from treadle.plan.kernels.register_block import REMAINDER_HEAD

Array = np.ndarray[Any, Any]


def pack_bytes(values: Array, axis: int) -> Array:
    """i8 [.., n, ..] -> i32 [.., n / 4, ..]: elements 4 i (lowest byte) to 4 i + 3 of `axis`, padded with zeros."""
    moved = np.moveaxis(values, axis, -1)
    missing = -moved.shape[-1] % 4
    if missing:
        moved = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, missing)])
    packed = np.ascontiguousarray(moved).view(np.dtype("<i4"))
    return np.moveaxis(packed, -1, axis)


def pack_words(values: Array, axis: int) -> Array:
    """i8 [.., n, ..] -> i32 [.., n / 2, ..]: elements 2 i (lower 16 bits) and 2 i + 1 of `axis`, padded with zeros."""
    moved = np.moveaxis(values, axis, -1).astype(np.int16)
    if moved.shape[-1] % 2:
        moved = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, 1)])
    return np.moveaxis(np.ascontiguousarray(moved).view(np.dtype("<i4")), -1, axis)


def without_saturation(packed: Array) -> tuple[Array, Array]:
    """Two terms of the bytes of i32: no products of the first ones and unsigned bytes exceed 16 bits, added in pairs.

    Of two neighbouring bytes that might, the second one is in the second term instead.
    """
    pairs = np.ascontiguousarray(packed).view(np.int8).reshape(*packed.shape, 2, 2)
    wide = pairs.astype(np.int32) * 255
    limits = np.iinfo(np.int16)
    exceeds = (np.maximum(wide, 0).sum(axis=-1) > limits.max) | (np.minimum(wide, 0).sum(axis=-1) < limits.min)
    first, second = pairs.copy(), np.zeros_like(pairs)
    second[..., 1][exceeds] = pairs[..., 1][exceeds]
    first[..., 1][exceeds] = 0
    return _joined(first, packed), _joined(second, packed)


def _joined(pairs: Array, like: Array) -> Array:
    """Pairs of pairs of bytes as elements of the dtype of `like`."""
    joined: Array = pairs.reshape(*like.shape, 4).view(like.dtype)[..., 0]
    return joined


def listed_remainders(second: Array) -> tuple[Array, int]:
    """Second terms i32 [panels, width, ..] as the list that REMAINDER_HEAD describes, and the number of its entries.

    An entry begins with where it is along the further axes.
    """
    panels, width = second.shape[:2]
    panel, *places = np.nonzero(second.any(axis=1))
    entries = np.zeros((len(panel), REMAINDER_HEAD + width), np.int32)
    for number, place in enumerate(places):
        entries[:, number] = place
    entries[:, REMAINDER_HEAD:] = np.moveaxis(second, 1, -1)[(panel, *places)]
    starts = np.zeros(-(-(panels + 1) // REMAINDER_HEAD) * REMAINDER_HEAD, np.int32)
    starts[: panels + 1] = np.searchsorted(panel, np.arange(panels + 1))
    return np.concatenate([starts, entries.reshape(-1)]), len(panel)


def bytes_are_faster(steps: int, entries: int, vectors: int, *, signed: bool) -> bool:
    """Whether bytes take fewer instructions than words: three for four products of a lane instead of four.

    `entries` are further steps. Signed bytes take one instruction more, which `vectors` vectors of weights share.
    """
    return 3 * (steps + entries) + (steps / vectors if signed else 0) < 4 * steps


def split_pairs(packed: Array, lanes: int) -> Array:
    """The first two bytes of every `lanes` elements of i32, then the last two of them: each half is widened at once.

    `lanes` divides the last axis.
    """
    pairs = np.ascontiguousarray(packed).view(np.int16).reshape(-1, lanes, 2)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).view(packed.dtype).reshape(packed.shape)


def signedness(x: Value) -> str:
    """Returns the parameter `vnni` of a kernel that multiplies the bytes of `x`."""
    return "signed" if x.dtype == i8 else "unsigned"


def vnni_zero_point(x: Value, zero: int) -> int:
    """Returns the zero point of `x`'s bytes as VNNI dot products see them: signed bytes are 128 higher there."""
    return zero + 128 if x.dtype == i8 else zero
