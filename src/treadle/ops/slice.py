"""slice: every step-th element between starts and ends, along some axes."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import ShapeError
from treadle.graph.dim import ceil_div, maximum, minimum
from treadle.graph.shape import StaticShape, normalize_axis
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, integers, numbers, operand, optional, present, result


def resolved(
    shape: StaticShape,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[tuple[int, int, int], ...]:
    """(first index, step, count) for each axis of `shape`, with out-of-range bounds moved to the ends.

    Raises ShapeError for lists of different lengths, a step of 0, or a doubled or impossible axis.
    """
    axes = tuple(range(len(starts))) if axes is None else tuple(axes)
    steps = (1,) * len(starts) if steps is None else tuple(steps)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError(
            "starts, ends, axes and steps must be equally long, "
            f"got {len(starts)}, {len(ends)}, {len(axes)}, {len(steps)}"
        )
    found = [(0, 1, dim) for dim in shape]
    seen: set[int] = set()
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = normalize_axis(given, len(shape))
        if axis in seen:
            raise ShapeError(f"axes {list(axes)} name an axis twice")
        if step == 0:
            raise ShapeError("a step of 0 never ends; steps must be positive or negative")
        seen.add(axis)
        found[axis] = _resolved_axis(shape[axis], start, end, step)
    return tuple(found)


def _resolved_axis(size: int, start: int, end: int, step: int) -> tuple[int, int, int]:
    """(first index, step, count) of a slice along an axis of `size`."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    # `span` is last - first, written so that bounds which lie inside for every size leave no minimum and maximum.
    if step > 0:
        first, end = minimum(maximum(start, 0), size), maximum(end, 0)
        span = minimum(end - start, size - start, end, size)
    else:
        first, start = minimum(maximum(start, -1), size - 1), maximum(start, -1)
        span = minimum(start - end, size - 1 - end, start + 1, size)
    return first, step, ceil_div(maximum(span, 0), abs(step))


def infer_slice(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, starts, ends, axes (absent: the first ones), steps (absent: 1)."""
    x = operand(inputs, 0, "x")
    given: list[tuple[int, ...] | None] = []
    for index, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        info = operand(inputs, index, name) if index < 3 else optional(inputs, index)
        found = None if info is None else integers(info, name)
        if info is not None and found is None:
            return [Info(x.dtype, None)]
        given.append(found)
    starts, ends, axes, steps = given
    ranges = resolved(dims(x), starts or (), ends or (), axes, steps)
    return [result(x.dtype, [count for _, _, count in ranges])]


def evaluate_slice(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    x = present(arrays, 0)
    axes, steps = (None if array is None else numbers(array) for array in (absent_or(arrays, 3), absent_or(arrays, 4)))
    ranges = resolved(x.shape, numbers(present(arrays, 1)), numbers(present(arrays, 2)), axes, steps)
    return [np.asarray(x[np.ix_(*(first + step * np.arange(count) for first, step, count in ranges))]).copy()]
