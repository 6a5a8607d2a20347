"""Weights of 3x3 convolutions as Winograd kernels multiply with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def kernel_transform(points: Sequence[float]) -> Array:
    """The matrix [n, 3] that evaluates a kernel of three at 0, +p and -p for each of `points`, and infinity.

    Each row is divided by the product of the differences to the other points, which the transform of the input
    (`codegen.kernels.conv_winograd_transforms`) leaves out. float64.
    """
    finite = [0.0, *(sign * point for point in points for sign in (1.0, -1.0))]
    rows = [
        np.array([1.0, point, point * point]) / np.prod([point - other for other in finite if other != point])
        for point in finite
    ]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transform_weights(weights: Array, points: Sequence[float], lanes: int, vectors: int) -> Array:
    """[M, C, 3, 3] -> [M / (vectors * lanes), points, C, vectors * lanes], flat; M padded with zeros.

    Computed in float64 and rounded once.
    """
    outputs, channels = weights.shape[:2]
    matrix = kernel_transform(points)
    width = vectors * lanes
    groups = -(-outputs // width)
    padded = np.zeros((groups * width, channels, 3, 3), np.float64)
    padded[:outputs] = weights
    at_points = np.kron(matrix, matrix) @ padded.reshape(-1, 9).T
    split = at_points.astype(weights.dtype).reshape(-1, groups, width, channels)
    return np.ascontiguousarray(split.transpose(1, 0, 3, 2).reshape(-1))
