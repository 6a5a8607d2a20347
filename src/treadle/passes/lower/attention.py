"""Lowering of attention: a unit is a block of query rows, whose scores are in scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.dtypes import DType, f32, f64, i64
from treadle.graph.dim import ceil_div, divides, equals, is_expression, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.lower.attention_mask import can_hide
from treadle.passes.lower.attention_operands import (
    Operand,
    Products,
    can_bf16_dot,
    epilogue_operands,
    packed_rows,
    sink_operand,
)
from treadle.passes.lower.attention_tiles import Tiles, choose_tiles
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.kernels.attention import KEY_VECTORS, AttentionArgs, AttentionSpec
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.machine import MachineModel
from treadle.records import dataclass

_EFFICIENCY = 0.85
"""The part of the arithmetic limit that both products are assumed to reach."""

_POWER_WORK = 15
"""How many multiply-adds take as long as the softmax of one vector of scores."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts whose rows are packed: where they begin, how many there are, and the most rows of one."""

    offsets: Value
    count: int
    longest: int


def lower_attention(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call, and one to transpose a mask that is not constant; None for dtypes other than f32 and f64, and for bf16
    of which pairs are not contiguous."""
    products = Products.of(node)
    if products.bf16_dot and not (ctx.target.has_bf16_dot and can_bf16_dot(node, ctx.target)):
        return None
    dtype = f32 if products.bf16_dot else node.operand(0).known_dtype
    if dtype not in (f32, f64):
        return None
    out = products.result(node)
    if not equals(out.column, 1) and not equals(products.width, 1):
        return None
    if 0 in (*products.batch, products.queries, products.width):
        return []
    if 0 in (products.keys, products.depth):
        return None
    epilogue, calls = epilogue_operands(node, ctx, products.scores)
    k, k_calls = packed_rows(node, ctx, products, "k")
    v, v_calls = packed_rows(node, ctx, products, "v")
    calls += k_calls + v_calls
    products = replace(products, k=k, v=v)
    sink = sink_operand(node, products.scores)
    return [*calls, _attention_call(node, products, dtype, out, epilogue, ctx, sink=sink)]


def lower_packed_attention(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None for dtypes other than f32 and f64, and for results whose rows are not contiguous."""
    products = Products.of(node)
    dtype = node.operand(0).known_dtype
    out = products.result(node)
    offsets = node.operand(3)
    if dtype not in (f32, f64) or not equals(out.column, 1) or offsets.dtype != i64:
        return None
    if 0 in (*products.batch, products.queries, products.depth, products.width):
        return None
    texts = _Texts(offsets, offsets.static_shape[0] - 1, node.attrs["longest"])
    return [_attention_call(node, products, dtype, out, (), ctx, texts)]


def _attention_call(
    node: Node,
    products: Products,
    dtype: DType,
    out: Operand,
    epilogue: Sequence[Operand],
    ctx: LowerContext,
    texts: _Texts | None = None,
    sink: Operand | None = None,
) -> Call:
    q, k, v, batch = products.q, products.k, products.v, products.batch
    queries, depth, width = products.queries, products.depth, products.width
    lanes = ctx.target.lanes(dtype)
    cache = ctx.target.l2 // dtype.size
    longest, keys = (queries, products.keys) if texts is None else (texts.longest, texts.longest)
    hides = can_hide(node.attrs.get("epilogue"))
    registers, packed = ctx.target.registers, texts is not None
    tiles = choose_tiles(longest, keys, depth, width, lanes, registers, cache, any_number=packed, fewer_keys=hides)
    block = tiles.vectors * lanes
    blocks = ceil_div(longest, block)
    if texts is not None:
        batch = (texts.count, *batch)
    units = elements(batch) * blocks
    unit_ns = _block_ns(products, dtype, ceil_div(longest, lanes) * keys / blocks, ctx.machine)
    chunks, per_chunk = ctx.partition(units, unit_ns)
    args = AttentionArgs(
        queries=queries,
        keys=keys,
        depth=depth,
        width=width,
        key_blocks=tiles.keys.blocks,
        large_key_blocks=tiles.keys.large_blocks,
        width_blocks=tiles.width.blocks,
        large_width_blocks=tiles.width.large_blocks,
        query_blocks=blocks,
        units=units,
        units_per_chunk=per_chunk,
        q_row=q.row,
        q_depth=q.column,
        k_row=k.row,
        k_depth=k.column,
        v_row=v.row,
        v_column=v.column,
        out_row=out.row,
        epilogue_rows=tuple(operand.column for operand in epilogue),
        sizes=batch,
        q_batch=_batch_steps(q, len(batch)),
        k_batch=_batch_steps(k, len(batch)),
        v_batch=_batch_steps(v, len(batch)),
        out_batch=_batch_steps(out, len(batch)),
        epilogue_batch=tuple(_batch_steps(operand, len(batch)) for operand in epilogue),
        sink_batch=() if sink is None else _batch_steps(sink, len(batch)),
    )
    scratch = (1 + depth + keys + width) * block + (keys // 2 * width if products.bf16_dot else 0)
    spec = _spec(node, products, dtype, tiles, epilogue, lanes, hides=hides)
    operands = tuple(operand.value for operand in (q, k, v, *epilogue, *([] if sink is None else [sink])))
    if spec.single_query != "never":
        panel, together = KEY_VECTORS * lanes, batch[-1] if spec.shared_keys else 1
        scratch = maximum(scratch, depth * panel + together * ceil_div(keys, panel) * panel)
    whole_ns = units * unit_ns
    if texts is not None:  # most blocks of short texts are empty
        spec, operands = _packed_spec(spec, products), (*operands, texts.offsets)
        whole_ns = elements(products.batch) * _block_ns(products, dtype, ceil_div(queries, lanes) * keys, ctx.machine)
    return ctx.call(
        node,
        spec,
        (node.output,),
        operands,
        args=args,
        chunks=chunks,
        flops=2.0 * elements((*products.batch, queries, keys)) * ((2 * depth if products.bf16_dot else depth) + width),
        cost=ctx.machine.call_ns + whole_ns,
        scratch=scratch * dtype.size,
    )


def _spec(
    node: Node,
    products: Products,
    dtype: DType,
    tiles: Tiles,
    epilogue: Sequence[Operand],
    lanes: int,
    *,
    hides: bool,
) -> AttentionSpec:
    queries, depth = products.queries, products.depth
    whole_queries = divides(lanes, queries)
    single = _single_query(products)
    return AttentionSpec(
        dtype=dtype,
        bf16_dot=products.bf16_dot,
        vectors=tiles.vectors,
        edge=_edge(queries, tiles.vectors, lanes),
        open_queries=is_expression(queries),
        single_query=single,
        shared_keys=single != "never" and "repeats" in node.attrs,
        ragged=not whole_queries,
        key_rows=tiles.keys.heights,
        open_keys=hides or is_expression(products.keys),
        hides=hides,
        width_rows=tiles.width.heights,
        q_source=_source(products.q, whole=whole_queries and divides(lanes, depth)),
        k_source=_source(products.k, whole=False) if single != "never" else "",
        whole_tiles=whole_queries and divides(lanes, products.width),
        unit_depth=equals(products.k.column, 1),
        unit_column=equals(products.v.column, 1),
        whole_depth=divides(UNROLL, depth),
        whole_keys=not hides and divides(UNROLL, products.keys // 2 if products.bf16_dot else products.keys),
        batch_rank=len(products.batch),
        safe=bool(node.attrs.get("safe")),
        packed=False,
        sink=bool(node.attrs.get("sink")),
        epilogue=node.attrs.get("epilogue"),
        kinds=tuple(_kind(operand) for operand in epilogue),
    )


def _packed_spec(spec: AttentionSpec, products: Products) -> AttentionSpec:
    """`spec` for texts of any number of rows."""
    return replace(
        spec,
        packed=True,
        single_query="never",
        shared_keys=False,
        edge=spec.vectors,
        open_queries=True,
        ragged=True,
        open_keys=True,
        q_source=_source(products.q, whole=False),
        k_source="",
        whole_tiles=False,
        whole_keys=False,
        batch_rank=spec.batch_rank + 1,
    )


def _single_query(products: Products) -> str:
    """Whether there is one query, whose result can be computed by columns; not where queries are their own keys."""
    queries = products.queries
    if products.bf16_dot or not equals(products.v.column, 1) or equals(queries, products.keys):
        return "never"
    if is_expression(queries):
        return "sometimes"
    return "always" if queries == 1 else "never"


def _edge(queries: int, vectors: int, lanes: int) -> int:
    """The most vectors that a last block of fewer than `vectors` full ones may have; 0 if there is no such block."""
    width = vectors * lanes
    if is_expression(queries):
        return 0 if divides(width, queries) else vectors
    return ceil_div(queries % width, lanes)


def _block_ns(products: Products, dtype: DType, vectors: float, machine: MachineModel) -> float:
    """Estimated time of one block of queries, which has `vectors` vectors of scores."""
    width = products.width / 2 if products.bf16_dot else products.width
    return machine.fma_ns / _EFFICIENCY * vectors * (products.depth + width + _POWER_WORK * dtype.size / 4)


def _batch_steps(operand: Operand, rank: int) -> tuple[int, ...]:
    """The operand's strides along `rank` batch dimensions; 0 for leading ones that it lacks."""
    return (0,) * (rank - len(operand.batch)) + operand.batch


def _source(rows: Operand, *, whole: bool) -> str:
    """How the kernel copies queries or keys into scratch; `whole` if they fall into tiles of lanes by lanes."""
    if equals(rows.column, 1):
        return "column_tiles" if whole else "columns"
    return "rows" if equals(rows.row, 1) else "strided"


def _kind(operand: Operand) -> str:
    """The kind of an operand of the epilogue, whose rows are keys in the kernel and whose columns are queries."""
    repeats = equals(operand.row, 0)
    if equals(operand.column, 0):
        return "scalar" if repeats else "column"
    return "row" if repeats else "full"
