"""block_matmul: the left factor is made ready by one call, and multiplied with packed weights by another."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import f32
from treadle.graph.dim import ceil_div, divides, equals, is_expression, minimum, real_maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements, equal_shapes
from treadle.graph.value import Value
from treadle.ops.block_matmul import OWN_INPUTS, repacked, unpacked
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.gemm_tiles import MAX_OPEN_ROWS, MAX_ROWS, Tile, cut_open_rows, cut_rows, long_part
from treadle.plan.call import Call
from treadle.plan.kernels.block_matmul import (
    LEFT_DTYPES,
    PANEL_VECTORS,
    UNPACKED_BLOCKS,
    BlockLeftArgs,
    BlockLeftSpec,
    BlockMatmulArgs,
    BlockMatmulSpec,
    Left,
    Unpacks,
    word_numbers,
)
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.target import Target
from treadle.records import dataclass

_SUMS = 8
"""Independent sums that hide the latency of a multiplication: two a cycle, of four cycles each."""

_CHUNKS = 16
"""Where there are as many panels, no panel is unpacked by several chunks."""

_PACKED_AT_ONCE = 1 << 20
"""Bytes of weights that are unpacked at once while they are packed in panels."""


def lower_block_matmul(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A call of `block_matmul`, behind one of `block_left` unless the kernel reads the left factor in place."""
    a, weights, out = node.operand(0), node.operand(1), node.output
    bits, block = node.attrs["bits"], node.attrs["block"]
    columns, depth_blocks, _ = weights.static_shape
    *outer, depth = a.static_shape
    rows = elements(outer)
    if equals(rows, 0) or columns == 0:
        return []
    left = _left_of(bits, ctx.target) if node.attrs["rounds"] and ctx.math != "exact" else "real"
    tile = _tile(rows, ctx.target)
    unpacks = _unpacks(tile, left, ctx)
    if unpacks == "always":
        return [_product_call(node, ctx, (a,), _Way(left, tile, unpacks), rows)]
    ready = ctx.temporary(f"{out.name}.left", LEFT_DTYPES[left], (rows, depth_blocks * block))
    sides = ctx.temporary(f"{out.name}.scales", f32, (rows, 2, depth_blocks))
    return [
        _left_call(node, ctx, left, ready, sides, rows, depth),
        _product_call(node, ctx, (ready, sides), _Way(left, tile, unpacks), rows),
    ]


@dataclass(frozen=True, slots=True)
class _Way:
    """How a product is computed: what its left factor is made, its register blocks, and whether it unpacks panels."""

    left: Left
    tile: Tile
    unpacks: Unpacks


def _left_of(bits: int, target: Target) -> Left:
    """How rounded numbers are multiplied. 16 bits do not hold sums of products of two bytes."""
    if target.has_vnni or (bits < 8 and target.isa != "generic"):
        return "bytes"
    return "words"


def _left_call(node: Node, ctx: LowerContext, left: Left, ready: Value, sides: Value, rows: int, depth: int) -> Call:
    depth_blocks = sides.static_shape[-1]
    row_ns = ctx.moved_ns((2.0 if left == "real" else 5.0) * depth * f32.size)
    chunks, per_chunk = ctx.partition(rows, row_ns)
    spec = BlockLeftSpec(bits=node.attrs["bits"], block=node.attrs["block"], left=left)
    args = BlockLeftArgs(units=rows, units_per_chunk=per_chunk, depth=depth, depth_blocks=depth_blocks)
    return ctx.call(node, spec, (ready, sides), (node.operand(0),), args=args, chunks=chunks, cost=rows * row_ns)


def _product_call(node: Node, ctx: LowerContext, lefts: tuple[Value, ...], way: _Way, rows: int) -> Call:
    weights, zeros = node.operand(1), node.inputs[3] if len(node.inputs) > 3 else None
    columns, depth_blocks, block_bytes = weights.static_shape
    lanes = ctx.target.lanes(f32)
    width = PANEL_VECTORS * lanes
    panels = ceil_div(columns, width)
    tile, block = way.tile, node.attrs["block"]
    depth = depth_blocks * block
    panel_bytes = width * depth_blocks * (block_bytes + f32.size + (0 if zeros is None else zeros.known_dtype.size))
    steps = tile.height + 1.0
    unit_ns = real_maximum(ctx.machine.fma_ns * steps * PANEL_VECTORS * depth, ctx.moved_ns(panel_bytes) / tile.blocks)
    units = panels * tile.blocks
    part_blocks = ceil_div(long_part(depth, f32.size, block), block)
    together = 1 if way.unpacks == "never" else ceil_div(tile.blocks, ceil_div(_CHUNKS, panels))
    chunks, per_chunk = ctx.partition(units, unit_ns, together)
    unpacked_rows = 0
    if way.unpacks != "never":
        unpacked_rows = part_blocks * block + tile.heights[0] * minimum(tile.blocks, per_chunk)
    operands = [node.operand(index) for index in range(OWN_INPUTS, len(node.inputs))]
    extra = [_beside(value, node.output) for value in operands]
    spec = BlockMatmulSpec(
        dtype=f32,
        vectors=PANEL_VECTORS,
        epilogue=node.attrs.get("epilogue"),
        kinds=tuple(kind for kind, _ in extra),
        bits=node.attrs["bits"],
        block=block,
        left=way.left,
        zeros="" if zeros is None else zeros.known_dtype.name,
        rows=tile.heights,
        unpacks=way.unpacks,
        whole_turns=way.unpacks != "always" or divides(UNROLL, node.operand(0).static_shape[-1]),
        sums=1 if ctx.batch_invariant else _SUMS,
    )
    args = BlockMatmulArgs(
        columns=columns,
        depth=node.operand(0).static_shape[-1],
        depth_blocks=depth_blocks,
        part_blocks=part_blocks,
        blocks=tile.blocks,
        height=tile.height,
        large_blocks=tile.large_blocks,
        units=units,
        units_per_chunk=per_chunk,
        epilogue_rows=tuple(step for _, step in extra),
    )
    tables = [_panels(ctx, value, width) for value in (node.operand(2), *([] if zeros is None else [zeros]))]
    reads = (*lefts, _words(ctx, weights, node.attrs["bits"], width), *tables)
    return ctx.call(
        node,
        spec,
        (node.output,),
        (*reads, *operands),
        args=args,
        chunks=chunks,
        flops=2.0 * rows * columns * depth,
        cost=units * unit_ns,
        scratch=(tile.heights[0] + unpacked_rows) * width * f32.size,
    )


def _tile(rows: int, target: Target) -> Tile:
    most = min(MAX_ROWS, (target.registers - PANEL_VECTORS - 1) // PANEL_VECTORS)
    if is_expression(rows):
        return cut_open_rows(rows, min(most, MAX_OPEN_ROWS), PANEL_VECTORS)
    return cut_rows(rows, most, PANEL_VECTORS)


def _unpacks(tile: Tile, left: Left, ctx: LowerContext) -> Unpacks:
    if left != "real" or ctx.batch_invariant:
        return "never"
    if is_expression(tile.blocks):
        return "by_rows"
    return "always" if tile.blocks >= UNPACKED_BLOCKS else "never"


def _beside(value: Value, out: Value) -> tuple[str, int]:
    """How the epilogue's operand `value` is indexed, and its row stride: it has an element a column, one in all, or one
    for each element of `out`."""
    columns = out.static_shape[-1]
    if equal_shapes(value.shape, out.shape):
        return "full", columns
    return ("column" if value.static_shape and not equals(value.static_shape[-1], 1) else "scalar"), 0


def _words(ctx: LowerContext, weights: Value, bits: int, width: int) -> Value:
    """The weights as `BlockMatmulSpec` reads them; columns behind the last one are 0."""
    columns, depth_blocks, block_bytes = weights.static_shape
    each = word_numbers(bits)
    words = depth_blocks * block_bytes // 4

    def pack(data: Array) -> Array:
        packed = np.zeros((-(-columns // width), words, width, 4), np.uint8)
        rows = data.reshape(columns, -1)
        several = max(1, _PACKED_AT_ONCE // max(1, width * rows.shape[1])) * width
        for first in range(0, columns, several):
            part = rows[first : first + several]
            groups = unpacked(part, bits).reshape(len(part), words, each // 4, 4)
            placed = repacked(np.moveaxis(groups, 2, 3), bits).reshape(len(part), words, 4)
            for panel in range(0, len(part), width):
                columns_here = placed[panel : panel + width]
                packed[(first + panel) // width, :, : len(columns_here)] = columns_here.transpose(1, 0, 2)
        return packed.view(np.uint32).reshape(-1, words, width)

    return ctx.packed(weights, f"block words {bits} {width}", "words", pack)


def _panels(ctx: LowerContext, table: Value, width: int) -> Value:
    """A table [columns, blocks] as [panels, blocks, width], with 0 behind the last column."""
    columns, blocks = table.static_shape

    def pack(data: Array) -> Array:
        padded = np.zeros((-(-columns // width) * width, blocks), data.dtype)
        padded[:columns] = data
        return padded.reshape(-1, width, blocks).transpose(0, 2, 1)

    return ctx.packed(table, f"block panels {width}", "panels", pack)
