"""Loops over the columns of a matrix, several vectors at a time, and one vector at a time over the remainder."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class ColumnTile:
    """Neighbouring columns: the first one, how many vectors they fill, and the lanes of the last vector (None: all)."""

    column: Index
    vectors: int
    mask: ir.Value | None


def column_tiles(k: Kernel, left: Index, right: Index, lanes: int, vectors: int) -> Iterator[ColumnTile]:
    """Loops over the columns from `left` to `right`: the caller emits a tile's body before it requests the next."""
    tile = lanes * vectors
    whole = k.add(left, k.mul(k.div(k.sub(right, left), tile), tile))
    with loop(k, left, whole, tile, name="tile") as full:
        yield ColumnTile(full.index, vectors, None)
    with loop(k, whole, right, lanes, name="edge") as edge:
        yield ColumnTile(edge.index, 1, lane_mask(k, k.sub(right, edge.index), lanes))
