"""reorder: between plain and blocked channels, by tiles transposed in registers."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.tiles import move_edge, move_tile
from treadle.plan.kernel_spec import KernelSpec


def emit_reorder(k: Kernel, spec: KernelSpec) -> None:
    """Plain [N, C, S] to blocked [N, B, S, block] (`to_blocked`), or back. Spare lanes become zero.

    A unit is a tile of spatial places of one block. args: units, units a chunk, C, B, S.
    params: dtype, block, side (of a tile; divides block), to_blocked. Pointers: target, source.
    """
    dtype, block, side, to_blocked = spec["dtype"], spec["block"], spec["side"], spec["to_blocked"]
    units, per_chunk, channels, blocks, places = (k.arg(i) for i in range(5))
    target, source = k.pointer(0), k.pointer(1)
    tiles = k.max(k.div(k.add(places, side - 1), side), 1)
    begin, end = k.chunk_range(units, per_chunk)

    def move(plain: ir.Value, blocked: ir.Value, rows: Index, columns: Index) -> None:
        """One tile of `rows` channels and `columns` places."""
        whole = k.b.and_(k.less(side - 1, rows), k.less(side - 1, columns))
        with either(k, whole) as (full, edge):
            with full:
                if to_blocked:
                    move_tile(k, blocked, block, plain, places, dtype, side)
                else:
                    move_tile(k, plain, places, blocked, block, dtype, side)
            with edge:
                if to_blocked:
                    move_edge(k, blocked, block, plain, places, dtype, side, (rows, columns), fill=True)
                else:
                    move_edge(k, plain, places, blocked, block, dtype, side, (columns, rows))

    with segments(k, begin, end, tiles, "plane") as (plane, first, last):
        number = k.rem(plane, blocks)
        channel = k.mul(number, block)
        plain_base = k.mul(k.add(k.mul(k.div(plane, blocks), channels), channel), places)
        blocked_base = k.mul(k.mul(plane, places), block)
        with loop(k, first, last, name="tile") as tile:
            place = k.mul(tile.index, side)
            columns = k.min(k.sub(places, place), side)
            for part in range(0, block, side):
                rows = k.max(k.min(k.sub(k.sub(channels, channel), part), side), 0)
                plain_at = k.add(k.add(plain_base, k.mul(places, part)), place)
                blocked_at = k.add(k.add(blocked_base, k.mul(place, block)), part)
                plain, blocked = (target, source) if not to_blocked else (source, target)
                move(k.at(plain, plain_at, dtype), k.at(blocked, blocked_at, dtype), rows, columns)
