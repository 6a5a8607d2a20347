"""Diagonals, sliding windows, positions of triangles, distances of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.create import arange, arange_step
from treadle.frontends.torch.rules.reduce import norm
from treadle.frontends.torch.rules.rule import Rule
from treadle.graph.dim import maximum, minimum
from treadle.graph.value import Value


def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Returns the elements x[.., i, i + offset] of the axes dim1 and dim2, as the last axis."""
    one, two = b.axis(x, dim1), b.axis(x, dim2)
    if one == two:
        raise Fault(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [axis for axis in range(b.rank(x)) if axis not in (one, two)]
    *front, rows, columns = b.shape(b.transpose(x, [*rest, one, two]))
    length = maximum(0, minimum(rows + min(offset, 0), columns - max(offset, 0)))
    start = offset if offset >= 0 else -offset * columns
    flat = b.reshape(b.transpose(x, [*rest, one, two]), [*front, rows * columns])
    places = arange_step(b, start, start + length * (columns + 1), columns + 1)
    return b.add("gather", flat, places, axis=len(front))


def unfold(b: Builder, x: Value, dim: int, size: int, step: int) -> Value:
    """Returns windows of `size` entries, `step` apart; `dim` becomes the number of windows, their entries come last."""
    axis = b.axis(x, dim)
    length = b.shape(x)[axis] if b.rank(x) else 1
    if not 0 <= size <= length or step < 1:
        raise Fault(f"windows of {size} entries, {step} apart, do not fit an axis of {length}")
    begins = b.reshape(arange_step(b, 0, length - size + 1, step), [-1, 1])
    windows = b.add("gather", x, b.add("add", begins, arange(b, size)), axis=axis)
    axes = [*range(b.rank(x) + 1)]
    return b.transpose(windows, [*axes[: axis + 1], *axes[axis + 2 :], axis + 1])


def triangle_indices(upper: bool) -> Rule:
    """Returns the rule of the positions of the upper or lower triangle of a matrix, i64[2, n]."""

    def rule(b: Builder, rows: int, columns: int, offset: int = 0, *_: Any) -> Value:
        found = np.triu_indices(rows, offset, columns) if upper else np.tril_indices(rows, offset, columns)
        return b.constant(np.asarray(found, np.int64))

    return rule


def cdist(b: Builder, x: Value, y: Value, p: float = 2.0, mode: int | None = None) -> Value:  # noqa: ARG001
    """Returns the distances of the rows of x [.., n, d] and y [.., m, d]: [.., n, m]."""
    *front, n, d = b.shape(x)
    *other, m, _ = b.shape(y)
    differences = b.add("sub", b.reshape(x, [*front, n, 1, d]), b.reshape(y, [*other, 1, m, d]))
    if p == 0:
        different = b.add("ne", differences, b.scalar(0, x.known_dtype))
        return b.reduce("reduce_sum", b.cast(different, x.known_dtype), (b.rank(differences) - 1,))
    return norm(b, differences, math.inf if p == math.inf else p, -1)
