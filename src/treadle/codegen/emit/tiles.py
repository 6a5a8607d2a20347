"""Square tiles transposed in registers, and moved between two strided arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.types import lanes_of
from treadle.codegen.emit.vectors import constant, joined, lane_numbers, zeros
from treadle.dtypes import DType

_LANE_BYTES = 16
"""A shuffle within 16-byte pieces of a vector is one cheap instruction on every x86 and ARM."""

_MAX_TILE = 16


class Rows(NamedTuple):
    """An array in memory: the address of its first element, and the elements from one row to the next."""

    address: ir.Value
    stride: Index


def tile_size(k: Kernel, dtype: DType) -> int:
    """Returns the side of the tiles that suit `dtype` on this target."""
    return min(_MAX_TILE, k.target.lanes(dtype))


def _transpose_pieces(k: Kernel, rows: Sequence[ir.Value], piece: int) -> list[ir.Value]:
    """result[c], lane p * piece + r = rows[r], lane p * piece + c, for n = `piece` vectors, a power of two."""
    lanes = lanes_of(rows[0].type)
    current, distance = list(rows), piece // 2
    while distance:
        current = _stage(k, current, distance, *_interleave(lanes, piece))
        distance //= 2
    return current


def _interleave(n: int, piece: int) -> tuple[list[int], list[int]]:
    """Returns lane numbers that interleave the low, and the high, halves of pieces; those of the second begin at n."""
    half = piece // 2
    low = [start + i // 2 + (i % 2) * n for start in range(0, n, piece) for i in range(piece)]
    return low, [lane + half for lane in low]


def _stage(k: Kernel, rows: list[ir.Value], distance: int, low: list[int], high: list[int]) -> list[ir.Value]:
    result = list(rows)
    for i in range(len(rows)):
        if not i & distance:
            result[i] = _shuffle(k, rows[i], rows[i + distance], low)
            result[i + distance] = _shuffle(k, rows[i], rows[i + distance], high)
    return result


def _shuffle(k: Kernel, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
    return k.b.shuffle_vector(left, right, lane_numbers(tuple(lanes)))


def move_tile(k: Kernel, target: Rows, source: Rows, dtype: DType, side: int) -> None:
    """target[b, a] = source[a, b] for all a, b < side.

    Done by as many columns as an element fits a 16-byte piece: a load puts a piece where it belongs in a vector, so
    that only shuffles within pieces remain.
    """
    piece = min(side, _LANE_BYTES // dtype.size)

    def move(first: Index) -> None:
        """Those of `piece` columns from `first` on."""
        start = k.at(source.address, first, dtype)
        places = [k.mul(source.stride, a) for a in range(side)]
        pieces = [load(k, start, place, dtype, piece) for place in places]
        rows = [joined(k, pieces[row::piece]) for row in range(piece)]
        to = k.at(target.address, k.mul(target.stride, first), dtype)
        for b, value in enumerate(_transpose_pieces(k, rows, piece)):
            store(k, value, to, k.mul(target.stride, b), dtype)

    if piece == side:
        move(0)
        return
    with loop(k, 0, side, piece, name="columns") as columns:
        move(columns.index)


def move_part(
    k: Kernel, target: Rows, source: Rows, dtype: DType, side: int, sizes: tuple[Index, Index], *, fill: bool = False
) -> None:
    """Does `move_tile` for a < sizes[0] and b < sizes[1], neither above `side`; the rest is neither read nor written.

    With `fill`, stores zeros for a from sizes[0] to `side`. A tile that is not whole is moved in local memory: so the
    code of a tile, which is long, exists once.
    """
    whole_a, whole_b = (k.less(side - 1, size) for size in sizes)
    whole = k.b.and_(whole_a, whole_b)
    if not k.target.has_lane_masks(dtype):
        with either(k, whole) as (tile, part):
            with tile:
                move_tile(k, target, source, dtype, side)
            with part:
                _move_elements(k, target, source, dtype, side, sizes, fill=fill)
        return
    own_source, own_target = (Rows(k.local(name, side * side, dtype), side) for name in ("tile", "transposed"))
    with when(k, k.b.not_(whole)):
        _copy_rows(k, own_source, source, dtype, side, sizes)
        if fill:
            with loop(k, sizes[0], side, name="rest") as row:
                store(k, zeros(dtype, side), own_source.address, k.mul(row.index, side), dtype)
    from_ = _either(k, whole, source, own_source)
    fits = whole_b if fill else whole
    move_tile(k, _either(k, fits, target, own_target), from_, dtype, side)
    with when(k, k.b.not_(fits)):
        columns = side if fill else sizes[0]
        _copy_rows(k, target, own_target, dtype, side, (sizes[1], columns))


def _either(k: Kernel, condition: ir.Value, one: Rows, other: Rows) -> Rows:
    """`one` where `condition` holds, else `other`."""
    strides = (as_i64(each.stride) for each in (one, other))
    return Rows(k.b.select(condition, one.address, other.address), k.b.select(condition, *strides))


def _copy_rows(k: Kernel, target: Rows, source: Rows, dtype: DType, side: int, sizes: tuple[Index, Index]) -> None:
    """target[a, b] = source[a, b] for a < sizes[0] and b < sizes[1] <= `side`."""
    mask, zero = lane_mask(k, sizes[1], side), zeros(dtype, side)
    with loop(k, 0, sizes[0], name="row") as row:
        value = load_masked(k, source.address, k.mul(row.index, source.stride), dtype, mask, zero)
        store_masked(k, value, target.address, k.mul(row.index, target.stride), dtype, mask)


def _move_elements(
    k: Kernel, target: Rows, source: Rows, dtype: DType, side: int, sizes: tuple[Index, Index], *, fill: bool
) -> None:
    """Does `move_part` element by element."""
    count_a, count_b = sizes
    with loop(k, 0, count_b, name="b") as column:
        to = k.mul(column.index, target.stride)
        with loop(k, 0, count_a, name="a") as row:
            value = load(k, source.address, k.add(k.mul(row.index, source.stride), column.index), dtype)
            store(k, value, target.address, k.add(to, row.index), dtype)
        if fill:
            with loop(k, count_a, side, name="rest") as row:
                store(k, constant(dtype, 0), target.address, k.add(to, row.index), dtype)
