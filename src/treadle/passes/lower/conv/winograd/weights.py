"""Weights of convolutions as Winograd kernels read them: transformed, or taps that the kernels transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.plan.kernels.conv.winograd import Matrix

Array = np.ndarray[Any, Any]


def kernel_transform(points: Sequence[float], taps: int, stride: int) -> Array:
    """Returns the matrix [n, taps] that evaluates a kernel at 0, +p and -p for each p of `points`, and infinity.

    Without points it is [[1]]. Each row is divided by the product of the differences to the other points, which the
    transform of the input (`codegen.kernels.conv.winograd.transforms`) leaves out. With stride 2 it is [n, 3]: the
    first and the last tap at 0, `points` and infinity, then the middle tap. float64.
    """
    if stride == 2:
        outer = _evaluated([0.0, *points], 2)
        return np.block([[outer[:, :1], np.zeros((len(outer), 1)), outer[:, 1:]], [0.0, 1.0, 0.0]])
    if not points:
        return np.ones((1, taps))
    return _evaluated([0.0, *(sign * point for point in points for sign in (1.0, -1.0))], taps)


def _evaluated(finite: Sequence[float], taps: int) -> Array:
    """Returns the rows of `kernel_transform` for the points `finite` and infinity."""
    powers = np.arange(taps)
    rows = [point**powers / np.prod([point - other for other in finite if other != point]) for point in finite]
    return np.array([*rows, powers == taps - 1])


def kernel_matrices(
    points: tuple[Sequence[float], Sequence[float]], kernel: Sequence[int], strides: tuple[int, int]
) -> tuple[Matrix, Matrix]:
    """Returns the vertical and the horizontal matrix of `kernel_transform`, row by row."""
    down, across = (
        tuple(tuple(row) for row in kernel_transform(axis, taps, stride).tolist())
        for axis, taps, stride in zip(points, kernel, strides, strict=True)
    )
    return down, across


def transform_weights(
    weights: Array, points: tuple[Sequence[float], Sequence[float]], strides: tuple[int, int], width: int
) -> Array:
    """[M, C, KH, KW] -> [M / width, factors, C, width], flat; M padded with zeros. `points`: vertical and horizontal.

    Computed in float64 and rounded once.
    """
    outputs, channels, *kernel = weights.shape
    matrix = np.kron(*kernel_matrices(points, kernel, strides))
    groups = -(-outputs // width)
    result = np.empty((groups, matrix.shape[0], channels, width), weights.dtype)
    flat = weights.reshape(outputs, channels, -1)
    for group in range(groups):  # group by group: float64 values of all weights would take nine times their memory
        own = flat[group * width : (group + 1) * width]
        padded = np.zeros((width, channels, matrix.shape[1]), np.float64)
        padded[: len(own)] = own
        by_tap = padded.transpose(2, 1, 0).reshape(-1, channels * width)
        result[group] = np.einsum("pt,tx->px", matrix, by_tap).reshape(-1, channels, width)
    return result.reshape(-1)


def group_taps(weights: Array, width: int) -> Array:
    """[M, C, KH, KW] -> [M / width, C, KH * KW, width], flat; M padded with zeros."""
    outputs, channels, *kernel = weights.shape
    groups = -(-outputs // width)
    padded = np.zeros((groups * width, channels, *kernel), weights.dtype)
    padded[:outputs] = weights
    return np.ascontiguousarray(padded.reshape(groups, width, channels, -1).transpose(0, 2, 3, 1)).reshape(-1)
