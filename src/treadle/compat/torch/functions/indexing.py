"""Indexing with brackets: reads and writes."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.promotion import as_tensor, cast
from treadle.compat.torch.functions.selection import column, nonzero
from treadle.compat.torch.functions.shape import ints, permute, reshape
from treadle.compat.torch.functions.writing import compute_sizes, copy_
from treadle.compat.torch.memory import Step
from treadle.compat.torch.overflow import checked_scalar
from treadle.compat.torch.recording import Recording, emit
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.graph.dim import is_expression
from treadle.graph.shape import broadcast, is_open

_FAR = 1 << 62
"""An end of slices behind every size."""


def _plain(index: Any) -> tuple[Any, ...]:
    """Returns the index as a tuple in which lists and arrays are tensors."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(
        Tensor(np.asarray(part, np.int64 if isinstance(part, list) and not part else None))
        if isinstance(part, list | np.ndarray)
        else part
        for part in parts
    )


def index_(input: Tensor, index: Any) -> Tensor:
    """Returns input[index] for an index of ints, slices, None, `...`, and tensors of integers or bools."""
    parts = _plain(index)
    recording = current()
    if recording is not None and recording.needs_later((input, parts)):
        return _index_later(recording, input, parts)
    if not any(map(_is_list, parts)):
        return _part(input, parts)
    where = _resolve(input, parts)
    return _selected(_part(input, where.basic), where.chosen)


def _index_later(recording: Recording, input: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Returns what index_() does where sizes are not known yet."""
    result = _indexed(input, parts)
    if not any(map(_is_list, parts)):
        step = Step(
            lambda base: index_(base, parts),
            lambda array: array[parts],
            lambda base, new: _replaced_later(base, parts, new),
        )
        recording.memory.share(recording, result, input, step)
    return result


@tensor_function
def _indexed(x: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Returns x[parts] where sizes, or numbers among the parts, may be expressions."""
    if not is_open(x.shape) and not _has_expressions(parts):
        return index_(x, parts)
    found = _OpenIndex([], [], [], [])
    made = 0
    for part, axis, axes in _placed(x, parts):
        made += found.add(part, axis, made, axes)
    return found.of(x)


def _placed(x: Tensor, parts: tuple[Any, ...]) -> Iterator[tuple[Any, int, int]]:
    """Yields the parts of an index of x, each with its first axis and the number of its axes.

    The last one is `...` if there is none among them. Raises IndexError if there are too many.
    """
    taken = sum(map(_axes_taken, parts))
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    if not any(part is Ellipsis for part in parts):
        parts = (*parts, Ellipsis)
    axis = 0
    for part in parts:
        axes = x.ndim - taken if part is Ellipsis else _axes_taken(part)
        yield part, axis, axes
        axis += axes


class _OpenIndex(NamedTuple):
    """An index whose numbers may be expressions.

    `ranges` are begin, end, axis and step of each slice, `single` the axes of which one entry is taken, and which,
    `added` the axes of the result that are new, `chosen` the tensors by axis of the result.
    """

    ranges: list[tuple[Any, Any, int, int]]
    single: list[tuple[int, Any]]
    added: list[int]
    chosen: list[tuple[int, Tensor]]

    def add(self, part: Any, axis: int, made: int, axes: int) -> int:
        """Adds a part, for so many axes from this one on, and returns how many axes of the result it gives."""
        if part is None:
            self.added.append(made)
            return 1
        if _is_list(part):
            self.chosen.append((made, part))
        elif isinstance(part, slice):
            if part != slice(None):
                self.ranges.append((*_ends(part), axis, 1 if part.step is None else part.step))
        elif part is not Ellipsis:
            self.single.append((axis, part if is_expression(part) else _int(part)))
            return 0
        return axes

    def of(self, x: Tensor) -> Tensor:
        """Returns what the index selects of x."""
        if self.ranges:
            begins, ends, over, steps = map(ints, zip(*self.ranges, strict=True))
            x = emit("slice", x, begins, ends, over, steps)
        for axis, place in reversed(self.single):
            x = emit("gather", x, emit("reshape", ints([place]), ints([]), allowzero=False), axis=axis)
        if self.added:
            x = emit("unsqueeze", x, ints(self.added))
        return _selected(x, tuple(self.chosen)) if self.chosen else x


def _has_expressions(parts: tuple[Any, ...]) -> bool:
    numbers: list[Any] = []
    for part in parts:
        numbers.extend((part.start, part.stop, part.step) if isinstance(part, slice) else (part,))
    return any(map(is_expression, numbers))


def _ends(part: slice) -> tuple[Any, Any]:
    """Returns begin and end of a slice, as the core op takes them."""
    if part.step is not None and part.step < 1:
        raise ValueError("step must be greater than zero")
    return 0 if part.start is None else part.start, _FAR if part.stop is None else part.stop


@tensor_function
def _replaced_later(x: Tensor, parts: tuple[Any, ...], new: Tensor) -> Tensor:
    """Returns `x` with `new` written where `_indexed` reads. The recording is computed first."""
    return _replaced(x, _resolve(x, parts), new)


def _part(input: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Applies ints, slices, None and `...`; the result is a view."""
    where = _resolve(input, parts)
    recording = current()
    if recording is None and input.array is not None:
        return Tensor(input.array[(*where.basic, ...)])
    result = _sliced(input, where)
    if recording is not None:
        step = Step(
            lambda base: _part(base, parts),
            lambda array: array[(*where.basic, ...)],
            lambda base, new: _replaced(base, where, new),
        )
        recording.memory.share(recording, result, input, step)
    return result


@tensor_function
def _sliced(x: Tensor, where: ResolvedIndex) -> Tensor:
    if where.ranges:
        axes, begins, ends, steps = (ints(column) for column in zip(*where.ranges, strict=True))
        x = emit("slice", x, begins, ends, axes, steps)
    return x if tuple(x.shape) == where.shape else reshape(x, where.shape)


@tensor_function
def _replaced(x: Tensor, where: ResolvedIndex, new: Tensor) -> Tensor:
    """Returns `x` with `new` written where `_sliced` reads."""
    shape = list(x.shape)
    for axis, begin, end, step in where.ranges:
        shape[axis] = len(range(begin, end, step))
    return _put_ranges(x, where.ranges, reshape(new, shape))


def _put_ranges(x: Tensor, ranges: Sequence[tuple[int, int, int, int]], new: Tensor) -> Tensor:
    if not ranges:
        return new
    (axis, begin, end, step), *rest = ranges
    if rest:
        new = _put_ranges(emit("slice", x, *map(ints, ([begin], [end], [axis], [step]))), rest, new)
    length = x.shape[axis]
    if step == 1:
        sides = [(0, begin), (end, length)]
        before, after = (emit("slice", x, *map(ints, ([a], [b], [axis], [1]))) if a < b else None for a, b in sides)
        parts = [part for part in (before, new, after) if part is not None]
        return parts[0] if len(parts) == 1 else emit("concat", *parts, axis=axis)
    order = np.arange(length)
    order[begin:end:step] = length + np.arange(len(range(begin, end, step)))
    return emit("gather", emit("concat", x, new, axis=axis), order, axis=axis)


class ResolvedIndex(NamedTuple):
    """A resolved index.

    `ranges` (axis, begin, end, step) select a part, which is reshaped to `shape`; `chosen` are the tensors among the
    indices, with the axes of the part that they index. `basic` is the index without those tensors.
    """

    ranges: tuple[tuple[int, int, int, int], ...]
    shape: tuple[int, ...]
    chosen: tuple[tuple[int, Tensor], ...]
    basic: tuple[Any, ...]


def _resolve(x: Tensor, parts: tuple[Any, ...]) -> ResolvedIndex:
    ranges: list[tuple[int, int, int, int]] = []
    shape: list[int] = []
    chosen: list[tuple[int, Tensor]] = []
    basic: list[Any] = []
    for part, axis, axes in _placed(x, parts):
        if part is None or part is Ellipsis or _is_list(part):
            if _is_list(part):
                chosen.append((len(shape), part))
            basic.extend([None] if part is None else [slice(None)] * axes)
            shape.extend([1] if part is None else x.shape[axis : axis + axes])
        elif isinstance(part, slice):
            begin, end, step = _range(part, x.shape[axis])
            shape.append(len(range(begin, end, step)))
            ranges.append((axis, begin, end, step))
            basic.append(slice(begin, end, step))
        else:
            at = _position(_int(part), axis, x.shape[axis])
            ranges.append((axis, at, at + 1, 1))
            basic.append(at)
    return ResolvedIndex(tuple(ranges), tuple(shape), tuple(chosen), tuple(basic))


def _int(part: Any) -> int:
    try:
        return operator.index(part)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(part).__name__})"
        ) from None


def _is_list(part: Any) -> bool:
    """Returns True if a part of an index is a tensor that selects several entries."""
    return isinstance(part, Tensor) and bool(part.ndim or part.dtype is dtypes.bool_)


def _axes_taken(part: Any) -> int:
    """Returns how many axes of the tensor a part of an index consumes; `...` counts as none."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tensor) and part.dtype is dtypes.bool_ else 1


def _range(part: slice, length: int) -> tuple[int, int, int]:
    bounds = (None if each is None else _int(each) for each in (part.start, part.stop, part.step))
    begin, end, step = slice(*bounds).indices(length)
    if step < 1:
        raise ValueError("step must be greater than zero")
    return begin, max(begin, end), step


def _position(at: int, axis: int, length: int) -> int:
    if not -length <= at < length:
        raise IndexError(f"index {at} is out of bounds for dimension {axis} with size {length}")
    return at % length


def _positioned(x: Tensor, chosen: Sequence[tuple[int, Tensor]]) -> tuple[tuple[int, Tensor], ...]:
    """Returns the indices by axis, with masks as the positions of their true elements."""
    found: list[tuple[int, Tensor]] = []
    for axis, index in chosen:
        if index.dtype.is_floating_point:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if index.dtype is not dtypes.bool_:
            found.append((axis, index))
            continue
        _require_same(x, axis, index)
        places = nonzero(index)
        found.extend((axis + at, column(places, at)) for at in range(index.ndim))
    return tuple(found)


@tensor_function
def _selected(x: Tensor, chosen: tuple[tuple[int, Tensor], ...]) -> Tensor:
    """Reads the axes in `chosen` at those positions, or where masks are true."""
    (axis, mask), *others = chosen
    if others or mask.dtype is not dtypes.bool_ or mask.ndim < 2:
        return _gathered(x, _positioned(x, chosen))
    _require_same(x, axis, mask)
    inside = range(axis, axis + mask.ndim)
    perm = [*inside, *(each for each in range(x.ndim) if each not in inside)]
    found = emit("gather_nd", permute(x, perm), nonzero(mask), batch_dims=0)
    return permute(found, [*range(1, axis + 1), 0, *range(axis + 1, found.ndim)]) if axis else found


def _require_same(x: Tensor, axis: int, mask: Tensor) -> None:
    """Raises IndexError unless a mask has the sizes of the axes of x from `axis` on."""
    if tuple(mask.shape) != tuple(x.shape[axis : axis + mask.ndim]):
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index 0 does not match the shape of the indexed tensor "
            f"{list(x.shape)} at index {axis}"
        )


@tensor_function
def _gathered(x: Tensor, chosen: tuple[tuple[int, Tensor], ...]) -> Tensor:
    """Reads the axes in `chosen` at those positions, which broadcast together."""
    if len(chosen) == 1:
        return emit("gather", x, chosen[0][1], axis=chosen[0][0])
    places, perm, back = _together(x, chosen)
    picked = emit("gather_nd", permute(x, perm), places, batch_dims=0)
    return picked if back is None else permute(picked, back)


@tensor_function
def _scattered(x: Tensor, chosen: tuple[tuple[int, Tensor], ...], value: Tensor) -> Tensor:
    """Returns x with `value` written at the positions that `_gathered` reads."""
    places, perm, back = _together(x, chosen)
    shape = [*places.shape[:-1], *(x.shape[axis] for axis in perm[len(chosen) :])]
    if back is None:
        wide = emit("expand", cast(value, x.dtype), ints(shape))
    else:
        wide = emit("expand", cast(value, x.dtype), ints([shape[axis] for axis in back]))
        wide = permute(wide, [back.index(axis) for axis in range(len(back))])
    new = emit("scatter_nd", permute(x, perm), places, wide, reduction="none")
    return permute(new, [perm.index(axis) for axis in range(len(perm))])


def _together(x: Tensor, chosen: Sequence[tuple[int, Tensor]]) -> tuple[Tensor, list[int], list[int] | None]:
    """Returns positions [..., count]; the axes of x, chosen ones first; and how to permute the result back, or None.

    The result's axes for adjacent chosen axes stay in place; for others they come first, as in NumPy.
    """
    axes = [axis for axis, _ in chosen]
    shape = np.broadcast_shapes(*(tuple(index.shape) for _, index in chosen))
    columns = [emit("expand", cast(index, dtypes.int64), ints(shape)) for _, index in chosen]
    columns = [reshape(column, (*shape, 1)) for column in columns]
    places = columns[0] if len(columns) == 1 else emit("concat", *columns, axis=len(shape))
    perm = [*axes, *(axis for axis in range(x.ndim) if axis not in axes)]
    before, count = axes[0], len(shape)
    if not before or axes != list(range(before, before + len(axes))):
        return places, perm, None
    rest = x.ndim - len(axes) - before
    return places, perm, [*range(count, count + before), *range(count), *range(count + before, count + before + rest)]


@tensor_function
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Returns the elements where the mask (bool or uint8) is true, [count]."""
    if mask.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    mask = cast(mask, dtypes.bool_)
    shape = ints(broadcast(tuple(input.shape), tuple(mask.shape)) or (1,))
    wide = emit("expand", input, shape)
    return _selected(wide, ((0, emit("expand", mask, shape)),))


def set_index(input: Tensor, index: Any, value: Any) -> None:
    """Assigns input[index] = value: a tensor or a number, converted to the dtype of `input`."""
    if not isinstance(value, Tensor | bool | int | float | np.generic):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{dtypes.LEGACY[input.dtype.name]}")
    compute_sizes(input, index, value)
    where = _resolve(input, _plain(index))
    part = _part(input, where.basic)
    if not where.chosen:
        copy_(part, value)
        return
    source = value if isinstance(value, Tensor) else as_tensor(checked_scalar(value, input.dtype))
    mask = where.chosen[0][1]
    if len(where.chosen) == 1 and mask.dtype is dtypes.bool_ and source.numel() == 1:
        wide = reshape(
            mask, (*(1,) * where.chosen[0][0], *mask.shape, *(1,) * (part.ndim - where.chosen[0][0] - mask.ndim))
        )
        copy_(part, _chosen(part, wide, reshape(source, ())))
        return
    copy_(part, _scattered(part, _positioned(part, where.chosen), source))


@tensor_function
def _chosen(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return emit("where", mask, cast(value, x.dtype), x)
