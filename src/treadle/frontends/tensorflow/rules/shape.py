"""Ops that rearrange elements without arithmetic, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError
from treadle.frontends.tensorflow.emitter import MOST_LISTED, MOST_RESULTS, Emitter, integer
from treadle.frontends.tensorflow.result_types import of_number, widest
from treadle.frontends.tensorflow.rules.kinds import DType, Same, Shape, Value
from treadle.graph.dim import is_expression, maximum
from treadle.graph.shape import elements, text
from treadle.ops.sizes import known_value

FAR = 1 << 60
"""A bound of slices beyond the end of every axis."""


def identity(e: Emitter, input: Value) -> Value:
    """Return x. Strings and lists get no node, which would end a stage."""
    return input if input.dtype is dtypes.string else e.add("identity", input)


def shape(e: Emitter, input: Value, out_type: DType = dtypes.i32) -> Value:
    if input.shape is None:
        return e.unknown(out_type, [None])
    return e.sizes(e.shape(input), out_type)


def size(e: Emitter, input: Value, out_type: DType = dtypes.i32) -> Value:
    if input.shape is None:
        return e.unknown(out_type, [])
    return e.sizes(elements(e.shape(input)), out_type)


def rank(e: Emitter, input: Value) -> Value:
    return e.unknown(dtypes.i32, []) if input.shape is None else e.constant(np.array(e.rank(input), np.int32))


def reshape(e: Emitter, tensor: Value, shape: Shape) -> Value:
    found = e.add("reshape", tensor, e.cast(shape, dtypes.i64), allowzero=True)
    return e.described(found, lambda: [None if number < 0 else number for number in e.numbers(shape)])


def transpose(e: Emitter, a: Value, perm: Sequence[int] | None = None) -> Value:
    if perm is None:
        return e.transpose(a, range(e.rank(a))[::-1])
    e.expect_rank(a, len(perm))
    if any(map(is_expression, perm)):
        return e.unknown(a.known_dtype, [None] * len(perm))
    return e.transpose(a, [e.axis(a, int(axis)) for axis in perm])


def expand_dims(e: Emitter, input: Value, axis: int = -1) -> Value:
    """Insert an axis of size 1. The axis may come as a list of one. Raises ValueError for several."""
    numbers = np.ravel(axis)
    if len(numbers) != 1:
        raise ValueError(f"expand_dims: wanted one axis, got {axis}")
    return e.add("unsqueeze", input, e.integers([int(numbers[0])]))


def shape_n(e: Emitter, input: Sequence[Value], out_type: DType = dtypes.i32) -> list[Value]:
    return [shape(e, value, out_type) for value in input]


def identity_n(e: Emitter, input: Sequence[Value]) -> list[Value]:
    return [identity(e, value) for value in input]


def band_part(e: Emitter, input: Same, num_lower: int, num_upper: int) -> Value:
    """Keep num_lower diagonals below and num_upper above the main one of the last two axes; -1: all."""
    low, high = int(num_lower), int(num_upper)
    if e.rank(input) < 2 or low > e.shape(input)[-2] or high > e.shape(input)[-1]:
        raise ValueError(f"band_part: shape {list(e.shape(input))} has no {low} diagonals below and {high} above")
    kept = input if high < 0 else e.add("trilu", input, e.constant(np.array(high, np.int64)), upper=False)
    return kept if low < 0 else e.add("trilu", kept, e.constant(np.array(-low, np.int64)), upper=True)


def squeeze(e: Emitter, input: Value, axis: Any = None) -> Value:
    axes = None if axis is None or not np.size(axis) else e.integers(np.atleast_1d(axis).tolist())
    return e.add("squeeze", input, axes)


def concat(e: Emitter, values: Sequence[Same], axis: int) -> Value:
    if not values:
        raise ValueError("concat: wanted at least one tensor")
    expect_one_rank(e, values)
    if is_expression(axis):
        return e.unknown(values[0].known_dtype, [None] * e.rank(values[0]))
    return e.add("concat", *values, axis=e.axis(values[0], int(axis)))


def expect_one_rank(e: Emitter, values: Sequence[Value]) -> None:
    """Note that the op takes tensors of one rank only."""
    rank = next((len(value.shape) for value in values if value.shape is not None), None)
    if rank is not None:
        for value in values:
            e.expect_rank(value, rank)


def new_axis(op: str, axis: int, rank: int) -> int:
    """Return the axis to add to `rank` others as a number from 0. Raises ValueError."""
    if not -rank - 1 <= axis <= rank:
        raise ValueError(f"{op}: axis {axis} is out of range; wanted {-rank - 1} to {rank}")
    return axis % (rank + 1)


def stack(e: Emitter, values: Sequence[Same], axis: int = 0) -> Value:
    if not values:
        raise ValueError("stack: wanted at least one tensor")
    expect_one_rank(e, values)
    at = new_axis("stack", int(axis), e.rank(values[0]))
    return e.add("concat", *(e.add("unsqueeze", value, e.integers([at])) for value in values), axis=at)


def repeat(e: Emitter, input: Value, repeats: Shape, axis: int | None = None) -> Value:
    """Repeat each element along `axis` (of the flattened tensor for None)."""
    flat = e.reshape(input, (-1,)) if axis is None else input
    at = e.axis(flat, 0 if axis is None else int(axis))
    counts = e.numbers(repeats)
    *before, size = e.shape(flat)[: at + 1]
    rest = e.shape(flat)[at + 1 :]
    if len(counts) == 1:
        rows = e.add("unsqueeze", flat, e.integers([at + 1]))
        copies = e.add("expand", rows, e.integers([*before, size, counts[0], *rest]))
        return e.reshape(copies, [*before, size * counts[0], *rest])
    if len(counts) != size:
        raise ValueError(f"repeat: wanted 1 or {size} numbers of repeats, got {len(counts)}")
    e.limited(sum(counts), MOST_LISTED)
    return e.add("gather", flat, e.integers(np.repeat(np.arange(len(counts)), counts).tolist()), axis=at)


def roll(e: Emitter, input: Value, shift: Any, axis: Any) -> Value:
    """Shift elements by `shift` along each axis; elements beyond the end move to the front."""
    moved = input
    for by, number in zip(np.atleast_1d(shift), np.atleast_1d(axis), strict=True):
        at = e.axis(moved, int(number))
        size = e.shape(moved)[at]
        cut = (size - int(by)) % size if size else 0
        parts = e.add_many("split", [moved, e.integers([cut, size - cut])], 2, axis=at)
        moved = e.add("concat", parts[1], parts[0], axis=at)
    return moved


def sequence_mask(e: Emitter, lengths: Value, maxlen: int | None = None, dtype: DType = dtypes.boolean) -> Value:
    """Return [..., maxlen], true for the first lengths[...] elements."""
    if maxlen is None and known_value(lengths) is None:
        return e.unknown(dtype, [*e.shape(lengths), None])
    most = maximum(0, *e.numbers(lengths)) if maxlen is None else integer(maxlen)
    places = e.positions(most, lengths.known_dtype)
    return e.cast(e.add("lt", places, e.add("unsqueeze", lengths, e.integers([e.rank(lengths)]))), dtype)


def ensure_shape(e: Emitter, x: Value, shape: Any) -> Value:
    """Return x. Raises ValueError if it is not of `shape`, where None (or -1) may be any size."""
    dims = None if shape is None else [None if dim is None or dim < 0 else dim for dim in shape]
    if x.shape is None:
        return e.unknown(x.known_dtype, dims)
    found = e.shape(x)
    if dims is not None and (
        len(dims) != len(found) or any(d not in (None, f) for d, f in zip(dims, found, strict=True))
    ):
        raise ValueError(f"Shape of tensor {list(found)} is not compatible with expected shape {dims}.")
    return identity(e, x)


def meshgrid(e: Emitter, *args: Same, indexing: str = "xy") -> list[Value]:
    """Return a tensor for each operand, with its elements along one axis; "xy" swaps the first two axes."""
    sizes = [elements(e.shape(value)) for value in args]
    places = list(range(len(args)))
    if indexing == "xy" and len(args) > 1:
        places[:2] = [1, 0]
    shape = [sizes[place] for place in places]
    rows = [e.reshape(value, [-1 if p == at else 1 for p in places]) for at, value in enumerate(args)]
    return [e.add("expand", row, e.integers(shape)) for row in rows]


def unstack(e: Emitter, value: Value, num: int | None = None, axis: int = 0) -> list[Value]:
    at = e.axis(value, int(axis))
    size = e.shape(value)[at]
    if num is None and is_expression(size):
        raise ValueError(f"Cannot infer argument `num` from shape {text(e.shape(value))}")
    if num is not None and num != size:
        raise ValueError(f"unstack: axis {axis} has {size} elements, got num={num}")
    parts = e.limited(size if num is None else num, MOST_RESULTS)
    pieces = e.add_many("split", [value], parts, axis=at, parts=parts)
    return [e.add("squeeze", piece, e.integers([at])) for piece in pieces]


def split(e: Emitter, value: Value, num_or_size_splits: Any, axis: int = 0, num: int | None = None) -> list[Value]:
    """Split `axis` into equal parts (their number), or parts of given sizes, of which one may be -1."""
    at = e.axis(value, int(axis))
    length = e.shape(value)[at]
    if isinstance(num_or_size_splits, int):
        parts = num_or_size_splits
        if parts < 1 or length % parts:
            raise ValueError(f"split: {parts} equal parts do not fill axis {axis} of size {length}")
        return e.add_many("split", [value], e.limited(parts, MOST_RESULTS), axis=at, parts=parts)
    sizes = [integer(number) for number in num_or_size_splits]
    if num is not None and num != len(sizes):
        raise ValueError(f"split: {len(sizes)} sizes, got num={num}")
    if -1 in sizes:
        sizes[sizes.index(-1)] = length - sum(sizes) - 1
    return e.add_many("split", [value, e.integers(sizes)], len(sizes), axis=at)


def pad(e: Emitter, tensor: Same, paddings: Shape, mode: str = "CONSTANT", constant_values: float = 0) -> Value:
    widths: list[list[int]] = e.static(paddings).tolist()
    e.expect_rank(tensor, len(widths))
    if e.shape(paddings) != (e.rank(tensor), 2) or any(width < 0 for pair in widths for width in pair):
        raise ValueError(f"pad: wanted {e.rank(tensor)} pairs of numbers of at least 0, got {widths}")
    if mode.upper() == "SYMMETRIC":
        return _mirrored(e, tensor, widths)
    modes = {"CONSTANT": "constant", "REFLECT": "reflect"}
    if mode.upper() not in modes:
        raise ValueError(f"pad: wanted mode 'CONSTANT', 'REFLECT' or 'SYMMETRIC', got {mode!r}")
    if mode.upper() == "REFLECT" and any(max(pair) >= size for pair, size in zip(widths, e.shape(tensor), strict=True)):
        raise ValueError(
            f"pad: paddings must be less than the dimension size: {widths} for shape {list(e.shape(tensor))}"
        )
    value = e.scalar(constant_values, tensor)
    pads = e.integers([*(begin for begin, _ in widths), *(end for _, end in widths)])
    return e.add("pad", tensor, pads, value, mode=modes[mode.upper()])


def _mirrored(e: Emitter, tensor: Value, widths: Sequence[Sequence[int]]) -> Value:
    """Pad `tensor` with its elements mirrored at the edges, edges included."""
    for axis, ((begin, end), size) in enumerate(zip(widths, e.shape(tensor), strict=True)):
        if not (0 <= begin <= size and 0 <= end <= size):
            raise ValueError(f"pad: {begin} and {end} elements cannot mirror axis {axis} of size {size}")
        parts = [tensor]
        if begin != 0:
            parts.insert(0, _backward(e, tensor, axis, begin - 1, -FAR))
        if end != 0:
            parts.append(_backward(e, tensor, axis, -1, -1 - end))
        tensor = e.add("concat", *parts, axis=axis) if len(parts) > 1 else tensor
    return tensor


def _backward(e: Emitter, tensor: Value, axis: int, first: int, behind: int) -> Value:
    """Return the elements from `first` down to the one before `behind`; negative numbers count from the end."""
    return e.add("slice", tensor, *(e.integers([number]) for number in (first, behind, axis, -1)))


def tile(e: Emitter, input: Value, multiples: Shape) -> Value:
    count = e.shape(multiples)
    if len(count) == 1 and not is_expression(count[0]):
        e.expect_rank(input, count[0])
    return e.add("tile", input, e.cast(multiples, dtypes.i64))


def broadcast_to(e: Emitter, input: Value, shape: Shape) -> Value:
    return e.described(e.add("expand", input, e.cast(shape, dtypes.i64)), lambda: e.numbers(shape))


def fill(e: Emitter, dims: Shape, value: Value) -> Value:
    return e.add("expand", value, e.cast(dims, dtypes.i64))


def zeros(e: Emitter, shape: Shape, dtype: DType = dtypes.f32) -> Value:
    return e.full(e.numbers(shape), 0, dtype)


def ones(e: Emitter, shape: Shape, dtype: DType = dtypes.f32) -> Value:
    return e.full(e.numbers(shape), 1, dtype)


def zeros_like(e: Emitter, input: Value, dtype: DType | None = None) -> Value:
    return e.full(e.shape(input), 0, dtype or input.known_dtype)


def ones_like(e: Emitter, input: Value, dtype: DType | None = None) -> Value:
    return e.full(e.shape(input), 1, dtype or input.known_dtype)


def eye(
    e: Emitter,
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Sequence[int] | None = None,
    dtype: DType = dtypes.f32,
) -> Value:
    """Return identity matrices [*batch_shape, num_rows, num_columns]."""
    matrix = identity_matrix(e, num_rows, num_rows if num_columns is None else num_columns, dtype)
    batch = tuple(integer(size) for size in batch_shape or ())
    return e.add("expand", matrix, e.integers((*batch, *e.shape(matrix)))) if batch else matrix


def identity_matrix(e: Emitter, rows: int, columns: int, dtype: DType) -> Value:
    """Return [rows, columns] with 1 on the main diagonal and 0 elsewhere."""
    if is_expression(rows) or is_expression(columns):
        places = e.add("unsqueeze", e.positions(rows, dtypes.i64), e.integers([1]))
        return e.cast(e.add("eq", places, e.positions(columns, dtypes.i64)), dtype)
    e.limited(rows * columns, MOST_LISTED)
    return e.constant(np.eye(rows, columns, dtype=dtype.numpy))


def range_(
    e: Emitter, start: Shape, limit: Shape | None = None, delta: Shape | None = None, dtype: DType | None = None
) -> Value:
    """Return start, start + delta, ... below `limit`; one number is the limit. The dtype is the widest."""
    first, last = (e.scalar(0, start), start) if limit is None else (start, limit)
    numbers = (first, last, e.scalar(1, start) if delta is None else delta)
    kinds = [number.known_dtype for number in numbers]
    kind = dtype or widest(kinds)
    found = [e.cast(number, kind) for number in numbers]
    if all(number.data is not None for number in found):
        begin, end, step = (e.static(number).item() for number in found)
        if not step or (end - begin) / step < 0:
            raise ValueError(f"range: steps of {step} do not lead from {begin} to {end}")
    return e.described(e.add("range", *found), lambda: [None])


def linspace(e: Emitter, start: Shape, stop: Shape, num: int) -> Value:
    """Return `num` numbers from start to stop, both included; float64 for integers."""
    if integer(num) < 1 or any(value.shape not in ((), None) for value in (start, stop)):
        raise ValueError(f"linspace: wanted start and stop of rank 0 and num of at least 1, got {num}")
    kind = start.known_dtype if start.known_dtype.is_float else dtypes.f64
    if known_value(start) is None or known_value(stop) is None:
        return e.unknown(kind, [integer(num)])
    first, last = e.static(start), e.static(stop)
    return e.constant(np.linspace(first, last, e.limited(integer(num), MOST_LISTED), dtype=kind.numpy))


def one_hot(
    e: Emitter,
    indices: Value,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int = -1,
    dtype: DType | None = None,
) -> Value:
    """Return a new axis with on_value (1) at the index and off_value (0) elsewhere.

    An index out of range gives off_value everywhere.
    """
    if not indices.known_dtype.is_integer:
        raise DtypeError(f"one_hot: wanted integers as indices, got {indices.known_dtype}")
    if integer(depth) < 0:
        raise ValueError(f"one_hot: depth must be at least 0, got {integer(depth)}")
    if np.ndim(on_value) or np.ndim(off_value):
        raise ValueError(f"one_hot: wanted values of rank 0, got {on_value!r} and {off_value!r}")
    if int(axis) < -1:
        raise ValueError(f"one_hot: axis {axis} is out of range; wanted -1 to {e.rank(indices)}")
    at = new_axis("one_hot", int(axis), e.rank(indices))
    count = integer(depth)
    places = e.reshape(e.positions(count, indices.known_dtype), (count, *(1,) * (e.rank(indices) - at)))
    hit = e.add("eq", e.add("unsqueeze", indices, e.integers([at])), places)
    stated = [value for value in (on_value, off_value) if value is not None]
    kind = (dtype or (of_number(stated[0]) if stated else dtypes.f32)).numpy
    on, off = (np.array(preset if value is None else value, kind) for value, preset in ((on_value, 1), (off_value, 0)))
    return e.add("where", hit, e.constant(on), e.constant(off))


def reverse(e: Emitter, tensor: Value, axis: Any) -> Value:
    axes = [e.axis(tensor, int(number)) for number in np.atleast_1d(axis)]
    ends = [-FAR] * len(axes)
    lists = ([-1] * len(axes), ends, axes, [-1] * len(axes))
    return e.add("slice", tensor, *(e.integers(numbers) for numbers in lists))
