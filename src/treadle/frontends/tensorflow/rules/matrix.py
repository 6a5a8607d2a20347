"""Matrices: diagonals, and products with vectors."""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.kinds import Same, Value
from treadle.frontends.tensorflow.rules.shape import identity_matrix
from treadle.graph.dim import minimum


def matvec(e: Emitter, a: Same, b: Same, transpose_a: bool = False) -> Value:
    """Return the product of a [..., m, n] and b [..., n]."""
    if e.rank(a) < 2 or e.rank(b) < 1:
        raise ValueError(f"matvec: wanted ranks of at least 2 and 1, got {e.rank(a)} and {e.rank(b)}")
    column = e.add("unsqueeze", b, e.integers([e.rank(b)]))
    found = e.add("matmul", a, column, transpose_a=transpose_a, transpose_b=False)
    return e.add("squeeze", found, e.integers([e.rank(found) - 1]))


def matrix_transpose(e: Emitter, a: Value) -> Value:
    """Swap the last two axes."""
    rank = e.rank(a)
    return e.transpose(a, (*range(rank - 2), rank - 1, rank - 2))


def diag(e: Emitter, diagonal: Same) -> Value:
    """Return [..., n, n] with `diagonal` [..., n] on the main diagonal and 0 elsewhere."""
    size = e.shape(diagonal)[-1]
    square = (
        e.add("expand", diagonal, e.integers([*e.shape(diagonal)[:-1], 1, size])) if e.rank(diagonal) == 1 else None
    )
    row = e.add("unsqueeze", diagonal, e.integers([e.rank(diagonal) - 1])) if square is None else square
    on = identity_matrix(e, size, size, dtypes.boolean)
    return e.add("where", on, row, e.scalar(0, diagonal))


def diag_part(e: Emitter, input: Value) -> Value:
    """Return the main diagonal of the last two axes."""
    *batch, rows, columns = e.shape(input)
    flat = e.reshape(input, (*batch, rows * columns))
    numbers = e.positions(minimum(rows, columns), dtypes.i64)
    places = e.add("mul", numbers, e.sizes(columns + 1, dtypes.i64))
    return e.add("gather", flat, places, axis=len(batch))


def trace(e: Emitter, x: Value) -> Value:
    """Return the sum of the main diagonal."""
    part = diag_part(e, x)
    return e.add("reduce_sum", part, axes=(e.rank(part) - 1,), keepdims=False)
