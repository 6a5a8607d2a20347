"""Square tiles transposed in registers, and moved between two strided arrays."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.types import vector
from treadle.codegen.emit.vectors import constant, lane_numbers
from treadle.dtypes import DType

_LANE_BYTES = 16
"""A shuffle within 16-byte pieces of a vector is one cheap instruction on every x86 and ARM."""

_MAX_TILE = 16


def tile_size(k: Kernel, dtype: DType) -> int:
    """Returns the side of the tiles that suit `dtype` on this target."""
    return min(_MAX_TILE, k.target.lanes(dtype))


def transpose(k: Kernel, rows: Sequence[ir.Value], dtype: DType) -> list[ir.Value]:
    """result[i][j] = rows[j][i], for n vectors of n lanes, n a power of two."""
    n = len(rows)
    piece = min(n, _LANE_BYTES // dtype.size)
    current = list(rows)
    distance = piece // 2
    while distance:
        current = _stage(k, current, distance, *_interleave(n, piece))
        distance //= 2
    distance = piece
    while distance < n:
        current = _stage(k, current, distance, *_exchange(n, distance))
        distance *= 2
    return current


def _interleave(n: int, piece: int) -> tuple[list[int], list[int]]:
    """Returns lane numbers that interleave the low, and the high, halves of pieces; those of the second begin at n."""
    half = piece // 2
    low = [start + i // 2 + (i % 2) * n for start in range(0, n, piece) for i in range(piece)]
    return low, [lane + half for lane in low]


def _exchange(n: int, distance: int) -> tuple[list[int], list[int]]:
    """Returns lane numbers that swap blocks of `distance` lanes between two vectors."""
    low = [n + j - distance if j & distance else j for j in range(n)]
    high = [n + j if j & distance else j + distance for j in range(n)]
    return low, high


def _stage(k: Kernel, rows: list[ir.Value], distance: int, low: list[int], high: list[int]) -> list[ir.Value]:
    result = list(rows)
    for i in range(len(rows)):
        if not i & distance:
            result[i] = _shuffle(k, rows[i], rows[i + distance], low)
            result[i + distance] = _shuffle(k, rows[i], rows[i + distance], high)
    return result


def _shuffle(k: Kernel, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
    return k.b.shuffle_vector(left, right, lane_numbers(tuple(lanes)))


def move_tile(
    k: Kernel,
    target: ir.Value,
    target_stride: Index,
    source: ir.Value,
    source_stride: Index,
    dtype: DType,
    side: int,
) -> None:
    """target[b * target_stride + a] = source[a * source_stride + b] for all a, b < side."""
    rows = [load(k, source, k.mul(source_stride, a), dtype, side) for a in range(side)]
    for b, value in enumerate(transpose(k, rows, dtype)):
        store(k, value, target, k.mul(target_stride, b), dtype)


def move_edge(
    k: Kernel,
    target: ir.Value,
    target_stride: Index,
    source: ir.Value,
    source_stride: Index,
    dtype: DType,
    side: int,
    sizes: tuple[Index, Index],
    *,
    fill: bool = False,
) -> None:
    """Does `move_tile` for a < sizes[0] and b < sizes[1]; with `fill`, stores zeros for a from sizes[0] to `side`."""
    count_a, count_b = sizes
    if dtype.size < 4 and k.target.isa != "avx512":
        with loop(k, 0, count_b, name="b") as column:
            to = k.mul(column.index, target_stride)
            with loop(k, 0, count_a, name="a") as row:
                value = load(k, source, k.add(k.mul(row.index, source_stride), column.index), dtype)
                store(k, value, target, k.add(to, row.index), dtype)
            if fill:
                with loop(k, count_a, side, name="rest") as row:
                    store(k, constant(dtype, 0), target, k.add(to, row.index), dtype)
        return
    zero = ir.Constant(vector(dtype, side), None)
    lanes_b = lane_mask(k, count_b, side)
    nothing = lane_mask(k, 0, side)
    rows = []
    for a in range(side):
        # A missing row is a masked load of the last row: one of unmapped memory is slow, even if it loads no lane.
        offset = k.mul(source_stride, k.max(k.min(k.sub(count_a, 1), a), 0))
        mask = k.b.select(k.less(a, count_a), lanes_b, nothing)
        rows.append(load_masked(k, source, offset, dtype, mask, zero))
    lanes_a = lane_mask(k, count_a, side)
    for b, value in enumerate(transpose(k, rows, dtype)):
        with when(k, k.less(b, count_b)):
            if fill:
                store(k, value, target, k.mul(target_stride, b), dtype)
            else:
                store_masked(k, value, target, k.mul(target_stride, b), dtype, lanes_a)
