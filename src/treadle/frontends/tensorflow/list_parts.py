"""Lists of tensors as tensors of their own, so that loops that change them run in the native core.

Where all items have one known shape, a list is its items, stacked. Else it is the elements of all items, one item after
another, and a table with a row for each item: where its elements begin, then its sizes. A list of which a loop only
takes items from the end keeps all of these; a number says how many items are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.frontends.deferred_nodes import add_deferred, given
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.lists import Dims, dims_text, fits, merged_dims
from treadle.graph.dim import at_least, equals, is_expression
from treadle.graph.graph import Graph
from treadle.graph.shape import elements, is_static
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info
from treadle.ops.sizes import known_sizes

UNWRITTEN_AT, UNWRITTEN_SIZE = -(1 << 40), -2
"""Where an item begins that was never written, and its sizes: no read can be made of them."""

_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class ListForm:
    """What tensors a list is.

    Attributes:
        dtype: The element type of its items.
        dims: What is declared of their shape; all of it where items are stacked.
        rank: The rank of all items.
        stacked: Whether the items are stacked.
        counted: Whether a number says how many of the items are left.
    """

    dtype: DType
    dims: Dims
    rank: int
    stacked: bool
    counted: bool = False

    @property
    def dtypes(self) -> list[DType]:
        """Those of the tensors."""
        return [self.dtype, *([] if self.stacked else [dtypes.i64]), *([dtypes.i64] if self.counted else [])]

    @property
    def item(self) -> tuple[int, ...]:
        """The shape of stacked items."""
        return tuple(dim for dim in self.dims or () if dim is not None)


@dataclass(frozen=True, slots=True)
class ListParts:
    """A list as the tensors that `form` says. Behind its items are as many `unwritten` ones."""

    form: ListForm
    values: tuple[Value, ...]
    unwritten: Value | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        """All that the list is."""
        return self.values if self.unwritten is None else (*self.values, self.unwritten)

    def of(self, operands: Sequence[Value]) -> ListParts:
        """Return a list of the same form that these operands are."""
        count = len(self.values)
        return ListParts(self.form, tuple(operands[:count]), operands[count] if len(operands) > count else None)

    def whole(self, e: Emitter) -> ListParts:
        """Return the list without those of its items that were taken from its end, and with those never written.

        Raises NeedsShapeError while the number of the others is not known.
        """
        form, values = self.form, list(self.values)
        if form.counted:
            *values, count = values
            values[-1] = _first(e, values[-1], count)
            form = replace(form, counted=False)
        if self.unwritten is not None:
            more = of_unwritten(e, form, e.numbers(self.unwritten)[0])
            values[-1] = e.add("concat", values[-1], more.values[-1], axis=0)
        return ListParts(form, tuple(values))

    def next_is(self, index: Value, *, grows: bool) -> bool:
        """Return whether `index` is certainly that behind the last item that is there, and may be written."""
        rows, found = self.values[-1].shape, known_sizes(index)
        if self.form.counted or found is None or rows is None or not is_static(rows) or not equals(rows[0], found[0]):
            return False
        left = None if self.unwritten is None else known_sizes(self.unwritten)
        return (grows and self.unwritten is None) or (left is not None and at_least(left[0], 1))


def form_of(dtype: DType, dims: Dims, rank: int | None, *, counted: bool = False) -> ListForm | None:
    """Return what tensors a list is whose items are of this declared shape, or else of this rank.

    None if not even their rank is known.
    """
    if dims is not None:
        rank = len(dims)
    is_stacked = dims is not None and None not in dims
    return None if rank is None else ListForm(dtype, dims, rank, is_stacked, counted)


def of_rows(e: Emitter, form: ListForm, tensor: Value) -> ListParts:
    """Return a list of the rows of `tensor`, whose shape is known."""
    count, *shape = e.shape(tensor)
    if form.stacked:
        return _counted(e, form, [tensor], count)
    rows = [e.reshape(e.add("mul", e.positions(count, dtypes.i64), e.sizes(elements(shape), dtypes.i64)), [count, 1])]
    rows += [e.add("expand", e.sizes([dim], dtypes.i64), e.integers([count, 1])) for dim in shape]
    table = rows[0] if len(rows) == 1 else e.add("concat", *rows, axis=1)
    return _counted(e, form, [e.reshape(tensor, [count * elements(shape)]), table], count)


def of_unwritten(e: Emitter, form: ListForm, count: int) -> ListParts:
    """Return a list of `count` items that were never written: zeros if their shape is known."""
    if form.stacked:
        return _counted(e, form, [e.full([count, *form.item], 0, form.dtype)], count)
    row = e.constant(np.array([[UNWRITTEN_AT, *[UNWRITTEN_SIZE] * form.rank]]))
    table = e.add("expand", row, e.integers([count, 1 + form.rank]))
    return _counted(e, form, [e.full([0], 0, form.dtype), table], count)


def filled_up(e: Emitter, parts: ListParts, count: Value) -> ListParts:
    """Return the list with unwritten items behind its own, so that it has `count`. A run in which it has more fails."""
    form, rows, name = parts.form, parts.values[-1], e.name

    def build(infos: Sequence[Info]) -> Graph:
        inner = Emitter(Graph("filled"))
        written, wanted = (given(inner, name, info) for name, info in zip(("rows", "count"), infos, strict=True))
        inner.name = name
        number, most = inner.shape(written)[0], inner.numbers(wanted)[0]
        if not is_expression(most - number) and number > most:
            raise ShapeError(f"Trying to modify element {most} in a list with {most} elements.")
        more = of_unwritten(inner, form, most - number).values[-1]
        inner.finish([inner.add("concat", written, more, axis=0)], ["filled"])
        return inner.graph

    (made,) = add_deferred(e, [rows, count], DeferredNodes(build, [rows.known_dtype], [1]))
    return ListParts(form, (*parts.values[:-1], made))


def _counted(e: Emitter, form: ListForm, values: Sequence[Value], count: int) -> ListParts:
    return ListParts(form, (*values, e.sizes(count, dtypes.i64)) if form.counted else tuple(values))


def length(e: Emitter, parts: ListParts) -> Value:
    """Return the number of items, i32[]."""
    return e.cast(_count(e, parts), dtypes.i32)


def item(e: Emitter, parts: ListParts, index: Value, dims: Dims = None) -> Value:
    """Return the item at `index`. A run without such an item fails."""
    at = _checked(e, parts, e.cast(e.reshape(index, []), dtypes.i64))
    if parts.form.stacked:
        if not fits(dims, parts.form.item):
            raise ShapeError(f"the items are {dims_text(parts.form.item)}, wanted {dims_text(dims)}")
        return e.add("gather", parts.values[0], at, axis=0)
    start, sizes, end = _place(e, parts, at)
    found = e.add("slice", parts.values[0], start, end, e.integers([0]))
    return e.add("reshape", found, sizes, allowzero=True)


def _place(e: Emitter, parts: ListParts, at: Value) -> tuple[Value, Value, Value]:
    """Return where the elements of an item begin (i64[1]), its sizes (i64[rank]), and where they end (i64[1])."""
    row = e.add("gather", parts.values[1], at, axis=0)
    start, sizes = _part(e, row, 0, 1), _part(e, row, 1, 1 + parts.form.rank)
    return start, sizes, e.add("add", start, e.add("reduce_prod", sizes, axes=(0,), keepdims=True))


def with_next_item(e: Emitter, parts: ListParts, value: Value) -> ListParts:
    """Return the list with `value` behind the last item that is there, as the first one of those never written."""
    made = pushed(e, parts, value)
    if parts.unwritten is None:
        return made
    return replace(made, unwritten=e.sizes(e.numbers(parts.unwritten)[0] - 1, dtypes.i64))


def with_item(e: Emitter, parts: ListParts, index: Value, value: Value, *, only_new: bool = False) -> ListParts:
    """Return the list with `value` as the item at `index`, which it has.

    With `only_new` the first tensor of a list whose items are not stacked is only what comes behind its elements.
    """
    at = e.reshape(_checked(e, parts, e.cast(e.reshape(index, []), dtypes.i64)), [1, 1])
    *held, rows = _new(e, parts, value)
    put = e.add("scatter_nd", parts.values[len(held)], at, rows, reduction="none")
    return ListParts(parts.form, (*(held if only_new else _appended(e, parts.values, held)), put))


def pushed(e: Emitter, parts: ListParts, value: Value, *, only_new: bool = False) -> ListParts:
    """Return the list with `value` behind its last item; with `only_new` what comes behind each of its tensors."""
    new = _new(e, parts, value)
    return ListParts(parts.form, tuple(new if only_new else _appended(e, parts.values, new)))


def _appended(e: Emitter, values: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    return [e.add("concat", *pair, axis=0) for pair in zip(values, new, strict=False)]


def popped(e: Emitter, parts: ListParts, dims: Dims = None) -> tuple[ListParts, Value]:
    """Return the list without its last item, and that. A run without an item fails."""
    form = parts.form
    last = e.add("sub", _count(e, parts), e.sizes(1, dtypes.i64))
    none, zero = e.add("lt", last, e.sizes(0, dtypes.i64)), e.sizes(0, dtypes.i64)
    at = e.add("where", none, e.sizes(_FAR, dtypes.i64), zero)
    last = e.add("add", last, e.add("gather", e.constant(np.zeros(2, np.int64)), at, axis=0))  # fails without an item
    found = item(e, parts, last, dims)
    if form.counted:
        return ListParts(form, (*parts.values[:-1], last)), found
    values = list(parts.values)
    values[-1] = _first(e, values[-1], last)
    if not form.stacked:
        values[0] = _without_end(e, parts, last)
    return ListParts(form, tuple(values)), found


def _without_end(e: Emitter, parts: ListParts, last: Value) -> Value:
    """Return the elements without those of the item at `last`, if these lie behind all others."""
    held = parts.values[0]
    start, _, end = _place(e, parts, last)
    whole = e.sizes(list(e.shape(held)), dtypes.i64)
    is_last = e.add("eq", end, whole)
    return e.add("slice", held, e.integers([0]), e.add("where", is_last, start, whole), e.integers([0]))


def stacked(e: Emitter, parts: ListParts, dims: Dims, count: int = -1) -> Value:
    """Return all items stacked; a run in which they differ in shape fails. There are `count`, unless it is negative."""
    plain = parts.whole(e)
    form = replace(plain.form, dims=merged_dims(plain.form.dims, dims))
    if form.stacked:
        found, sizes = plain.values[0], e.sizes(form.item, dtypes.i64)
    else:
        held, table = plain.values
        starts, zero = _part(e, table, 0, 1, axis=1), e.sizes(0, dtypes.i64)
        written = e.add("ge", starts, zero)
        most, sizes = _sizes(e, form, table, 1, written)
        size = e.add("reduce_prod", most, axes=(0,), keepdims=False)
        places = e.add("add", starts, e.add("range", zero, size, e.sizes(1, dtypes.i64)))
        places = e.add("where", written, places, e.sizes(e.shape(held)[0], dtypes.i64))  # a zero lies there
        found = e.add("gather", e.add("concat", held, e.full([1], 0, form.dtype), axis=0), places, axis=0)
    wanted = [count] if count >= 0 else e.shape(plain.values[-1])[:1]
    return e.add("reshape", found, e.add("concat", e.integers(wanted), sizes, axis=0), allowzero=True)


def joined(e: Emitter, parts: ListParts, dims: Dims) -> tuple[Value, Value]:
    """Return all items concatenated along their first axis, and their lengths (i64[n])."""
    plain = parts.whole(e)
    form = replace(plain.form, dims=merged_dims(plain.form.dims, dims))
    if not form.rank:
        raise ShapeError("Concat requires elements to be at least vectors, found a scalar")
    if form.stacked:
        count, first, *rest = e.shape(plain.values[0])
        return e.reshape(plain.values[0], [count * first, *rest]), e.add(
            "expand", e.sizes([first], dtypes.i64), e.integers([count])
        )
    held, table = plain.values
    starts, lengths = _part(e, table, 0, 1, axis=1), e.reshape(_part(e, table, 1, 2, axis=1), [-1])
    most, least = _sizes(e, form, table, 2, e.add("ge", starts, e.sizes(0, dtypes.i64)))
    size = e.add("reduce_prod", most, axes=(0,), keepdims=False)
    known = None if form.dims is None or None in form.dims[1:] else [dim or 0 for dim in form.dims[1:]]
    row = elements(known) if known else 1
    counts = lengths if known is not None else e.add("mul", lengths, size)
    ends = e.add("cumsum", counts, axis=0, exclusive=False, reverse=False)
    total = e.add("reduce_sum", counts, axes=(0,), keepdims=False)
    places = e.add("range", e.sizes(0, dtypes.i64), total, e.sizes(1, dtypes.i64))
    starts = e.reshape(starts, [-1])
    if row > 1:
        starts = e.add("div", starts, e.sizes(row, dtypes.i64))
        held = e.reshape(held, [-1, row])
    moved = e.add("sub", starts, e.add("sub", ends, counts))
    owner = e.add("search_sorted", ends, places, right=True)
    found = e.add("gather", held, e.add("add", places, e.add("gather", moved, owner, axis=0)), axis=0)
    whole = e.add("reduce_sum", lengths, axes=(0,), keepdims=True)
    return e.add("reshape", found, e.add("concat", whole, least, axis=0), allowzero=True), lengths


def picked(e: Emitter, parts: ListParts, indices: Value) -> ListParts:
    """Return the list of the items at `indices`, of any shape."""
    plain = parts.whole(e)
    at = _checked(e, plain, e.cast(e.reshape(indices, [-1]), dtypes.i64))
    return ListParts(plain.form, (*plain.values[:-1], e.add("gather", plain.values[-1], at, axis=0)))


def _new(e: Emitter, parts: ListParts, value: Value) -> list[Value]:
    """Return what an item that is written adds to each tensor: its elements, if these are apart, and its row."""
    form, shape = parts.form, e.shape(value)
    if value.dtype != form.dtype:
        raise ShapeError(f"Invalid data types; op elements {value.dtype} but list elements {form.dtype}")
    if len(shape) != form.rank or not fits(form.dims, shape):
        raise ShapeError(
            f"the value shape is {dims_text(shape)} which is incompatible with the list's element shape: "
            f"{dims_text(form.dims)}"
        )
    if form.stacked:
        return [e.reshape(value, [1, *form.item])]
    row = e.sizes([*e.shape(parts.values[0]), *shape], dtypes.i64)
    return [e.reshape(value, [elements(shape)]), e.reshape(row, [1, 1 + form.rank])]


def _count(e: Emitter, parts: ListParts) -> Value:
    if parts.form.counted:
        return parts.values[-1]
    return e.sizes(e.shape(parts.values[-1])[0], dtypes.i64)


def _checked(e: Emitter, parts: ListParts, index: Value) -> Value:
    """Return `index`, i64, with numbers that no item has in place of those that count from the end."""
    far, zero = e.sizes(_FAR, dtypes.i64), e.sizes(0, dtypes.i64)
    found = e.add("where", e.add("lt", index, zero), far, index)
    if parts.form.counted:
        found = e.add("where", e.add("lt", found, parts.values[-1]), found, far)
    return found


def _sizes(e: Emitter, form: ListForm, table: Value, first: int, written: Value) -> tuple[Value, Value]:
    """Return the largest and the least sizes of items that are `written`, from the table's column `first` on.

    Where all are declared, these are both. Where items differ they are of different products, so that no result has
    such a shape.
    """
    rest = None if form.dims is None else form.dims[first - 1 :]
    if form.rank == first - 1 or (rest is not None and None not in rest):
        known = e.integers([dim or 0 for dim in rest or ()])
        return known, known
    columns = _part(e, table, first, 1 + form.rank, axis=1)
    most = e.add("reduce_max", columns, axes=(0,), keepdims=False)
    return most, e.add("reduce_min", e.add("where", written, columns, most), axes=(0,), keepdims=False)


def _part(e: Emitter, value: Value, start: int, end: int, axis: int = 0) -> Value:
    return e.add("slice", value, e.integers([start]), e.integers([end]), e.integers([axis]))


def _first(e: Emitter, value: Value, count: Value) -> Value:
    return e.add("slice", value, e.integers([0]), e.reshape(count, [1]), e.integers([0]))
