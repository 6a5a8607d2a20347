"""reorder: between plain and blocked channels, by tiles transposed in registers."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.tiles import Rows, move_part
from treadle.plan.kernels.reorder import ReorderArgs, ReorderSpec


def emit_reorder(k: Kernel, spec: ReorderSpec) -> None:
    """Plain [N, C, S] to blocked [N, B, S, block] (`to_blocked`), or back. Spare lanes become zero.

    A unit is a tile of pixels of one block.
    """
    args = k.args(ReorderArgs[ir.Value], spec)
    dtype, block, side, to_blocked = spec.dtype, spec.block, spec.side, spec.to_blocked
    channels, blocks, pixels = args.channels, args.blocks, args.pixels
    target, source = k.pointer(0), k.pointer(1)
    tiles = k.max(k.div(k.add(pixels, side - 1), side), 1)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)

    def move(plain: ir.Value, blocked: ir.Value, rows: Index, columns: Index) -> None:
        """Moves one tile of `rows` channels and `columns` pixels."""
        if to_blocked:
            move_part(k, Rows(blocked, block), Rows(plain, pixels), dtype, side, (rows, columns), fill=True)
        else:
            move_part(k, Rows(plain, pixels), Rows(blocked, block), dtype, side, (columns, rows))

    with segments(k, begin, end, tiles, "plane") as (plane, first, last):
        number = k.rem(plane, blocks)
        channel = k.mul(number, block)
        plain_base = k.mul(k.add(k.mul(k.div(plane, blocks), channels), channel), pixels)
        blocked_base = k.mul(k.mul(plane, pixels), block)
        with loop(k, first, last, name="tile") as tile:
            pixel = k.mul(tile.index, side)
            columns = k.min(k.sub(pixels, pixel), side)
            for part in range(0, block, side):
                rows = k.max(k.min(k.sub(k.sub(channels, channel), part), side), 0)
                plain_at = k.add(k.add(plain_base, k.mul(pixels, part)), pixel)
                blocked_at = k.add(k.add(blocked_base, k.mul(pixel, block)), part)
                plain, blocked = (target, source) if not to_blocked else (source, target)
                move(k.at(plain, plain_at, dtype), k.at(blocked, blocked_at, dtype), rows, columns)
