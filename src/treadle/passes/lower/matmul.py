"""matmul: one product kernel, its right factor packed at compile time if it is constant."""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.dtypes import DType, bf16, f32, f64, i8, i32, i64, u32, u64
from treadle.graph.node import Node
from treadle.knobs import is_enabled
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import BYTES_PER_NS, CALL_NS, FLOPS_PER_LANE_NS, LowerContext, cut
from treadle.passes.lower.conv_tiles import sum_registers
from treadle.passes.lower.gemm_operands import Operands, operands_of
from treadle.passes.lower.gemm_right import packed_by_call, packed_pairs, packed_quads, right_factor
from treadle.passes.lower.gemm_strassen import lower_strassen_product
from treadle.passes.lower.gemm_tiles import Grid, Tile, choose_grid, choose_part, choose_tile, panels_ahead
from treadle.passes.lower.vnni import signedness
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.target import Target

_DTYPES = (f32, f64, i32, i64, u32, u64)


def lower_matmul(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Calls of `gemm` or `gemm_strassen`, or of `gemv` for a vector times a matrix whose rows it runs along; None for
    other dtypes and for results of which neither rows nor columns are contiguous."""
    dtype = node.operand(0).known_dtype
    if dtype == bf16:
        pairs = pairs_of(node) if ctx.target.has_bf16_dot else None
        return None if pairs is None else _gemm(node, ctx, pairs, f32, each=2)
    if dtype in BYTES:
        quads = quads_of(node)
        return None if quads is None else _gemm(node, ctx, quads, i32, each=4)
    if dtype not in _DTYPES or node.operand(1).known_dtype != dtype or len(node.outputs) != 1:
        return None
    product = _oriented(operands_of(node))
    if product is None:
        return None
    if 0 in (*product.batch, product.rows, product.columns):
        return []
    return [_gemv(node, ctx, product, dtype)] if _is_dot_products(product) else _gemm(node, ctx, product, dtype)


def pairs_of(node: Node) -> Operands | None:
    """The product of bf16 activations and constant f32 weights as pairs of bf16 are multiplied: the depth and the
    strides of a count pairs. None where pairs do not lie side by side, or rows of the result do not."""
    return _grouped(node, 2) if node.operand(1).dtype == f32 else None


def quads_of(node: Node) -> Operands | None:
    """Likewise the product of bytes and constant signed bytes, of which quads are multiplied."""
    takes = is_enabled("vnni") and node.operand(1).dtype == i8 and node.operand(0).dtype in BYTES
    return _grouped(node, 4) if takes else None


def _grouped(node: Node, each: int) -> Operands | None:
    """The product with the depth counted in groups of `each`; None where groups do not lie side by side."""
    a, weights = node.operand(0), node.operand(1)
    if not weights.is_constant or len(node.outputs) != 1:
        return None
    product = _oriented(operands_of(node))
    if product is None or product.a.value is not a or product.a.column != 1 or product.depth in (0, 1):
        return None
    if 0 in (*product.batch, product.rows, product.columns):
        return None
    if any(number % each for number in (product.depth, product.a.row, *product.a.batch)):
        return None
    left = replace(product.a, row=product.a.row // each, batch=tuple(step // each for step in product.a.batch))
    return replace(product, a=left, depth=product.depth // each)


def _is_dot_products(product: Operands) -> bool:
    """Whether one row is multiplied with columns that are contiguous and not packed at compile time."""
    a, b = product.a, product.b
    contiguous = b.row == 1 and a.column == 1 and product.columns > 1 and not b.value.is_constant
    return product.rows == 1 and contiguous and b.value.known_dtype.is_float


def _oriented(product: Operands) -> Operands | None:
    """The product or its transpose, so that columns of the result and of epilogue operands are contiguous."""

    def fits(each: Operands) -> bool:
        columns = (each.out, *each.epilogue)
        return each.columns == 1 or (each.out.column == 1 and all(one.column in (0, 1) for one in columns))

    ways = [way for way in (product, product.transposed) if fits(way)]
    if not ways:
        return None
    if product.columns == 1 and product.rows > 1:
        return ways[-1]
    return ways[0]


def _gemm(node: Node, ctx: LowerContext, product: Operands, dtype: DType, *, each: int = 1) -> list[Call]:
    fewer = lower_strassen_product(node, ctx, product, dtype) if each == 1 else None
    if fewer is not None:
        return fewer
    lanes, depth = ctx.target.lanes(dtype), product.depth
    registers = sum_registers(ctx.target, quads=True) if each == 4 else ctx.target.registers
    tile = choose_tile(product.rows, product.columns, depth, lanes, registers)
    width = tile.vectors * lanes
    if each == 4:
        right = packed_quads(ctx, product, width)
    else:
        right = packed_pairs(ctx, product, width) if each == 2 else right_factor(ctx, product, width)
    cut_up = _cut_up(product, tile, dtype, ctx.target, right.copies, each)
    grid = cut_up.grid
    calls = []
    if right.copies and grid.block_chunks > 1:
        right, call = packed_by_call(node, ctx, product, right, tile.vectors)
        calls.append(call)
    product = replace(product, b=right.matrices)
    asks = cut_up.streams and right.source == "packed"
    edge = -(-(product.columns % width) // lanes)
    copied = right.copies or (right.source == "rows" and edge > 0)
    spec = KernelSpec.of(
        "gemm",
        dtype=dtype,
        pairs=each == 2,
        quads=signedness(product.a.value) if each == 4 else "",
        rows=tile.heights,
        vectors=tile.vectors,
        source=right.source,
        unit_row=product.a.row == 1 and product.a.column != 1,
        unit_depth=product.a.column == 1,
        whole_turns=depth % UNROLL == 0,
        edge=edge,
        grid=grid.chunks > 1 or product.batches > 1,
        batch_rank=len(product.batch),
        ahead=panels_ahead(grid, width * dtype.size, cut_up.part < depth) if asks else (0, 0),
        parts=cut_up.part < depth,
        epilogue=node.attrs.get("epilogue"),
        kinds=tuple(operand.kind for operand in product.epilogue),
    )
    product_call = ctx.call(
        node,
        spec,
        (node.output,),
        (product.a.value, product.b.value, *(operand.value for operand in product.epilogue)),
        args=_args(product, tile, cut_up, right.panel),
        chunks=grid.chunks,
        flops=2.0 * product.batches * product.rows * product.columns * depth * each,
        cost=cut_up.cost,
        scratch=_scratch(tile, cut_up, width, copied, cut_up.part < depth) * dtype.size,
    )
    return [*calls, product_call]


@dataclass(frozen=True, slots=True)
class _CutUp:
    """A product in chunks: the grid, its panels, how much of the depth is multiplied at once, the time of all in ns, and
    whether its factors come from memory."""

    grid: Grid
    panels: int
    part: int
    cost: float
    streams: bool


def _cut_up(product: Operands, tile: Tile, dtype: DType, target: Target, copies: bool, each: int) -> _CutUp:
    rows, columns, depth = product.rows, product.columns, product.depth
    lanes = target.lanes(dtype)
    width = tile.vectors * lanes
    panels = -(-columns // width)
    panel_ns = max(
        tile.blocks * 2.0 * tile.heights[0] * width * depth / (lanes * FLOPS_PER_LANE_NS),
        depth * width * dtype.size / BYTES_PER_NS,
    )
    a_bytes, b_bytes = (float(size * depth * dtype.size) for size in (rows, columns))
    streams = product.b.value.is_constant or a_bytes + b_bytes + rows * columns * dtype.size > target.last_cache
    part = choose_part(depth, dtype.size, tile.blocks, lanes) if streams and each != 4 else depth
    block_ns, share = panel_ns / tile.blocks, part / max(depth, 1)
    grid = choose_grid(tile, panels, product.batches, block_ns, a_bytes, b_bytes, target.l2, copies, share)
    return _CutUp(grid, panels, part, CALL_NS + product.batches * panels * panel_ns, streams)


def _scratch(tile: Tile, cut_up: _CutUp, width: int, copied: bool, parts: bool) -> int:
    """Elements of scratch of the `gemm` kernel: a block, a copied panel, the sums of a chunk between parts of the depth."""
    block, grid = tile.heights[0] * width, cut_up.grid
    return block + (cut_up.part * width if copied else 0) + (block * grid.blocks * grid.panels if parts else 0)


def _args(product: Operands, tile: Tile, cut_up: _CutUp, b_panel: int) -> tuple[int, ...]:
    """The arguments of the `gemm` kernel, in the order of its ARGS."""
    grid = cut_up.grid
    return (
        product.columns,
        product.depth,
        tile.blocks,
        tile.large_blocks,
        cut_up.panels,
        product.a.row,
        product.a.column,
        product.b.row,
        product.b.column,
        b_panel,
        product.out.row,
        product.batches,
        grid.batches,
        grid.blocks,
        grid.panels,
        grid.block_chunks,
        grid.panel_chunks,
        cut_up.part,
        *(operand.row for operand in product.epilogue),
        *product.batch,
        *(step for each in product.every for step in each.batch),
    )


def _gemv(node: Node, ctx: LowerContext, product: Operands, dtype: DType) -> Call:
    lanes = ctx.target.lanes(dtype)
    blocks = -(-product.columns // lanes)
    units = product.batches * blocks
    block_ns = max(4.0 * lanes, product.depth * lanes * dtype.size / BYTES_PER_NS)
    chunks, per_chunk = cut(units, block_ns)
    spec = KernelSpec.of(
        "gemv",
        dtype=dtype,
        vectors=1,
        batch_rank=len(product.batch),
        epilogue=node.attrs.get("epilogue"),
        kinds=tuple(operand.kind for operand in product.epilogue),
    )
    return ctx.call(
        node,
        spec,
        (node.output,),
        (product.a.value, product.b.value, *(operand.value for operand in product.epilogue)),
        args=(
            product.columns,
            product.depth,
            product.b.column,
            blocks,
            units,
            per_chunk,
            *product.batch,
            *(step for each in product.every for step in each.batch),
        ),
        chunks=chunks,
        flops=2.0 * product.batches * product.columns * product.depth,
        cost=units * block_ns,
        scratch=ctx.target.vector_bytes,
    )
