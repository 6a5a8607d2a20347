"""Columns of a matrix done some vectors at a time, and what is left one vector at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask


@dataclass(frozen=True, slots=True)
class ColumnTile:
    """Columns that are done together: where they begin, how many vectors, and the lanes of the last (None: all)."""

    column: Index
    vectors: int
    mask: ir.Value | None


def column_tiles(k: Kernel, left: Index, right: Index, lanes: int, vectors: int) -> Iterator[ColumnTile]:
    """Loops over the columns from `left` to `right`. What is emitted between two tiles is the body for the first of them."""
    tile = lanes * vectors
    whole = k.add(left, k.mul(k.div(k.sub(right, left), tile), tile))
    with loop(k, left, whole, tile, name="tile") as full:
        yield ColumnTile(full.index, vectors, None)
    with loop(k, whole, right, lanes, name="edge") as edge:
        yield ColumnTile(edge.index, 1, lane_mask(k, k.sub(right, edge.index), lanes))
