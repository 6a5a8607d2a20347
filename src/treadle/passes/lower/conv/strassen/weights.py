"""Weights of pointwise convolutions as the kernel of Strassen's algorithm reads them: their sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def right_sums(b: Array) -> Iterator[Array]:
    """Yields the right factors of all products, for a matrix `b` [side, side, ...] of blocks; side: a power of 2.

    Order and signs are those of `codegen.kernels.strassen_sums`.
    """
    half = len(b) // 2
    if not half:
        yield b[0, 0]
        return
    b11, b12, b21, b22 = b[:half, :half], b[:half, half:], b[half:, :half], b[half:, half:]
    t2 = b22 - b12 + b11
    for factor in (b11, b21, t2, b22 - b12, b12 - b11, b22, t2 - b21):
        yield from right_sums(factor)


def sum_weights(weights: Array, side: int, lanes: int, vectors: int) -> Array:
    """[M, C] -> [group, product, C / side, vectors * lanes], flat; M padded with zeros to whole groups.

    A group is `vectors` parts of `side` blocks of `lanes` outputs. Computed in float64 and rounded once.
    """
    outputs, channels = weights.shape
    parts, groups = channels // (side * lanes), -(-outputs // (side * lanes * vectors))
    padded = np.zeros((groups * vectors * side * lanes, channels), np.float64)
    padded[:outputs] = weights
    blocks = padded.reshape(groups, vectors, side, lanes, parts, side, lanes)
    # axes of `matrix`: block of channels, block of outputs, group, part, channel, vector, output
    matrix = blocks.transpose(5, 2, 0, 4, 6, 1, 3)
    sums: Array = np.stack([factor.astype(weights.dtype) for factor in right_sums(matrix)], axis=1)
    return sums.reshape(-1)
