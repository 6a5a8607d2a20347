"""Rows of memory copied and filled: any length, every store inside the row, no masks needed."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.vectors import splat, take
from treadle.dtypes import DType, u8, u16, u32, u64

_WORDS = {1: u8, 2: u16, 4: u32, 8: u64}
_UNROLL = 4

Piece = Callable[[Index, int], None]
"""(index, count): moves `count` elements from `index` on."""

Pieces = Callable[[ir.Value], None]
"""(index): moves _UNROLL vectors from `index` on."""


def word(size: int) -> DType:
    """The unsigned type that moves elements of `size` bytes, whatever they mean."""
    return _WORDS[size]


def copy_row(k: Kernel, target: ir.Value, source: ir.Value, count: Index, dtype: DType) -> None:
    """target[0 : count] = source[0 : count]; the two do not overlap."""
    lanes = k.target.lanes(dtype)

    def move(index: Index, width: int) -> None:
        store(k, load(k, source, index, dtype, width), target, index, dtype)

    def move_many(index: ir.Value) -> None:
        places = [k.add(index, i * lanes) for i in range(_UNROLL)]
        vectors = [load(k, source, place, dtype, lanes) for place in places]
        for place, value in zip(places, vectors, strict=True):
            store(k, value, target, place, dtype)

    _cover(k, count, lanes, move, move_many)


def fill_row(k: Kernel, target: ir.Value, value: ir.Value, count: Index, dtype: DType) -> None:
    """target[0 : count] = value, a scalar of `dtype`."""
    lanes = k.target.lanes(dtype)
    wide = splat(k, value, lanes)

    def put(index: Index, width: int) -> None:
        store(k, wide if width == lanes else take(k, wide, range(width)), target, index, dtype)

    def put_many(index: ir.Value) -> None:
        for i in range(_UNROLL):
            store(k, wide, target, k.add(index, i * lanes), dtype)

    _cover(k, count, lanes, put, put_many)


def _cover(k: Kernel, count: Index, lanes: int, piece: Piece, pieces: Pieces) -> None:
    """Cover 0..count with vectors; the last vector, and rows shorter than one, with overlapping ones."""
    with either(k, k.less(k.sub(lanes, 1), count)) as (long, short):
        with long:
            many = k.mul(k.div(count, lanes * _UNROLL), lanes * _UNROLL)
            with loop(k, 0, many, lanes * _UNROLL, name="many") as turn:
                pieces(turn.index)
            last = k.sub(count, lanes)
            with loop(k, many, last, lanes, name="one") as turn:
                piece(turn.index, lanes)
            piece(last, lanes)
        with short:
            _cover_short(k, count, lanes // 2, piece)


def _cover_short(k: Kernel, count: Index, width: int, piece: Piece) -> None:
    if width <= 1:
        with when(k, k.less(0, count)):
            piece(0, 1)
        return
    with either(k, k.less(k.sub(width, 1), count)) as (fits, smaller):
        with fits:
            piece(0, width)
            piece(k.sub(count, width), width)
        with smaller:
            _cover_short(k, count, width // 2, piece)
