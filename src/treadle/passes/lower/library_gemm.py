"""matmul by a library: each chunk is one product by the provider; treadle's kernels do what the provider cannot.

A product with an epilogue becomes two calls: the library's product, then a loop that applies the epilogue.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.dtypes import DType
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.elementwise import lower_expr
from treadle.passes.lower.gemm_operands import Matrices, Operands, operands_of
from treadle.passes.lower.matmul import lower_matmul
from treadle.plan.call import Call
from treadle.plan.kernels.library_gemm import LibraryGemmArgs, LibraryGemmSpec
from treadle.provider import Provider
from treadle.records import dataclass

_CHUNK = 2.5
"""A chunk is worth so many of a generated kernel: the library packs both factors again for each."""

_MAX_CHUNKS = 128
_STEP = 48
"""Rows and columns of a chunk are multiples of this: of the register blocks that libraries use."""

_PACKED_NS_PER_BYTE = 0.1
_ENOUGH_CHUNKS = 32
"""With fewer chunks, workers may be left without one."""


def lower_matmul_by_provider(node: Node, ctx: LowerContext) -> list[Call] | None:
    """The node's calls: of the provider if there is one and it takes the product, else those of `lower_matmul`, with a
    note that says why."""
    if ctx.provider is None:
        return lower_matmul(node, ctx)
    calls_or_reason = _by_library(node, ctx, ctx.provider)
    if not isinstance(calls_or_reason, str):
        return calls_or_reason
    calls = lower_matmul(node, ctx)
    for call in calls or ():
        call.note = f"not {ctx.provider.name}: {calls_or_reason}"
    return calls


def _by_library(node: Node, ctx: LowerContext, provider: Provider) -> list[Call] | str:
    """The calls, or the reason why the provider is not used."""
    dtype = node.operand(0).known_dtype
    if len(node.outputs) != 1 or node.operand(1).known_dtype != dtype or dtype not in provider.dtypes:
        dtypes = " and ".join(map(str, provider.dtypes))
        return f"it multiplies {dtypes}, this is {dtype} by {node.operand(1).known_dtype}"
    product = replace(operands_of(node), epilogue=())
    candidates = [each for each in (product, product.transposed) if _fits(each)]
    refusal = _refusal(product, candidates, provider)
    if refusal is not None:
        return refusal
    epilogue = node.attrs.get("epilogue")
    if epilogue is None:
        return [_call(node, ctx, candidates[0], dtype, provider)]
    raw = ctx.temporary(f"{node.output.name}.product", dtype, node.output.static_shape)
    result = replace(candidates[0], out=replace(candidates[0].out, value=raw))
    operands = [raw, *(node.operand(index) for index in range(2, len(node.inputs)))]
    after = lower_expr(node, epilogue, (node.output,), operands, ctx)
    if after is None:
        return "no loop applies its epilogue"
    return [_call(node, ctx, result, dtype, provider), *after]


def _refusal(product: Operands, candidates: list[Operands], provider: Provider) -> str | None:
    """The reason why the library cannot or should not multiply, or None; `candidates` are the products that it could
    compute."""
    if 0 in (*product.batch, product.rows, product.columns, product.depth):
        return "there is nothing to multiply"
    if 1 in (product.rows, product.columns):
        return "a product with a vector is bound by memory"
    if not candidates:
        return "a matrix has neither rows nor columns side by side in memory"
    if _largest(candidates[0]) > provider.most:
        return f"sizes and strides above {provider.most} do not fit its integers"
    return None


def _fits(product: Operands) -> bool:
    if product.out.column != 1 or product.out.row < product.columns:
        return False
    return _is_matrix(product.a, product.rows, product.depth) and _is_matrix(product.b, product.depth, product.columns)


def _is_matrix(each: Matrices, rows: int, columns: int) -> bool:
    """Whether rows, or columns, are contiguous and do not overlap."""
    if each.column == 1:
        return rows == 1 or each.row >= columns
    return each.row == 1 and (columns == 1 or each.column >= rows)


def _largest(product: Operands) -> int:
    factors = (product.a, product.b, product.out)
    return max(product.rows, product.columns, product.depth, *(max(each.row, each.column) for each in factors))


@dataclass(frozen=True, slots=True)
class _Partition:
    """Batches, rows and columns of a chunk, and the numbers of chunks along each."""

    batches: int
    rows: int
    columns: int
    batch_chunks: int
    row_chunks: int
    column_chunks: int


def _partition(product: Operands, ns: float, usual_chunk_ns: float, size: int) -> _Partition:
    """Chunks worth about `usual_chunk_ns` each that pack little; `ns` is the estimated time of the whole, `size` an
    element's."""
    wanted = max(1, min(_MAX_CHUNKS, int(ns / usual_chunk_ns)))
    batches, rows, columns = product.batches, product.rows, product.columns
    if batches >= wanted:
        each = -(-batches // wanted)
        return _Partition(each, rows, columns, -(-batches // each), 1, 1)
    share, batch_ns = -(-wanted // batches), ns / batches
    best: tuple[float, _Partition] | None = None
    for row_chunks in range(1, share + 1):
        rows_each = _piece(rows, row_chunks)
        columns_each = _piece(columns, -(-share // row_chunks))
        partition = _Partition(1, rows_each, columns_each, batches, -(-rows // rows_each), -(-columns // columns_each))
        chunks = partition.row_chunks * partition.column_chunks
        packed = (rows * partition.column_chunks + columns * partition.row_chunks) * product.depth * size
        cost = packed * _PACKED_NS_PER_BYTE + max(0, min(share, _ENOUGH_CHUNKS) - chunks) * batch_ns / _ENOUGH_CHUNKS
        if best is None or cost < best[0]:
            best = (cost, partition)
    assert best is not None, "one chunk of rows is always possible"
    return best[1]


def _piece(size: int, chunks: int) -> int:
    each = -(-size // chunks)
    return size if chunks == 1 else -(-each // _STEP) * _STEP


def _call(node: Node, ctx: LowerContext, product: Operands, dtype: DType, provider: Provider) -> Call:
    flops = 2.0 * product.batches * product.rows * product.columns * product.depth
    ns = flops / (ctx.target.lanes(dtype) * ctx.machine.flops_per_lane_ns)
    partition = _partition(product, ns, _CHUNK * ctx.machine.usual_chunk_ns, dtype.size)
    a, b, out = product.a, product.b, product.out
    return ctx.call(
        node,
        LibraryGemmSpec(provider=provider.name, version=provider.version, dtype=dtype, batch_rank=len(product.batch)),
        (out.value,),
        (a.value, b.value),
        args=LibraryGemmArgs(
            rows=product.rows,
            columns=product.columns,
            depth=product.depth,
            a_row=a.row,
            a_column=a.column,
            b_row=b.row,
            b_column=b.column,
            out_row=out.row,
            batches=product.batches,
            batches_per_chunk=partition.batches,
            rows_per_chunk=partition.rows,
            columns_per_chunk=partition.columns,
            row_chunks=partition.row_chunks,
            column_chunks=partition.column_chunks,
            batch_rank=len(product.batch),
            sizes=product.batch,
            a_batch=a.batch,
            b_batch=b.batch,
            out_batch=out.batch,
        ),
        chunks=partition.batch_chunks * partition.row_chunks * partition.column_chunks,
        flops=flops,
        cost=ctx.machine.call_ns + ns,
    )
