"""Matrix products by Strassen's algorithm: which ones, and the calls for them."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import DType, f32
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import BYTES_PER_NS, Array, LowerContext, partition
from treadle.passes.lower.gemm_operands import Operands
from treadle.passes.lower.gemm_right import matrices_of
from treadle.passes.lower.gemm_strassen_tiling import StrassenTiling, choose_tiling, cost
from treadle.plan.call import Call
from treadle.plan.kernels.gemm_strassen import (
    PRODUCTS,
    GemmStrassenArgs,
    GemmStrassenSpec,
    StrassenLeftArgs,
    StrassenLeftSpec,
)
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.target import LINE


def lower_strassen_product(node: Node, ctx: LowerContext, product: Operands, dtype: DType) -> list[Call] | None:
    """Calls for a product of fp32 with constant weights; None where a plain product is as fast, or must be used.

    Strassen's algorithm rounds differently from a sum of products, so it is for math="fast" only. It adds rows to each
    other: an infinite or very large element of one row changes the results of its partner. So partners are rows of one
    matrix of a batch, for example positions of one text; the rows of a single matrix may be unrelated samples.
    """
    takes = (
        ctx.math == "fast"
        and is_enabled("strassen_product")
        and dtype == f32
        and product.b.value.is_constant
        and not product.batch
    )
    shape = product.a.value.static_shape
    if not takes or product.a.value is not node.operand(0) or product.a.column != 1 or len(shape) < 3:
        return None
    if node.attrs.get("a_perm") is not None or node.attrs["transpose_a"]:
        return None
    chosen = choose_tiling(product.rows // shape[-2], shape[-2], product.columns, product.depth, ctx.target)
    return None if chosen is None else strassen_calls(node, ctx, product, chosen)


def strassen_calls(node: Node, ctx: LowerContext, product: Operands, chosen: StrassenTiling) -> list[Call]:
    """The calls that multiply as `chosen` says: sums of the left factor, if there are none yet, then the products."""
    tile, lanes = chosen.tile, ctx.target.lanes(f32)
    width = tile.vectors * lanes
    left, summing = _left_sums(node, ctx, product, chosen)
    result = 4 * chosen.half * width
    turn = UNROLL * width * f32.size // LINE
    spec = GemmStrassenSpec(
        dtype=f32,
        rows=tile.heights,
        vectors=tile.vectors,
        prefetch_lines=-(-4 * turn // (tile.blocks * PRODUCTS)),
        epilogue=node.attrs.get("epilogue"),
        kinds=tuple(operand.kind for operand in product.epilogue),
    )
    args = GemmStrassenArgs(
        rows=product.rows,
        tile_rows=chosen.tile_rows,
        half=chosen.half,
        depth=product.depth,
        part=chosen.part,
        sums_row=chosen.sums_row(lanes),
        parts=chosen.parts,
        blocks=tile.blocks,
        large_blocks=tile.large_blocks,
        pairs=chosen.pairs,
        pairs_per_chunk=chosen.pairs_per_chunk,
        pair_chunks=chosen.pair_chunks,
        result_step=result if chosen.parts > 1 else 0,
        out_row=product.out.row,
        epilogue_rows=tuple(operand.row for operand in product.epilogue),
    )
    kept = chosen.pairs_per_chunk if chosen.parts > 1 else 1
    multiplying = ctx.call(
        node,
        spec,
        (node.output,),
        (left, _blocks(ctx, product, chosen, width), *(operand.value for operand in product.epilogue)),
        args=args,
        chunks=chosen.chunks,
        flops=2.0 * product.rows * product.columns * product.depth,
        cost=ctx.flops_ns(cost(chosen, ctx.target) * 2.0 * lanes, 0.0, 1.0),
        scratch=(PRODUCTS * tile.heights[0] * width + kept * result) * f32.size,
    )
    return [*summing, multiplying]


def _left_sums(node: Node, ctx: LowerContext, product: Operands, chosen: StrassenTiling) -> tuple[Value, list[Call]]:
    """The sums of the left factor, and the call that makes them, unless an earlier product has the same ones.

    Queries, keys and values, for example, have one left factor.
    """
    factor = product.a.value
    sums_row = chosen.sums_row(ctx.target.lanes(f32))
    shape = (product.rows, chosen.tile_rows, chosen.half, product.depth, chosen.part, sums_row, product.a.row)
    key = factor, shape
    if key in ctx.derived:
        return ctx.derived[key], []
    left = ctx.temporary(f"{factor.name}.sums", f32, (chosen.tiles, chosen.parts, PRODUCTS, chosen.half, sums_row))
    ctx.derived[key] = left
    units = chosen.tiles * chosen.parts * chosen.half
    moved = (PRODUCTS + 4) * chosen.part / 2 * f32.size / BYTES_PER_NS
    chunks, per_chunk = partition(units, moved)
    args = StrassenLeftArgs(
        rows=product.rows,
        tile_rows=chosen.tile_rows,
        half=chosen.half,
        depth=product.depth,
        part=chosen.part,
        sums_row=sums_row,
        a_row=product.a.row,
        parts=chosen.parts,
        units=units,
        units_per_chunk=per_chunk,
    )
    summing = ctx.call(
        node, StrassenLeftSpec(dtype=f32), (left,), (factor,), args=args, chunks=chunks, cost=units * moved
    )
    return left, [summing]


def _blocks(ctx: LowerContext, product: Operands, chosen: StrassenTiling, width: int) -> Value:
    b, depth, columns = product.b, product.depth, product.columns
    how = f"strassen {width} {chosen.part} {b.row} {b.column} {depth} {columns}"

    def blocks(data: Array) -> Array:
        (matrix,) = matrices_of(b, data, (depth, columns))
        return pack_blocks(matrix, width, chosen.part)

    return ctx.packed(b.value, how, "blocks", blocks)


def pack_blocks(matrix: Array, width: int, part: int) -> Array:
    """[K, N] -> [N / width / 2, K / part, 4, part / 2, width], flat; the last part of K may be smaller.

    The blocks are b11, b21, b22 - b12 + b11 (computed in float64 and rounded once) and b22.
    """
    depth, columns = matrix.shape
    pairs = matrix.reshape(depth, columns // (2 * width), 2, width)
    packed = np.empty((columns // (2 * width), depth * 2 * width), matrix.dtype)
    for begin in range(0, depth, part):
        upper, lower = np.split(pairs[begin : begin + part], 2)
        b11, b12, b21, b22 = upper[:, :, 0], upper[:, :, 1], lower[:, :, 0], lower[:, :, 1]
        t2 = (b22.astype(np.float64) - b12 + b11).astype(matrix.dtype)
        blocks = np.stack([b11, b21, t2, b22]).transpose(2, 0, 1, 3)
        packed[:, begin * 2 * width :][:, : blocks[0].size] = blocks.reshape(len(packed), -1)
    return packed.reshape(-1)
