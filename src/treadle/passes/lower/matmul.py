"""matmul: one product kernel, its right factor packed at compile time if it is constant."""

from __future__ import annotations

from dataclasses import replace

from treadle.dtypes import DType, bf16, f32, f64, i8, i32, i64, u32, u64
from treadle.graph.dim import ceil_div, divides, equals, is_expression, minimum, real_maximum
from treadle.graph.node import Node
from treadle.knobs import is_enabled
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.expr import with_given
from treadle.passes.lower.gemm_operands import Operands, operands_of
from treadle.passes.lower.gemm_right import (
    SplitFactor,
    packed_bf16,
    packed_by_call,
    packed_bytes,
    right_factor,
    shares_panels,
    split_factor,
)
from treadle.passes.lower.gemm_tiles import (
    LOADED,
    NO_PREFETCH,
    Grid,
    Parts,
    Prefetched,
    Tile,
    choose_grid,
    choose_parts,
    choose_tile,
    prefetched,
    step_cost,
)
from treadle.passes.lower.registers import byte_registers, pair_registers
from treadle.passes.lower.vnni import bytes_are_faster, signedness
from treadle.plan.call import Call
from treadle.plan.kernels.gemm import GemmArgs, GemmSpec
from treadle.plan.kernels.gemv import GemvArgs, GemvSpec
from treadle.plan.kernels.register_block import FINISHED_TOGETHER, UNROLL
from treadle.records import dataclass

_DTYPES = (f32, f64, i32, i64, u32, u64)

_WIDENED = LOADED + 0.5
"""The time of a load that widens bytes beside that of a vector of products: it takes one of four vector units, which a
product and its addition share; of these only two multiply."""


def lower_matmul(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Calls of `gemm`, or of `gemv` for a vector times a matrix whose rows it runs along; None for
    other dtypes and for results of which neither rows nor columns are contiguous."""
    dtype = node.operand(0).known_dtype
    if dtype == bf16:
        product = bf16_product(node) if ctx.target.has_bf16_dot else None
        return None if product is None else _gemm(node, ctx, product, f32, each=2)
    if dtype in BYTES:
        product = vnni_product(node)
        return None if product is None else _gemm(node, ctx, product, i32, each=4)
    if dtype not in _DTYPES or node.operand(1).known_dtype != dtype or len(node.outputs) != 1:
        return None
    product = _oriented(operands_of(node))
    if product is None:
        return None
    if 0 in (*product.batch, product.rows, product.columns):
        return []
    by_dots = _is_dot_products(product) and not ctx.batch_invariant  # two rows are added in another order
    return [_gemv(node, ctx, product, dtype)] if by_dots else _gemm(node, ctx, product, dtype)


def bf16_product(node: Node) -> Operands | None:
    """The product of bf16 activations and constant f32 weights for bf16 dot products: the depth and the strides of a
    count pairs. None if pairs are not contiguous, or neither rows nor columns of the result are."""
    return _grouped(node, 2) if node.operand(1).dtype == f32 else None


def vnni_product(node: Node) -> Operands | None:
    """The product of bytes and constant signed bytes for VNNI dot products: the depth and the strides of a count groups
    of four. None as in `bf16_product`."""
    takes = is_enabled("vnni") and node.operand(1).dtype == i8 and node.operand(0).dtype in BYTES
    return _grouped(node, 4) if takes else None


def _grouped(node: Node, each: int) -> Operands | None:
    """The product with the depth counted in groups of `each`; None if groups are not contiguous."""
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
    contiguous = equals(b.row, 1) and equals(a.column, 1) and not equals(product.columns, 1)
    return equals(product.rows, 1) and contiguous and not b.value.is_constant and b.value.known_dtype.is_float


def _oriented(product: Operands) -> Operands | None:
    """The product or its transpose, so that columns of the result and of epilogue operands are contiguous."""

    def fits(each: Operands) -> bool:
        columns = (each.out, *each.epilogue)
        alike = all(equals(one.column, 0) or equals(one.column, 1) for one in columns)
        return equals(each.columns, 1) or (equals(each.out.column, 1) and alike)

    candidates = [each for each in (product, product.transposed) if fits(each)]
    if not candidates:
        return None
    if equals(product.columns, 1) and not equals(product.rows, 1):
        return candidates[-1]
    return candidates[0]


def _gemm(node: Node, ctx: LowerContext, product: Operands, dtype: DType, *, each: int = 1) -> list[Call]:
    lanes, depth = ctx.target.lanes(dtype), product.depth
    registers = byte_registers(ctx.target) if each == 4 else ctx.target.registers
    tile = choose_tile(product.rows, product.columns, depth, lanes, registers)
    width = tile.vectors * lanes
    widened, split = each == 4 and not ctx.target.has_vnni, None
    if widened and ctx.target.has_byte_pairs:
        split = _split(product, tile, width)
        widened = split is None
    if widened:
        tile = choose_tile(product.rows, product.columns, depth, lanes, pair_registers(ctx.target), _WIDENED)
        width = tile.vectors * lanes
    if each == 4:
        right = packed_bytes(ctx, product, width, split)
    else:
        right = packed_bf16(ctx, product, width) if each == 2 else right_factor(ctx, product, width)
    tiling = _choose_tiling(ctx, product, tile, dtype, copies=right.copies, each=each, widened=widened)
    grid = tiling.grid
    calls = []
    if shares_panels(product, right, grid.block_chunks):
        right, call = packed_by_call(node, ctx, product, right, tile.vectors)
        calls.append(call)
    product = replace(product, b=right.matrices)
    prefetch = NO_PREFETCH
    if tiling.streams and right.source == "packed":
        step, panel = width * dtype.size, right.panel * dtype.size
        prefetch = prefetched(grid, tiling.parts, step, panel, ctx.machine, alone=ctx.weights_leave_l2)
    edge = _edge(product, width, lanes)
    epilogue, given = with_given(node.attrs["epilogue"]) if "epilogue" in node.attrs else (None, ())
    copied = right.copies or (right.source == "rows" and edge > 0)
    spec = GemmSpec(
        dtype=dtype,
        bf16_dot=each == 2,
        vnni=signedness(product.a.value) if each == 4 else "",
        words=widened,
        remainders=split is not None and split.entries > 0,
        rows=tile.heights,
        vectors=tile.vectors,
        source=right.source,
        unit_row=equals(product.a.row, 1) and not equals(product.a.column, 1),
        unit_depth=equals(product.a.column, 1),
        whole_turns=divides(UNROLL, depth),
        edge=edge,
        grid=not (equals(grid.chunks, 1) and equals(product.batches, 1)),
        batch_rank=len(product.batch),
        prefetch_lines=prefetch.most,
        parts=tiling.parts.several,
        epilogue=epilogue,
        kinds=tuple(operand.kind for operand in product.epilogue),
    )
    product_call = ctx.call(
        node,
        spec,
        (node.output,),
        (product.a.value, product.b.value, *(operand.value for operand in product.epilogue)),
        args=_args(product, tile, tiling, prefetch, right.panel, given),
        chunks=grid.chunks,
        flops=2.0 * product.batches * product.rows * product.columns * depth * each,
        cost=tiling.cost,
        scratch=_scratch(tile, tiling, width, copied, spec.epilogue is not None, 2 * depth if widened else 0)
        * dtype.size,
    )
    return [*calls, product_call]


def _split(product: Operands, tile: Tile, width: int) -> SplitFactor | None:
    """The right factor in two terms for products of bytes, where they are faster than those of words."""
    split = split_factor(product, width)
    if split is None:
        return None
    steps = split.panels.shape[0] * split.panels.shape[1]
    is_faster = bytes_are_faster(steps, split.entries, tile.vectors, signed=product.a.value.dtype == i8)
    return split if is_faster else None


def _edge(product: Operands, width: int, lanes: int) -> int:
    """The vectors that a last panel multiplies if it is not full, else 0. They are all where sizes are open: such a
    kernel has no code for part of a panel."""
    if divides(width, product.columns):
        return 0
    if is_expression(product.columns) or is_expression(product.rows):
        return width // lanes
    return ceil_div(product.columns % width, lanes)


@dataclass(frozen=True, slots=True)
class _Tiling:
    """The tiling of a product: the grid of chunks, the panels, the parts of the depth, the time of all in ns, and
    whether factors come from memory."""

    grid: Grid
    panels: int
    parts: Parts
    cost: float
    streams: bool


def _choose_tiling(
    ctx: LowerContext, product: Operands, tile: Tile, dtype: DType, *, copies: bool, each: int, widened: bool
) -> _Tiling:
    target = ctx.target
    rows, columns, depth = product.rows, product.columns, product.depth
    lanes = target.lanes(dtype)
    width = tile.vectors * lanes
    panels = ceil_div(columns, width)
    panel_ns = real_maximum(
        ctx.machine.fma_ns * _share_of_loads(tile) * tile.blocks * tile.height * tile.vectors * depth,
        ctx.moved_ns(depth * width * dtype.size),
    )
    a_bytes, b_bytes = (1.0 * (size * depth * dtype.size) for size in (rows, columns))
    a_bytes *= 2.0 if widened else 1.0
    moved = (rows * depth + depth * columns + rows * columns) * dtype.size
    streams = product.b.value.is_constant or (not is_expression(moved) and moved > target.last_cache)
    parts = Parts.whole(depth)
    if streams and each != 4:
        parts = choose_parts(depth, dtype.size, tile, panels, lanes, ctx.machine, packed=product.b.value.is_constant)
    block_ns = panel_ns / tile.blocks
    grid = choose_grid(
        tile, panels, product.batches, block_ns, a_bytes, b_bytes, target, copies=copies, share=parts.share
    )
    return _Tiling(grid, panels, parts, ctx.machine.call_ns + product.batches * panels * panel_ns, streams)


def _share_of_loads(tile: Tile) -> float:
    """The time of a large block relative to that of its multiply-adds."""
    rows = tile.heights[0]
    return step_cost(rows, tile.vectors, LOADED) / (rows * tile.vectors)


def _scratch(tile: Tile, tiling: _Tiling, width: int, copied: bool, epilogue: bool, widened: int) -> int:
    """Elements of scratch of the `gemm` kernel: blocks whose epilogue is applied together, a copied panel or a chunk's
    rows of the left factor as `widened` elements each, the sums of a chunk between parts of the depth."""
    block, grid, parts = tile.heights[0] * width, tiling.grid, tiling.parts
    waiting = block * grid.blocks * minimum(grid.panels, parts.panels) if parts.several else 0
    spilled = FINISHED_TOGETHER * block if epilogue else block
    rows = tile.heights[0] * grid.blocks
    return spilled + (parts.length * width if copied else 0) + rows * widened + waiting


def _args(
    product: Operands, tile: Tile, tiling: _Tiling, prefetch: Prefetched, b_panel: int, given: tuple[int, ...]
) -> GemmArgs[int]:
    grid = tiling.grid
    return GemmArgs(
        columns=product.columns,
        depth=product.depth,
        blocks=tile.blocks,
        height=tile.height,
        large_blocks=tile.large_blocks,
        panels=tiling.panels,
        a_row=product.a.row,
        a_depth=product.a.column,
        b_depth=product.b.row,
        b_column=product.b.column,
        b_panel=b_panel,
        out_row=product.out.row,
        batches=product.batches,
        batches_per_chunk=grid.batches,
        blocks_per_chunk=grid.blocks,
        panels_per_chunk=grid.panels,
        block_chunks=grid.block_chunks,
        panel_chunks=grid.panel_chunks,
        part=tiling.parts.length,
        panels_at_once=tiling.parts.panels,
        prefetch_lines=prefetch.lines,
        prefetch_ahead=prefetch.ahead,
        epilogue_rows=tuple(operand.row for operand in product.epilogue),
        given=given,
        sizes=product.batch,
        a_batch=product.a.batch,
        b_batch=product.b.batch,
        out_batch=product.out.batch,
        epilogue_batch=tuple(operand.batch for operand in product.epilogue),
    )


def _gemv(node: Node, ctx: LowerContext, product: Operands, dtype: DType) -> Call:
    lanes = ctx.target.lanes(dtype)
    blocks = ceil_div(product.columns, lanes)
    units = product.batches * blocks
    block_ns = real_maximum(4.0 * lanes, ctx.moved_ns(product.depth * lanes * dtype.size))
    chunks, per_chunk = ctx.partition(units, block_ns)
    spec = GemvSpec(
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
        args=GemvArgs(
            columns=product.columns,
            depth=product.depth,
            b_column=product.b.column,
            blocks=blocks,
            units=units,
            units_per_chunk=per_chunk,
            sizes=product.batch,
            a_batch=product.a.batch,
            b_batch=product.b.batch,
            out_batch=product.out.batch,
            epilogue_batch=tuple(operand.batch for operand in product.epilogue),
        ),
        chunks=chunks,
        flops=2.0 * product.batches * product.columns * product.depth,
        cost=units * block_ns,
        scratch=ctx.target.vector_bytes,
    )
