"""Folding elements into one value, along rows and down columns: sums, products and extremes, by several vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import lane_mask, load, load_masked
from treadle.codegen.emit.scalar_ops import extreme
from treadle.codegen.emit.types import lanes_of
from treadle.codegen.emit.vectors import constant, take, zeros
from treadle.dtypes import DType, f32, f64
from treadle.plan.kernels.reduce import FOLDED_ROWS, FOLDED_VECTORS
from treadle.records import dataclass

_UNROLL = 4
"""Vectors that are folded side by side."""

Read = Callable[[Index, ir.Value | None], ir.Value]
"""(index, mask of the lanes to read or None) -> a vector"""

Rows: TypeAlias = "tuple[Index, Index, Callable[[Index], list[ir.Value]]]"
"""(first row, row after the last, function from the number of a row to its vectors)"""


@dataclass(frozen=True, slots=True)
class Fold:
    """`how` is sum, prod, max, min or peak (max that may lose NaN); `dtype` is that of the total."""

    how: str
    dtype: DType

    def neutral(self, lanes: int) -> ir.Constant:
        """The neutral element of the fold."""
        if self.how in ("sum", "prod"):
            return constant(self.dtype, 0 if self.how == "sum" else 1, lanes)
        lowest = self.how != "min"
        if self.dtype.is_float:
            return constant(self.dtype, float("-inf") if lowest else float("inf"), lanes)
        bits = 8 * self.dtype.size
        signed = self.dtype.kind == "int"
        least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        return constant(self.dtype, least if lowest else greatest, lanes)

    def join(self, k: Kernel, left: ir.Value, right: ir.Value) -> ir.Value:
        """left and right folded, lane by lane."""
        if self.how == "sum":
            return k.b.fadd(left, right) if self.dtype.is_float else k.b.add(left, right)
        if self.how == "prod":
            return k.b.fmul(left, right) if self.dtype.is_float else k.b.mul(left, right)
        if self.how == "peak":
            return k.b.select(k.b.fcmp_ordered(">", left, right), left, right)
        return extreme(k, left, right, self.dtype, self.how)

    def across(self, k: Kernel, value: ir.Value) -> ir.Value:
        """All lanes of `value` in one scalar, by halves."""
        while lanes_of(value.type) > 1:
            half = lanes_of(value.type) // 2
            value = self.join(k, take(k, value, range(half)), take(k, value, range(half, 2 * half)))
        return value


def reader(k: Kernel, base: ir.Value, dtype: DType, lanes: int, folded: DType) -> Read:
    """Reads an array of `dtype` as `folded`."""
    zero = zeros(dtype, lanes)

    def read(index: Index, mask: ir.Value | None) -> ir.Value:
        value = load(k, base, index, dtype, lanes) if mask is None else load_masked(k, base, index, dtype, mask, zero)
        return convert(k, value, dtype, folded)

    return read


def fold_vectors(k: Kernel, fold: Fold, read: Read, start: Index, stop: Index, lanes: int) -> ir.Value:
    """The elements of [start, stop) folded into one vector, always in the same order."""
    neutral = fold.neutral(lanes)
    step = lanes * _UNROLL
    whole = k.add(start, k.mul(k.div(k.sub(stop, start), step), step))
    with loop(k, start, whole, step, carry=[neutral] * _UNROLL, name="fold") as main:
        main.next(
            *(
                fold.join(k, total, read(k.add(main.index, lanes * number), None))
                for number, total in enumerate(main.carry)
            )
        )
    with loop(k, whole, stop, lanes, carry=[main.carry[0]], name="rest") as rest:
        mask = lane_mask(k, k.sub(stop, rest.index), lanes)
        rest.next(fold.join(k, rest.carry[0], k.b.select(mask, read(rest.index, mask), neutral)))
    totals = [rest.carry[0], *main.carry[1:]]
    while len(totals) > 1:
        totals = [fold.join(k, *totals[i : i + 2]) for i in range(0, len(totals), 2)]
    return totals[0]


def each_vector(
    k: Kernel, write: Callable[[Index, ir.Value | None], None], start: Index, stop: Index, lanes: int, unroll: int = 1
) -> None:
    """write(index, mask or None) for vectors that cover [start, stop)."""
    step = lanes * unroll
    whole = k.add(start, k.mul(k.div(k.sub(stop, start), step), step))
    with loop(k, start, whole, step, name="main") as main:
        for number in range(unroll):
            write(k.add(main.index, number * lanes), None)
    if unroll > 1:
        with loop(k, whole, stop, lanes, name="rest") as rest:
            write(rest.index, lane_mask(k, k.sub(stop, rest.index), lanes))
    else:
        with when(k, k.less(whole, stop)):
            write(whole, lane_mask(k, k.sub(stop, whole), lanes))


def wide_dtype(fold: Fold) -> DType:
    """Dtype of the total of long rows: f64 for sums and products of floats."""
    return f64 if fold.how in ("sum", "prod") and fold.dtype == f32 else fold.dtype


def fold_row(
    k: Kernel, fold: Fold, read: Read, start: Index, stop: Index, lanes: int, *, long: bool
) -> tuple[ir.Value, DType]:
    """(total, its dtype) of the elements of [start, stop); `long` rows of floats are summed in f64 by blocks."""
    wide = wide_dtype(fold)
    if not long or wide == fold.dtype:
        return fold.across(k, fold_vectors(k, fold, read, start, stop, lanes)), fold.dtype
    outer = Fold(fold.how, wide)
    with loop(k, start, stop, FOLDED_VECTORS * lanes, carry=[outer.neutral(lanes)], name="block") as block:
        end = k.min(k.add(block.index, FOLDED_VECTORS * lanes), stop)
        total = fold_vectors(k, fold, read, block.index, end, lanes)
        block.next(outer.join(k, block.carry[0], convert(k, total, fold.dtype, wide)))
    return outer.across(k, block.carry[0]), wide


def fold_rows(k: Kernel, fold: Fold, parts: Sequence[Rows], lanes: int, vectors: int) -> list[ir.Value]:
    """The rows of `parts`, of `vectors` vectors each, folded one after the other."""
    totals: list[ir.Value] = [fold.neutral(lanes)] * vectors
    for first, last, read in parts:
        with loop(k, first, last, carry=totals, name="down") as down:
            values = read(down.index)
            down.next(*(fold.join(k, total, value) for total, value in zip(down.carry, values, strict=True)))
        totals = down.carry
    return totals


def fold_columns(
    k: Kernel,
    fold: Fold,
    parts: Callable[[Index, Index], Sequence[Rows]],
    rows: tuple[Index, Index],
    lanes: int,
    vectors: int,
    *,
    long: bool,
) -> tuple[list[ir.Value], DType]:
    """(totals, their dtype) of the rows [first, last), which `parts` returns for a range; `long` columns of floats are
    summed up in f64, block by block."""
    wide = Fold(fold.how, wide_dtype(fold) if long else fold.dtype)
    first, last = rows
    if wide == fold:
        return fold_rows(k, fold, parts(first, last), lanes, vectors), fold.dtype
    with loop(k, first, last, FOLDED_ROWS, carry=[wide.neutral(lanes)] * vectors, name="block") as block:
        end = k.min(k.add(block.index, FOLDED_ROWS), last)
        totals = fold_rows(k, fold, parts(block.index, end), lanes, vectors)
        block.next(
            *(
                wide.join(k, total, convert(k, part, fold.dtype, wide.dtype))
                for total, part in zip(block.carry, totals, strict=True)
            )
        )
    return block.carry, wide.dtype
