"""Selection of parts of tensors by index, slice or mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError
from treadle.frontends.tensorflow.emitter import Emitter, integer
from treadle.frontends.tensorflow.rules.kinds import Same, Shape, Value
from treadle.frontends.tensorflow.rules.shape import FAR
from treadle.graph.shape import StaticShape
from treadle.ops.sizes import known_value


def gather(e: Emitter, params: Value, indices: Value, axis: int | None = None, batch_dims: int = 0) -> Value:
    """Select slices along an axis. The first `batch_dims` axes of params and indices are the axes of a batch.

    The default of `axis` is `batch_dims`. A negative `batch_dims` counts from the end of the axes of the indices.

    Raises ValueError if the batch has more axes than there are before `axis`, or than the indices have.
    """
    indices = nonnegative(e, indices)
    if not batch_dims:
        return e.add("gather", params, indices, axis=e.axis(params, int(axis or 0)))
    rank, places = e.rank(params), e.rank(indices)
    batch = int(batch_dims) + (places if batch_dims < 0 else 0)
    at = e.axis(params, int(batch_dims if axis is None else axis))
    if not 0 <= batch <= min(at, places):
        raise ValueError(
            f"gather: wanted batch_dims of at most the axis {at} and the {places} axes of the indices, got {batch_dims}"
        )
    order = (*range(batch), at, *(each for each in range(batch, rank) if each != at))
    rows = params if at == batch else e.transpose(params, order)
    found = e.add("gather_nd", rows, e.add("unsqueeze", indices, e.integers([places])), batch_dims=batch)
    if at == batch:
        return found
    moved = range(places, places + at - batch)  # the axes between the batch and the one that was indexed
    return e.transpose(
        found, (*range(batch), *moved, *range(batch, places), *range(moved.stop, rank + places - batch - 1))
    )


def nonnegative(e: Emitter, indices: Value) -> Value:
    """Make negative indices out of range; core ops would count them from the end.

    Raises ValueError for constants that are negative, and for other dtypes than integers.
    """
    if not indices.known_dtype.is_integer:
        raise DtypeError(f"wanted integers as indices, got {indices.known_dtype}")
    if indices.data is None:
        kind = indices.known_dtype.numpy
        if np.iinfo(kind).min == 0:
            return indices
        far = e.constant(np.array(np.iinfo(kind).max, kind))
        return e.add("where", e.add("lt", indices, e.scalar(0, indices)), far, indices)
    if (indices.data < 0).any():
        raise ValueError(f"index {indices.data.min()} is out of range: it is negative")
    return indices


def embedding_lookup(
    e: Emitter, params: Sequence[Same], ids: Value, partition_strategy: str = "div", max_norm: float | None = None
) -> Value:
    """Select rows of a table, or of tables that partition one: in blocks ("div") or row by row in turn ("mod").

    With `max_norm` longer rows are scaled to this length.
    """
    table = params[0]
    if len(params) > 1 and partition_strategy == "mod":
        rows = max(e.shape(part)[0] for part in params)
        if any(e.shape(part)[0] != rows for part in params):
            raise ValueError("embedding_lookup: wanted tables of the same number of rows for 'mod'")
        parts = [e.add("unsqueeze", part, e.integers([1])) for part in params]
        table = e.reshape(e.add("concat", *parts, axis=1), (rows * len(params), *e.shape(params[0])[1:]))
    elif len(params) > 1:
        table = e.add("concat", *params, axis=0)
    found = e.add("gather", table, nonnegative(e, ids), axis=0)
    if max_norm is None:
        return found
    axes = tuple(range(e.rank(ids), e.rank(found)))
    length = e.add("sqrt", e.add("reduce_sum", e.add("mul", found, found), axes=axes, keepdims=True))
    most = e.scalar(max_norm, found)
    return e.add("mul", found, e.add("div", most, e.add("max", length, most)))


def gather_nd(e: Emitter, params: Value, indices: Value, batch_dims: int = 0) -> Value:
    _addresses(e.shape(params), e.shape(indices)[:-1])
    *places, depth = e.shape(indices) or (-1,)
    if not depth and not batch_dims:
        return e.add("expand", params, e.integers([*places, *e.shape(params)]))
    return e.add("gather_nd", params, nonnegative(e, indices), batch_dims=int(batch_dims))


def _addresses(shape: StaticShape, places: StaticShape) -> None:
    """Raise ValueError for indices, of shape `places`, into a tensor without elements."""
    if 0 in shape and 0 not in places:
        raise ValueError(f"indices of shape {list(places)} into a tensor without elements: {list(shape)}")


def scatter_nd(e: Emitter, indices: Value, updates: Same, shape: Shape) -> Value:
    """Return zeros of `shape` with `updates` added at `indices`."""
    _addresses(tuple(e.numbers(shape)), e.shape(indices))
    blank = e.full(e.numbers(shape), 0, updates.known_dtype)
    return e.add("scatter_nd", blank, e.cast(indices, dtypes.i64), updates, reduction="add")


def tensor_scatter_nd_update(e: Emitter, tensor: Same, indices: Value, updates: Same) -> Value:
    _addresses(e.shape(tensor), e.shape(indices))
    return e.add("scatter_nd", tensor, e.cast(indices, dtypes.i64), updates, reduction="none")


def tensor_scatter_nd_add(e: Emitter, tensor: Same, indices: Value, updates: Same) -> Value:
    _addresses(e.shape(tensor), e.shape(indices))
    return e.add("scatter_nd", tensor, e.cast(indices, dtypes.i64), updates, reduction="add")


def boolean_mask(e: Emitter, tensor: Value, mask: Value, axis: int = 0) -> Value:
    """Select the elements of the axes from `axis` on where the mask, of their shape, is true."""
    at = e.axis(tensor, int(axis or 0))
    shape, wanted = e.shape(tensor), e.shape(mask)
    if not wanted or shape[at : at + len(wanted)] != wanted:
        raise ValueError(f"boolean_mask: shapes {shape} and {wanted} are incompatible at axis {at}")
    found = e.transpose(e.add("counted", *e.add_many("non_zero", [mask], 2), axis=1, label="non_zero"), (1, 0))
    if not at:
        kept = e.add("gather_nd", tensor, found, batch_dims=0)
        return e.described(kept, lambda: (None, *shape[len(wanted) :]))
    order = (*range(at, len(shape)), *range(at))
    kept = e.add("gather_nd", e.transpose(tensor, order), found, batch_dims=0)
    rest = len(shape) - at - len(wanted) + 1
    found = e.transpose(kept, (*range(rest, rest + at), *range(rest)))
    return e.described(found, lambda: (*shape[:at], None, *shape[at + len(wanted) :]))


def slice_(e: Emitter, input_: Value, begin: Shape, size: Shape) -> Value:
    """Select size[i] elements of axis i from begin[i] on; -1 means all that remain."""
    starts, sizes = e.numbers(begin), e.numbers(size)
    e.expect_rank(input_, len(starts))
    for axis, (start, count, length) in enumerate(zip(starts, sizes, e.shape(input_), strict=True)):
        if not 0 <= start <= length or not -1 <= count <= length - start:
            raise ValueError(f"slice: axis {axis} of size {length} has no {count} elements from {start} on")
    ends = [FAR if count < 0 else start + count for start, count in zip(starts, sizes, strict=True)]
    return e.add("slice", input_, e.integers(starts), e.integers(ends))


@dataclass(slots=True)
class Indexing:
    """The parts of an index: slices of axes, elements of axes, and axes that are removed."""

    bounds: Sequence[Value]
    axes: list[int] = field(default_factory=list)
    starts: list[Value] = field(default_factory=list)
    ends: list[Value] = field(default_factory=list)
    steps: list[Value] = field(default_factory=list)
    gathers: list[tuple[int, Value]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def add(self, axis: int, start: Value, end: Value, step: Value) -> None:
        """Add a slice of `axis`; bounds and step are vectors of one element."""
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)

    def element(self, e: Emitter, axis: int, number: int, length: int) -> None:
        """Add an element of `axis` of `length`, and remove the axis. Raises ValueError if it is out of range."""
        self.dropped.append(axis)
        where = self.bounds[number]
        known = known_value(where)
        if known is None:
            self.gathers.append((axis, where))
            return
        at = integer(known.item())
        if not -length <= at < length:
            raise ValueError(f"slice index {at} of dimension {axis} out of bounds.")
        self.add(axis, e.integers([at]), e.integers([at + 1 if at != -1 else FAR]), e.integers([1]))

    def slice_axis(self, e: Emitter, axis: int, numbers: Sequence[int | None]) -> None:
        """Add a slice of `axis`."""
        begin, end, step = (None if number is None else self.bounds[number] for number in numbers)
        backward = step is not None and e.static(step).item() < 0
        presets = ((begin, FAR if backward else 0), (end, -FAR if backward else FAR), (step, 1))
        self.add(axis, *(e.integers([preset]) if value is None else _as_vector(e, value) for value, preset in presets))

    def apply(self, e: Emitter, tensor: Value) -> Value:
        """Return the indexed tensor."""
        if self.axes:
            starts, ends, steps = (e.add("concat", *found, axis=0) for found in (self.starts, self.ends, self.steps))
            tensor = e.add("slice", tensor, starts, ends, e.integers(self.axes), steps)
        for axis, where in self.gathers:
            tensor = e.add("gather", tensor, e.reshape(where, [1]), axis=axis)
        return e.add("squeeze", tensor, e.integers(self.dropped)) if self.dropped else tensor


def index(e: Emitter, tensor: Value, bounds: Sequence[Shape], items: Any) -> Value:
    """Return tensor[items]: ("at", n), ("slice", begin, end, step), ("new",), ("rest",); n stands for bounds[n]."""
    shape = e.shape(tensor)
    used = sum(item[0] in ("at", "slice") for item in items)
    if used > len(shape):
        raise ValueError(f"Too many indices ({used}) for a tensor of rank {len(shape)}")
    indexing = Indexing(bounds)
    new: list[int] = []
    axis = place = 0
    for kind, *numbers in items:
        if kind == "new":
            new.append(place)
        elif kind == "rest":
            axis, place = axis + len(shape) - used, place + len(shape) - used - 1
        elif kind == "at":
            indexing.element(e, axis, numbers[0], shape[axis])
            axis, place = axis + 1, place - 1
        else:
            indexing.slice_axis(e, axis, numbers)
            axis += 1
        place += 1
    result = indexing.apply(e, tensor)
    return e.add("unsqueeze", result, e.integers(new)) if new else result


def strided_slice(
    e: Emitter,
    input_: Value,
    begin: Shape,
    end: Shape,
    strides: Sequence[int] | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Value:
    """Return input_[begin:end:strides]; bit i of a mask marks item i as open, ellipsis, new axis or element."""
    count = e.shape(begin)
    if len(count) != 1 or e.shape(end) != count or (strides is not None and len(strides) != count[0]):
        raise ValueError(f"strided_slice: begin, end and strides differ in length: {list(count)}, {list(e.shape(end))}")
    if (ellipsis_mask & ((1 << count[0]) - 1)).bit_count() > 1:
        raise ValueError("strided_slice: wanted one ellipsis at most")
    bounds: list[Value] = []

    def bound(vector: Value, number: int) -> int:
        bounds.append(_element_of(e, vector, number))
        return len(bounds) - 1

    items: list[tuple[Any, ...]] = []
    for number, step in enumerate([1] * count[0] if strides is None else strides):
        bit = 1 << number
        if ellipsis_mask & bit:
            items.append(("rest",))
        elif new_axis_mask & bit:
            items.append(("new",))
        elif shrink_axis_mask & bit:
            if step < 1:
                raise ValueError(f"strided_slice: wanted a stride of at least 1 for the index {number}, got {step}")
            items.append(("at", bound(begin, number)))
        else:
            bounds.append(e.constant(np.array(step, np.int64)))
            jump = len(bounds) - 1
            first = None if begin_mask & bit else bound(begin, number)
            items.append(("slice", first, None if end_mask & bit else bound(end, number), jump))
    return index(e, input_, bounds, items)


def _element_of(e: Emitter, vector: Value, number: int) -> Value:
    """Return an element of a vector."""
    if vector.data is not None:
        return e.constant(vector.data[number])
    return e.add("gather", vector, e.constant(np.array(number, np.int64)), axis=0)


def _as_vector(e: Emitter, value: Value) -> Value:
    return e.reshape(e.cast(value, dtypes.i64), [1])
