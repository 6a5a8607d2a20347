"""Elements by position: gather, indexing with brackets, embedding, and writes through views."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.rules.create import arange_step
from treadle.frontends.torch.rules.shape import part_of, reverse_axes
from treadle.frontends.torch.rules.shape import transpose as transposed
from treadle.graph.dim import equals, maximum
from treadle.graph.shape import StaticShape, broadcast, elements
from treadle.graph.value import Value


def embedding(
    b: Builder,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,  # noqa: ARG001 - for training only
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - part of the signature
    sparse: bool = False,  # noqa: ARG001 - part of the signature
) -> Value:
    return b.add("gather", weight, indices, axis=0)


def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    return b.add("gather", x, b.reshape(index, [-1]), axis=b.axis(x, dim))


def gather(b: Builder, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:  # noqa: ARG001
    """Returns result[i, j] = x[index[i, j], j] for dim 0."""
    return b.add("gather_elements", x, index, axis=b.axis(x, dim))


def take_along_dim(b: Builder, x: Value, index: Value, dim: int | None = None) -> Value:
    """Returns gather of x and index, broadcast to each other."""
    if dim is None:
        return b.add("gather", b.reshape(x, [-1]), b.reshape(index, [-1]), axis=0)
    axis = b.axis(x, dim)
    shapes = ([size if at != axis else 1 for at, size in enumerate(b.shape(each))] for each in (x, index))
    shape = list(broadcast(*map(tuple, shapes)))
    wide = [b.expand(v, [*shape[:axis], b.shape(v)[axis], *shape[axis + 1 :]]) for v in (x, index)]
    return b.add("gather_elements", *wide, axis=axis)


def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    """Returns x[indices]: None takes a whole axis; integer tensors broadcast together, a mask selects elements."""
    chosen = [(axis, which) for axis, which in enumerate(indices) if which is not None]
    if not chosen:
        return x
    if any(which.dtype in (dtypes.boolean, dtypes.u8) for _, which in chosen):
        return _masked(b, x, chosen)
    if len(chosen) == 1:
        axis, which = chosen[0]
        return b.add("gather", x, which, axis=axis)
    axes = [axis for axis, _ in chosen]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    rank = b.rank(x)
    rest = [axis for axis in range(rank) if axis not in axes]
    positions = _positions(b, [which for _, which in chosen])
    picked = b.add("gather_nd", b.transpose(x, [*axes, *rest]), positions, batch_dims=0)
    if not adjacent or not axes[0]:
        return picked
    front, count = axes[0], b.rank(positions) - 1
    perm = [*range(count, count + front), *range(count), *range(count + front, b.rank(picked))]
    return b.transpose(picked, perm)


def _positions(b: Builder, columns: Sequence[Value]) -> Value:
    """Returns the columns, broadcast together, as the last axis."""
    shape = broadcast(*(b.shape(column) for column in columns))
    wide = [b.reshape(b.expand(b.cast(column, dtypes.i64), shape), [*shape, 1]) for column in columns]
    return b.add("concat", *wide, axis=len(shape)) if len(wide) > 1 else wide[0]


def _masked(b: Builder, x: Value, chosen: Sequence[tuple[int, Value]]) -> Value:
    if len(chosen) > 1 or chosen[0][0]:
        raise Unsupported("a mask among other indices; use torch.where or index with only the mask")
    return b.add("gather_nd", x, nonzero(b, b.cast(chosen[0][1], dtypes.boolean)), batch_dims=0)


def nonzero(b: Builder, x: Value) -> Value:
    """Returns the positions of nonzero elements, [count, axes]."""
    found = b.add("counted", *b.add_many("non_zero", [x], 2), axis=1, label="non_zero")
    return b.add("transpose", found, perm=(1, 0))


def positions(b: Builder, condition: Value) -> list[Value]:
    """Implements torch.where of one argument: returns, for each axis, the positions of nonzero elements."""
    found = b.add("counted", *b.add_many("non_zero", [condition], 2), axis=1, label="non_zero")
    return [b.add("gather", found, b.scalar(axis, dtypes.i64), axis=0) for axis in range(b.rank(condition))]


def masked_select(b: Builder, x: Value, mask: Value) -> Value:
    shape = broadcast(b.shape(x), b.shape(mask))
    return _masked(b, b.expand(x, shape), [(0, b.expand(mask, shape))])


def masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    """Returns x with the elements of `source`, in their order, where the mask holds. Fails if there are too few."""
    shape = broadcast(b.shape(x), b.shape(mask))
    wide = b.expand(b.cast(mask, dtypes.boolean), shape)
    return b.add("where", wide, _in_order(b, b.reshape(source, [-1]), (), wide), b.expand(x, shape))


def _in_order(b: Builder, rows: Value, row: StaticShape, mask: Value) -> Value:
    """Returns the first of `rows`, of this shape, for the first element of `mask` that is true, and so on."""
    flat = b.reshape(b.cast(mask, dtypes.i64), [-1])
    number = b.add("cumsum", flat, axis=0, exclusive=False, reverse=False)
    places = b.add("mul", b.reshape(number, b.shape(mask)), b.cast(mask, dtypes.i64))
    nothing = b.full(0, rows.known_dtype, (1, *row))  # for the others, if there are no rows
    return b.add("gather", b.add("concat", nothing, rows, axis=0), places, axis=0)


def index_put(
    b: Builder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False, *_: object
) -> Value:
    """Returns x after x[indices] = values, or += with `accumulate`."""
    chosen = [(axis, which) for axis, which in enumerate(indices) if which is not None]
    values = b.cast(values, x.known_dtype)
    if len(chosen) == 1 and chosen[0][1].dtype == dtypes.boolean:
        axis, mask = chosen[0]
        if accumulate or axis:
            raise Unsupported("it adds where a mask holds, or the mask is of later axes; use torch.where")
        inner = b.rank(x) - b.rank(mask)
        wide = b.reshape(mask, [*b.shape(mask), *(1,) * inner])
        row = b.shape(x)[b.rank(mask) :]
        if values.shape is None:  # x[mask] and what is computed of it: a row for each element of the mask
            return b.add("where", wide, _in_order(b, b.reshape(values, [-1, *row]), row, mask), x)
        if b.rank(values) > inner and equals(b.shape(values)[0], 1):
            values = b.reshape(values, b.shape(values)[1:])
        if b.rank(values) <= inner:  # the same for all elements of the mask
            return b.add("where", wide, values, x)
        return b.add("where", wide, _in_order(b, b.expand(values, [b.shape(values)[0], *row]), row, mask), x)
    if any(w.dtype == dtypes.boolean for _, w in chosen):
        raise Unsupported("a mask among other indices; use torch.where or write with only the mask")
    reduction = "add" if accumulate else "none"
    if len(chosen) == 1 and chosen[0][0]:
        return _put_along(b, x, *chosen[0], values, reduction)
    axes = [axis for axis, _ in chosen]
    rest = [axis for axis in range(b.rank(x)) if axis not in axes]
    positions = _positions(b, [which for _, which in chosen])
    where, count = b.shape(positions)[:-1], b.rank(positions) - 1
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    others = [b.shape(x)[axis] for axis in rest]
    wide = b.expand(values, [*others[:front], *where, *others[front:]])
    updates = b.transpose(wide, [*range(front, front + count), *range(front), *range(front + count, b.rank(wide))])
    perm = [*axes, *rest]
    put = b.add("scatter_nd", b.transpose(x, perm), positions, updates, reduction=reduction)
    return b.transpose(put, [perm.index(axis) for axis in range(len(perm))])


def _put_along(b: Builder, x: Value, axis: int, which: Value, values: Value, reduction: str) -> Value:
    """Returns x after x[..., which, ...] = values along `axis`: the write of a key-value cache."""
    shape, count = b.shape(x), b.rank(which)
    wide = b.expand(values, [*shape[:axis], *b.shape(which), *shape[axis + 1 :]])
    along = [*shape[:axis], elements(b.shape(which)), *shape[axis + 1 :]]
    flat = b.reshape(which, [-1, *(1,) * (len(shape) - axis - 1)])
    updates = wide if count == 1 else b.reshape(wide, along)
    return b.add("scatter_elements", x, b.expand(flat, along), updates, axis=axis, reduction=reduction)


def slice_scatter(
    b: Builder, x: Value, src: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """Returns x with x[start:end:step] along `dim` replaced by src."""
    axis, shape = b.axis(x, dim), b.shape(x)
    size = shape[axis]
    first, last = part_of(size, start, end)
    src = b.cast(src, x.known_dtype)
    if step == 1:
        last = maximum(first, last)
        parts = [(b.slice(x, axis, 0, first), first), (src, last - first), (b.slice(x, axis, last, size), size - last)]
        kept = [part for part, length in parts if length]
        return kept[0] if len(kept) == 1 else b.add("concat", *kept, axis=axis)
    along = [1] * len(shape)
    along[axis] = -1
    places = b.reshape(arange_step(b, first, last, step), along)
    return b.add("scatter_elements", x, b.expand(places, b.shape(src)), src, axis=axis, reduction="none")


def select_scatter(b: Builder, x: Value, src: Value, dim: int, at: int | Number) -> Value:
    """Returns x with the entry `at` along `dim` replaced by src."""
    axis, shape = b.axis(x, dim), b.shape(x)
    if isinstance(at, Number):
        return _put_along(b, x, axis, at.value, b.cast(src, x.known_dtype), "none")
    if not -shape[axis] <= at < shape[axis]:
        raise Fault(f"index {at} is out of range for axis {axis} with {shape[axis]} entries")
    begin = at % shape[axis]
    wide = b.expand(src, [*shape[:axis], *shape[axis + 1 :]])
    return slice_scatter(b, x, b.reshape(wide, [*shape[:axis], 1, *shape[axis + 1 :]]), axis, begin, begin + 1)


def one_hot(b: Builder, x: Value, classes: int = -1) -> Value:
    if classes < 0:
        raise Unsupported("its number of classes depends on data; pass num_classes")
    return b.add("one_hot", b.cast(x, dtypes.i64), b.ints([classes]), b.ints([0, 1]), axis=-1)


def copy(b: Builder, x: Value, src: Value, *_: object) -> Value:
    """Returns src with the shape and dtype of x."""
    return b.expand(b.cast(src, x.known_dtype), b.shape(x))


def write_through_select(b: Builder, x: Value, new: Value, dim: int, at: int | Number) -> Value:
    return select_scatter(b, x, new, dim, at)


def write_through_slice(b: Builder, x: Value, new: Value, *where: int) -> Value:
    return slice_scatter(b, x, new, *where)


def write_through_narrow(b: Builder, x: Value, new: Value, dim: int, start: int, length: int) -> Value:
    begin = start % max(1, b.shape(x)[b.axis(x, dim)]) if start < 0 else start
    return slice_scatter(b, x, new, dim, begin, begin + length)


def write_through_reshape(b: Builder, x: Value, new: Value, *_: object) -> Value:
    return b.reshape(new, b.shape(x))


def write_through_transpose(b: Builder, x: Value, new: Value, dim0: int, dim1: int) -> Value:  # noqa: ARG001
    return transposed(b, new, dim0, dim1)


def write_through_t(b: Builder, x: Value, new: Value) -> Value:  # noqa: ARG001 - all of them take the base
    return reverse_axes(b, new)


def write_through_permute(b: Builder, x: Value, new: Value, dims: Sequence[int]) -> Value:
    perm = [b.axis(x, dim) for dim in dims]
    return b.transpose(new, [perm.index(axis) for axis in range(len(perm))])


def write_through_identity(b: Builder, x: Value, new: Value, *_: object) -> Value:  # noqa: ARG001 - part of the signature
    return new
