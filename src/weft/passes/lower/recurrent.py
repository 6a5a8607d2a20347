"""lstm, gru and rnn: blocks of the batch's rows go through time alone, with weights packed by tiles of hidden units."""

from __future__ import annotations

import numpy as np

from weft.dtypes import f32, f64
from weft.graph.node import Node
from weft.graph.value import Value
from weft.passes.lower.base import CALL_NS, LowerContext, cut
from weft.passes.lower.gemm_tiles import cut_rows
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec

_UNROLL = 4
_FLOPS_PER_LANE_NS = 4.0
_L2_BYTES_PER_NS = 40.0
"""How fast weights that are read again at each time come from the cache."""

_GATE_NS = 12.0
"""Time of the exponentials of one vector of one gate."""


def lower_lstm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    return _lower(node, ctx, "lstm", ((0, 1, 2, 3),), state=2, cell_state=3, lengths=4, peepholes=5)


def lower_gru(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    if node.attrs["reset_after"]:
        return _lower(node, ctx, "gru_reset_after", ((0, 1, 2),), state=2, bias=3, lengths=4)
    return _lower(node, ctx, "gru_reset_before", ((0, 1), (2,)), state=2, bias=3, lengths=4)


def lower_rnn(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    return _lower(node, ctx, f"rnn_{node.attrs['activation']}", ((0,),), state=2, lengths=3)


def _lower(
    node: Node,
    ctx: LowerContext,
    cell: str,
    phases: tuple[tuple[int, ...], ...],
    *,
    state: int,
    lengths: int,
    cell_state: int | None = None,
    bias: int | None = None,
    peepholes: int | None = None,
) -> list[Call] | None:
    """`phases`: the gates that are summed in one pass; the other numbers are those of optional operands."""
    x, r = node.operand(0), node.operand(1)
    dtype = x.known_dtype
    given = [
        None if index is None else _optional(node, index) for index in (bias, state, cell_state, lengths, peepholes)
    ]
    if dtype not in (f32, f64) or not r.is_constant:
        return None
    time, batch, directions, _ = x.static_shape
    hidden = r.static_shape[2]
    if 0 in (batch, directions, hidden):
        return []
    lanes, gates = ctx.target.lanes(dtype), sum(map(len, phases))
    widest = max(map(len, phases))
    vectors = max(2 if batch == 1 and hidden > lanes else 1, _UNROLL // lanes)
    rows = cut_rows(batch, max(1, (ctx.target.registers - widest * vectors - 2) // (widest * vectors)), vectors)
    width = vectors * lanes
    tiles, depth = -(-hidden // width), -(-hidden // _UNROLL) * _UNROLL
    weights = _packed(ctx, r, phases, tiles, width, depth)
    spec = KernelSpec.of(
        "recurrent",
        cell=cell,
        dtype=dtype,
        rows=rows.heights,
        vectors=vectors,
        ragged=hidden % width != 0,
        bias=given[0] is not None,
        first_state=given[1] is not None,
        first_cell=given[2] is not None,
        lengths=None if given[3] is None else given[3].known_dtype,
        peepholes=given[4] is not None,
    )
    units = directions * rows.blocks
    flops = 2.0 * rows.heights[0] * gates * hidden * hidden
    moved = gates * hidden * hidden * dtype.size / _L2_BYTES_PER_NS
    unit_ns = time * (
        max(flops / (lanes * _FLOPS_PER_LANE_NS), moved) + rows.heights[0] * tiles * vectors * gates * _GATE_NS
    )
    chunks, per_chunk = cut(units, unit_ns)
    backwards = sum(1 << direction for direction, reverse in enumerate(node.attrs["reverse"]) if reverse)
    args = (time, batch, directions, hidden, tiles, depth, rows.blocks, rows.large_blocks, units, per_chunk, backwards)
    reads = (x, weights, *(value for value in given if value is not None))
    call = ctx.call(
        node,
        spec,
        tuple(node.outputs),
        reads,
        args=args,
        chunks=chunks,
        flops=2.0 * time * batch * directions * gates * hidden * hidden,
        cost=CALL_NS + units * unit_ns,
        scratch=4 * rows.heights[0] * tiles * width * dtype.size,
    )
    return [call]


def _optional(node: Node, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _packed(
    ctx: LowerContext, r: Value, phases: tuple[tuple[int, ...], ...], tiles: int, width: int, depth: int
) -> Value:
    """r [directions, gates * hidden, hidden] as, for each phase, [directions, tiles, depth, gates, width]."""
    how = f"recurrent {phases} {tiles} {width} {depth}"
    found = ctx.packed(r, how)
    if found is not None:
        return found
    assert r.data is not None, "only constants are packed at compile time"
    directions, _, hidden = r.static_shape
    gates = sum(map(len, phases))
    room = np.zeros((directions, gates, tiles * width, depth), r.data.dtype)
    room[:, :, :hidden, :hidden] = r.data.reshape(directions, gates, hidden, hidden)
    tiled = room.reshape(directions, gates, tiles, width, depth).transpose(0, 2, 4, 1, 3)
    parts = [np.ascontiguousarray(tiled[:, :, :, list(phase)]).reshape(-1) for phase in phases]
    return ctx.remember_packed(r, how, ctx.constant(np.concatenate(parts), f"{r.name}.tiles"))
