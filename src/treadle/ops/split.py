"""split: pieces of a tensor along an axis."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.dim import ceil_div, maximum, minimum
from treadle.graph.shape import normalize_axis
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, integers, numbers, operand, optional, present, result


def piece_sizes(length: int, sizes: Sequence[int] | None, parts: int) -> tuple[int, ...]:
    """How long each of the pieces is: `sizes`, or `parts` equal ones of which the last may be shorter.

    Raises ShapeError if the pieces do not fill `length`.
    """
    if sizes is None:
        if parts < 1:
            raise ShapeError(f"wanted 1 part or more, got {parts}")
        each = ceil_div(length, parts)
        rests = [maximum(0, length - each * index) for index in range(1, parts)]
        return (each, *(minimum(each, rest) for rest in rests[:-1]), *rests[-1:])
    if any(size < 0 for size in sizes) or sum(sizes) != length:
        raise ShapeError(f"sizes {list(sizes)} must be 0 or more and sum to {length}")
    return tuple(sizes)


def infer_split(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, sizes (absent: `parts` equal ones). attrs: axis, parts (the number of results)."""
    x, sizes = operand(inputs, 0, "x"), optional(inputs, 1)
    shape = dims(x)
    axis = normalize_axis(attrs["axis"], len(shape))
    given = None if sizes is None else integers(sizes, "sizes")
    if sizes is not None and given is None:
        return [Info(x.dtype, None)] * n_outputs
    pieces = piece_sizes(shape[axis], given, attrs.get("parts") or n_outputs)
    if len(pieces) != n_outputs:
        raise ShapeError(f"the split gives {len(pieces)} pieces, but the node has {n_outputs} outputs")
    return [result(x.dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in pieces]


def evaluate_split(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x, sizes = present(arrays, 0), absent_or(arrays, 1)
    axis = normalize_axis(attrs["axis"], x.ndim)
    pieces = piece_sizes(x.shape[axis], None if sizes is None else numbers(sizes), attrs.get("parts") or 1)
    return [piece.copy() for piece in np.split(x, np.cumsum(pieces)[:-1], axis=axis)]
