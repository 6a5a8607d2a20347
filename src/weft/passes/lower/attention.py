"""attention: chunks of blocks of query rows, each block's scores in scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.dtypes import bf16, f32, f64
from weft.graph.node import Node
from weft.graph.shape import StaticShape, broadcast, elements, strides_of
from weft.graph.value import Value
from weft.passes.lower.base import CALL_NS, LowerContext, cut
from weft.passes.lower.copy import copy_call, dense_target
from weft.passes.lower.gemm_tiles import MAX_ROWS, Tile, cut_rows, panel_cost
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec
from weft.plan.target import Target

_UNROLL = 4
_FLOPS_PER_LANE_NS = 6.0
_MOST_VECTORS = 2
"""Wider blocks were measured to be no faster; narrow ones leave more of them to share out."""
_POWER_NS = 5.0
"""Time of the softmax of one vector of scores."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A value seen as a batch of matrices: strides in elements; 0 along what it is broadcast over."""

    value: Value
    batch: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Query blocks of `vectors` vectors, and the register blocks of both products."""

    vectors: int
    keys: Tile
    width: Tile


def lower_attention(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call, and one to transpose a mask that is no constant; None for dtypes other than f32 and f64, and for bf16
    that does not lie in pairs."""
    pairs = node.operand(0).dtype == bf16
    if pairs and not (ctx.target.has_bf16_products and can_pair(node, ctx.target)):
        return None
    dtype = f32 if pairs else node.operand(0).known_dtype
    if dtype not in (f32, f64):
        return None
    (q, q_shape), (k, k_shape), (v, v_shape) = (_factor(node, number, name) for number, name in enumerate("qkv"))
    if pairs:
        (q, q_shape), (k, k_shape) = (_in_pairs(*factor) for factor in ((q, q_shape), (k, k_shape)))
    queries, depth, keys, width = q_shape[-2], q_shape[-1], k_shape[-2], v_shape[-1]
    batch = broadcast(broadcast(q_shape[:-2], k_shape[:-2]), v_shape[:-2])
    perm = node.attrs.get("out_perm") or tuple(range(len(batch) + 2))
    steps = strides_of(node.output.static_shape)
    out_steps = [steps[perm.index(axis)] for axis in range(len(perm))]
    out = _Operand(node.output, tuple(out_steps[:-2]), out_steps[-2], out_steps[-1])
    if out.column != 1 and width > 1:
        return None
    if 0 in (*batch, queries, width):
        return []
    if 0 in (keys, depth):
        return None
    calls: list[Call] = []
    tail = [
        _mask(node, ctx, node.operand(number), (*batch, queries, keys), calls) for number in range(3, len(node.inputs))
    ]
    lanes = ctx.target.lanes(dtype)
    tiles = choose_tiles(queries, keys, depth, width, lanes, ctx.target.registers, ctx.target.l2 // dtype.size)
    block = tiles.vectors * lanes
    spec = KernelSpec.of(
        "attention",
        dtype=dtype,
        pairs=pairs,
        vectors=tiles.vectors,
        edge=-(-(queries % block) // lanes),
        ragged=queries % lanes != 0,
        key_rows=tiles.keys.heights,
        width_rows=tiles.width.heights,
        q_source=_source(q, whole=queries % lanes == 0 and depth % lanes == 0),
        whole_tiles=queries % lanes == 0 and width % lanes == 0,
        unit_depth=k.column == 1,
        unit_column=v.column == 1,
        whole_depth=depth % _UNROLL == 0,
        whole_keys=(keys // 2 if pairs else keys) % _UNROLL == 0,
        batch_rank=len(batch),
        tail=node.attrs.get("tail"),
        kinds=tuple(_kind(operand) for operand in tail),
    )
    blocks = -(-queries // block)
    units = elements(batch) * blocks
    padded = -(-queries // lanes) * keys / blocks
    unit_ns = padded * (
        2.0 * (depth + (width / 2 if pairs else width)) / _FLOPS_PER_LANE_NS + _POWER_NS * dtype.size / 4
    )
    chunks, per_chunk = cut(units, unit_ns)
    every = (q, k, v, out, *tail)
    args = (
        *(queries, keys, depth, width),
        *(tiles.keys.blocks, tiles.keys.large_blocks, tiles.width.blocks, tiles.width.large_blocks),
        *(blocks, units, per_chunk),
        *(q.row, q.column, k.row, k.column, v.row, v.column, out.row),
        *(operand.column for operand in tail),
        *batch,
        *(step for operand in every for step in (0,) * (len(batch) - len(operand.batch)) + operand.batch),
    )
    call = ctx.call(
        node,
        spec,
        (node.output,),
        tuple(operand.value for operand in (q, k, v, *tail)),
        args=args,
        chunks=chunks,
        flops=2.0 * elements(batch) * queries * keys * ((2 * depth if pairs else depth) + width),
        cost=CALL_NS + units * unit_ns,
        scratch=((depth + keys + width) * block + (keys // 2 * width if pairs else 0)) * dtype.size,
    )
    return [*calls, call]


def can_pair(node: Node, target: Target) -> bool:
    """Whether q, k and v, stored as bf16, lie as the kernel multiplies them in pairs."""
    (q, shape), (k, _), (v, values) = (_factor(node, number, name) for number, name in enumerate("qkv"))
    steps = (shape[-1], values[-2], *(step for each in (q, k) for step in (each.row, *each.batch)))
    contiguous = q.column == k.column == v.column == 1 and values[-1] % target.lanes(f32) == 0
    return contiguous and 0 not in shape and all(step % 2 == 0 for step in steps)


def _in_pairs(operand: _Operand, shape: StaticShape) -> tuple[_Operand, StaticShape]:
    """The same, pairs along the depth taken for elements."""
    batch = tuple(step // 2 for step in operand.batch)
    return replace(operand, batch=batch, row=operand.row // 2), (*shape[:-1], shape[-1] // 2)


def choose_tiles(queries: int, keys: int, depth: int, width: int, lanes: int, registers: int, cache: int) -> _Tiles:
    """The blocks that need the least time; one vector of queries where more would not fit half of `cache` elements."""
    best: tuple[float, _Tiles] | None = None
    total = -(-queries // lanes)
    for vectors in range(1, min(_MOST_VECTORS, total) + 1):
        if vectors > 1 and (depth + keys + width) * vectors * lanes * 2 > cache:
            break
        most = min(MAX_ROWS, (registers - vectors - 1) // vectors)
        if most < 1:
            break
        tiles = _Tiles(vectors, cut_rows(keys, most, vectors), cut_rows(width, most, vectors))
        full, rest = divmod(total, vectors)
        cost = full * _block_cost(tiles, vectors, depth, keys) + (_block_cost(tiles, rest, depth, keys) if rest else 0)
        if best is None or cost < best[0] * 0.995:
            best = (cost, tiles)
    assert best is not None, "one vector always fits"
    return best[1]


def _block_cost(tiles: _Tiles, vectors: int, depth: int, keys: int) -> float:
    return panel_cost(tiles.keys, vectors, depth) + panel_cost(tiles.width, vectors, keys)


def _factor(node: Node, number: int, name: str) -> tuple[_Operand, StaticShape]:
    """Operand `number` and the shape in which it is multiplied."""
    value = node.operand(number)
    shape = value.static_shape
    perm = node.attrs.get(f"{name}_perm") or tuple(range(len(shape)))
    steps = strides_of(shape)
    shape, strides = tuple(shape[axis] for axis in perm), tuple(steps[axis] for axis in perm)
    batch = tuple(0 if size == 1 else step for size, step in zip(shape[:-2], strides[:-2], strict=True))
    return _Operand(value, batch, strides[-2], strides[-1] if shape[-1] != 1 else 1), shape


def _mask(node: Node, ctx: LowerContext, value: Value, scores: StaticShape, calls: list[Call]) -> _Operand:
    """A tail operand, transposed first if it varies along both queries and keys."""
    shape = (1,) * (len(scores) - len(value.static_shape)) + value.static_shape
    queries, keys = shape[-2:]
    if queries > 1 and keys > 1:
        swapped = (*shape[:-2], keys, queries)
        if value.data is not None:
            turned = ctx.packed(value, "transposed")
            if turned is None:
                data = np.ascontiguousarray(value.data.reshape(shape).swapaxes(-1, -2))
                turned = ctx.remember_packed(value, "transposed", ctx.constant(data, f"{value.name}.transposed"))
        else:
            turned = ctx.temporary(f"{node.output.name}.{value.name}.transposed", value.known_dtype, swapped)
            steps = strides_of(shape)
            axes = dense_target(swapped, (*steps[:-2], steps[-1], steps[-2]))
            calls.append(copy_call(node, ctx, turned, value, axes))
        steps = strides_of(swapped)
        value, row, column = turned, 1, queries
    else:
        steps = strides_of(shape)
        row, column = (int(queries > 1), int(keys > 1))
    batch = tuple(0 if size == 1 else step for size, step in zip(shape[:-2], steps[:-2], strict=True))
    return _Operand(value, batch, row, column)


def _source(q: _Operand, *, whole: bool) -> str:
    """How the kernel copies queries into scratch; `whole` if they fall into tiles of lanes by lanes."""
    if q.column == 1:
        return "column_tiles" if whole else "columns"
    return "rows" if q.row == 1 else "strided"


def _kind(operand: _Operand) -> str:
    """How the kernel reads a tail operand, whose rows are keys there and whose columns queries."""
    if operand.column:
        return "full" if operand.row else "row"
    return "column" if operand.row else "scalar"
