"""Ops that rearrange elements: views, permutations, concatenation, slices, pads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.rules.rule import Rule, common
from treadle.graph.dim import DimExpr, at_least, ceil_div, equals, is_expression, maximum, minimum
from treadle.graph.shape import elements, equal_shapes, normalize_axis
from treadle.graph.value import Value

FARTHEST = (1 << 63) - 1


def identity(b: Builder, x: Value, *_: Any) -> Value:  # noqa: ARG001 - every rule takes a builder
    """Returns x: treadle has one memory layout and one device."""
    return x


def view(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    return b.reshape(x, shape)


def view_as(b: Builder, x: Value, other: Value) -> Value:
    return b.reshape(x, b.shape(other))


def view_dtype(b: Builder, x: Value, dtype: DType) -> Value:  # noqa: ARG001 - every rule takes a builder
    if dtype != x.dtype:
        raise Unsupported("it reads the bits of its elements as another type")
    return x


def flatten(b: Builder, x: Value, start: int = 0, end: int = -1) -> Value:
    shape = b.shape(x)
    if not shape:
        return b.reshape(x, [1])
    first, last = b.axis(x, start), b.axis(x, end)
    return b.reshape(x, [*shape[:first], elements(shape[first : last + 1]), *shape[last + 1 :]])


def unflatten(b: Builder, x: Value, dim: int, sizes: Sequence[int]) -> Value:
    axis, shape = b.axis(x, dim), b.shape(x)
    known = elements(size for size in sizes if size != -1)
    full = [shape[axis] // max(1, known) if size == -1 else size for size in sizes]
    return b.reshape(x, [*shape[:axis], *full, *shape[axis + 1 :]])


def squeeze(b: Builder, x: Value, dims: int | Sequence[int] | None = None) -> Value:
    """Removes the axes of size 1 among `dims`."""
    shape = b.shape(x)
    over = set(range(len(shape))) if dims is None else {*b.axes(x, dims)} if dims != () else set()
    return b.reshape(x, [size for axis, size in enumerate(shape) if axis not in over or size != 1])


def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    shape = list(b.shape(x))
    shape.insert(normalize_axis(dim, len(shape) + 1), 1)
    return b.reshape(x, shape)


def transpose(b: Builder, x: Value, dim0: int, dim1: int) -> Value:
    perm = list(range(b.rank(x)))
    if perm:
        one, two = b.axis(x, dim0), b.axis(x, dim1)
        perm[one], perm[two] = two, one
    return b.transpose(x, perm)


def t(b: Builder, x: Value) -> Value:
    return x if b.rank(x) < 2 else transpose(b, x, 0, 1)


def matrix_t(b: Builder, x: Value) -> Value:
    return transpose(b, x, -1, -2)


def reverse_axes(b: Builder, x: Value) -> Value:
    return b.transpose(x, list(reversed(range(b.rank(x)))))


def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return b.transpose(x, [b.axis(x, dim) for dim in dims])


def expand(b: Builder, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:  # noqa: ARG001 - the op has it
    """Repeats axes of size 1; -1 keeps a size."""
    shape = b.shape(x)
    front = len(sizes) - len(shape)
    return b.expand(x, [shape[axis - front] if size == -1 else size for axis, size in enumerate(sizes)])


def expand_as(b: Builder, x: Value, other: Value) -> Value:
    return b.expand(x, b.shape(other))


def repeat(b: Builder, x: Value, repeats: Sequence[int]) -> Value:
    front = len(repeats) - b.rank(x)
    if front < 0:
        raise Fault(f"repeats {list(repeats)} have fewer numbers than the tensor has axes")
    return b.add("tile", b.reshape(x, [*(1,) * front, *b.shape(x)]), b.ints(repeats))


def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Concatenates along `dim`; tensors of shape [0] are skipped. Raises Fault if there are none."""
    _check_any(tensors)
    dtype = common(*tensors)
    parts = [b.cast(x, dtype) for x in tensors if not equal_shapes(x.shape, (0,))] or [b.cast(tensors[0], dtype)]
    return parts[0] if len(parts) == 1 else b.add("concat", *parts, axis=b.axis(parts[0], dim))


def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    _check_any(tensors)
    axis = normalize_axis(dim, b.rank(tensors[0]) + 1)
    return cat(b, [unsqueeze(b, x, axis) for x in tensors], axis)


def _check_any(tensors: Sequence[Value]) -> None:
    if not tensors:
        raise Fault("its list has no tensors")


def slice_(
    b: Builder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    axis = b.axis(x, dim)
    first, last = part_of(b.shape(x)[axis], start, end)
    return b.slice(x, axis, first, maximum(first, last), step)


def part_of(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns where x[start:end] begins and ends along an axis of `size`, from 0 to `size`, which may be open."""

    def place(at: int) -> int:
        return minimum(at, size) if at >= 0 else maximum(at + size, 0)

    return 0 if start is None else place(start), size if end is None or equals(end, FARTHEST) else place(end)


def select(b: Builder, x: Value, dim: int, index: int | Number) -> Value:
    """Returns one entry along `dim`, without that axis."""
    axis, shape = b.axis(x, dim), b.shape(x)
    if isinstance(index, Number):
        return b.add("gather", x, index.value, axis=axis)
    if not -shape[axis] <= index < shape[axis]:
        raise Fault(f"index {index} is out of range for axis {axis} with {shape[axis]} entries")
    at = index if index >= 0 else index + shape[axis]
    return b.reshape(b.slice(x, axis, at, at + 1), [*shape[:axis], *shape[axis + 1 :]])


def narrow(b: Builder, x: Value, dim: int, start: int, length: int) -> Value:
    axis = b.axis(x, dim)
    begin = start + b.shape(x)[axis] if start < 0 else start
    return b.slice(x, axis, begin, begin + length)


def split_with_sizes(b: Builder, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    axis = b.axis(x, dim)
    if len(sizes) == 1:
        return [x]
    return b.add_many("split", [x, b.ints(sizes)], len(sizes), axis=axis, parts=len(sizes))


def split(b: Builder, x: Value, size: int | Sequence[int], dim: int = 0) -> list[Value]:
    """Splits into parts of `size` entries; the last has the remainder."""
    if not isinstance(size, int | DimExpr):
        return split_with_sizes(b, x, size, dim)
    total = b.shape(x)[b.axis(x, dim)]
    if size <= 0 and total:
        raise Fault(f"parts must have a positive size, got {size}")
    sizes = [min(size, total - begin) for begin in range(0, total, max(1, size))] or [0]
    return split_with_sizes(b, x, sizes, dim)


def chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """Splits into at most `chunks` parts of one size."""
    total = b.shape(x)[b.axis(x, dim)]
    size = maximum(1, ceil_div(total, chunks))
    last = total - size * (chunks - 1)
    if is_expression(total) and last >= 1:  # as many parts as are wanted, whatever the size is
        return split_with_sizes(b, x, [size] * (chunks - 1) + [last], dim)
    return split(b, x, size, dim)


def unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
    return [select(b, x, dim, index) for index in range(b.shape(x)[b.axis(x, dim)])]


def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    for axis in b.axes(x, dims) if dims else ():
        x = b.add("slice", x, *map(b.ints, ([-1], [-FARTHEST], [axis], [-1])))
    return x


def roll(b: Builder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """Shifts entries along axes, from the end to the front."""
    if not dims:
        return b.reshape(roll(b, b.reshape(x, [-1]), shifts, [0]), b.shape(x))
    for shift, dim in zip(shifts, dims, strict=True):
        axis = b.axis(x, dim)
        size = b.shape(x)[axis]
        split_at = -shift % size if size else 0
        if split_at:
            x = b.add("concat", b.slice(x, axis, split_at, size), b.slice(x, axis, 0, split_at), axis=axis)
    return x


def constant_pad(b: Builder, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    return _padded(b, x, pad, "constant", value)


def pad(b: Builder, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Value:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in modes:
        raise Fault(f"mode must be one of {', '.join(modes)}, got {mode!r}")
    if mode != "constant" and value:
        raise Fault(f'Padding mode "{mode}" doesn\'t take in value argument')
    return _padded(b, x, pad, modes[mode], value or 0)


def padding(mode: str) -> Rule:
    """Returns the rule of the pads that are ops of their own."""
    return lambda b, x, pad: _padded(b, x, pad, mode, 0)


def _padded(b: Builder, x: Value, widths: Sequence[int], mode: str, value: float) -> Value:
    """Pads; `widths` are (begin, end) of the last axis, then of the one before, ...; negative ones crop."""
    rank = b.rank(x)
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise Fault(f"pad must be two numbers for each of at most {rank} axes, got {list(widths)}")
    _check_pads(b.shape(x), widths, mode)
    x = x if mode == "reflect" else _cropped(b, x, widths)
    begins, ends = [maximum(0, n) for n in widths[0::2]], [maximum(0, n) for n in widths[1::2]]
    if not all(equals(width, 0) for width in (*begins, *ends)):
        axes = [rank - 1 - index for index in range(len(begins))]
        fill = b.scalar(value, x.known_dtype) if mode == "constant" else None
        x = b.add("pad", x, b.ints([*begins, *ends]), fill, b.ints(axes), mode=mode)
    return _cropped(b, x, widths) if mode == "reflect" else x


def _cropped(b: Builder, x: Value, widths: Sequence[int]) -> Value:
    """Returns `x` cropped by the negative `widths`."""
    for index, (begin, end) in enumerate(zip(widths[0::2], widths[1::2], strict=True)):
        if not (at_least(begin, 0) and at_least(end, 0)):
            axis = b.rank(x) - 1 - index
            size, first, after = b.shape(x)[axis], maximum(0, -begin), maximum(0, -end)
            if first + after > size:
                raise Fault(f"pad {(begin, end)} cuts off more than the {size} entries of axis {axis}")
            x = b.slice(x, axis, first, size - after)
    return x


def _check_pads(shape: Sequence[int], widths: Sequence[int], mode: str) -> None:
    """Raises Fault if an axis has too few elements to be reflected, or to wrap around once."""
    for index, (begin, end) in enumerate(zip(widths[0::2], widths[1::2], strict=True)):
        axis = len(shape) - 1 - index
        if mode == "reflect" and max(begin, end) >= max(1, shape[axis]):
            raise Fault(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"{(begin, end)} at dimension {axis} of input {list(shape)}"
            )
        if mode == "wrap" and max(begin, end) > shape[axis]:
            raise Fault("Padding value causes wrapping around more than once.")


def pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
    return b.add("depth_to_space", x, block=factor, mode="CRD")


def pixel_unshuffle(b: Builder, x: Value, factor: int) -> Value:
    *front, channels, height, width = b.shape(x)
    rank = len(front)
    parts = b.reshape(x, [*front, channels, height // factor, factor, width // factor, factor])
    perm = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return b.reshape(b.transpose(parts, perm), [*front, channels * factor * factor, height // factor, width // factor])


def tril_or_triu(*, upper: bool) -> Rule:
    """Returns the rule of tril and triu."""
    return lambda b, x, diagonal=0: b.add("trilu", x, b.ints([diagonal]), upper=upper)


def meshgrid(b: Builder, tensors: Sequence[Value], indexing: str = "ij") -> list[Value]:
    """Returns each tensor along its own axis, repeated along the others."""
    shape = [elements(b.shape(x)) for x in tensors]
    rank, grids = len(shape), []
    for axis, x in enumerate(tensors):
        along = [1] * rank
        along[axis] = shape[axis]
        grid = b.expand(b.reshape(x, along), shape)
        grids.append(transpose(b, grid, 0, 1) if indexing == "xy" and rank > 1 else grid)
    return grids
