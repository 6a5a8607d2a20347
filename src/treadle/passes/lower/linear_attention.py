"""Lowering of linear_attention."""

from __future__ import annotations

from treadle.dtypes import f32
from treadle.graph.dim import ceil_div, equals, maximum, minimum
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.linear_attention import MOST_VECTORS, LinearAttentionArgs, LinearAttentionSpec

_EFFICIENCY = 0.3
"""The part of the multiply-adds of a core that the kernel reaches: it loads and stores a state for each token."""


def lower_linear_attention(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel."""
    q, k, v, *others = node.inputs
    state, factor, rate = (*others, None, None, None)[:3]
    reads = [value for value in (q, k, v, state, factor, rate) if value is not None]
    if not is_movable(*reads, *node.outputs):
        return None
    heads, shared = node.attrs["heads"], node.attrs["shared"]
    _, last = node.outputs
    batch, _, key, value = last.static_shape
    tokens, lanes = node.operand(0).static_shape[1], ctx.target.lanes(f32)
    vectors = maximum(minimum(ceil_div(value, lanes), MOST_VECTORS), 1)
    blocks = maximum(ceil_div(value, vectors * lanes), 1)
    units = batch * shared * blocks
    readers, sharers = max(heads // shared, 1), max(shared // heads, 1)
    products = readers + 1 + (factor is not None) + (rate is not None)
    flops = 2.0 * products * tokens * key * vectors * lanes
    unit_ns = flops / (lanes * ctx.machine.flops_per_lane_ns * _EFFICIENCY)
    chunks, per_chunk = ctx.partition(units, unit_ns)
    return [
        ctx.call(
            node,
            LinearAttentionSpec(
                vectors=vectors,
                has_state=state is not None,
                factors="none" if factor is None else "head" if equals(factor.static_shape[2], shared) else "key",
                has_rates=rate is not None,
            ),
            tuple(node.outputs),
            tuple(reads),
            args=LinearAttentionArgs(
                units=units,
                units_per_chunk=per_chunk,
                tokens=tokens,
                shared=shared,
                readers=readers,
                sharers=sharers,
                key=key,
                value=value,
                blocks=blocks,
                rate_heads=1 if rate is None else rate.static_shape[2],
            ),
            chunks=chunks,
            flops=units * flops,
            cost=ctx.machine.call_ns + units * unit_ns,
            scratch=key * vectors * lanes * f32.size,
        )
    ]
