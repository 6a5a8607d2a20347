"""Convolutions of open sizes that are computed in several ways: binding takes the one that costs the least."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dtypes import bf16, f32
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.direct.lower import lower_direct
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.winograd.lower import winograd_calls
from treadle.passes.lower.conv.winograd.tiling import Tiling
from treadle.passes.lower.conv.winograd.variants import variant_cost
from treadle.passes.lower.variants import Way, cheapest
from treadle.plan.call import Call


def lower_variants(
    node: Node, shape: ConvShape, tilings: Sequence[Tiling | None], ctx: LowerContext
) -> list[Call] | None:
    """Returns the calls of all ways that can read the node's operands, None of `tilings` being direct convolution.

    Binding takes one of them; the calls of the others do nothing. None if there is no way.
    """
    found: list[tuple[Tiling | None, list[Call]]] = []
    for tiling in tilings:
        calls = lower_direct(node, shape, ctx) if tiling is None else winograd_calls(node, shape, tiling, ctx)
        if calls:
            found.append((tiling, calls))
    if len(found) < 2:
        return found[0][1] if found else None
    flops = 2.0 * ctx.target.lanes(f32)
    of_bf16, streamed = node.operand(0).dtype == bf16, ctx.streamed_weights
    ways = []
    for tiling, calls in found:
        cost = variant_cost(tiling, shape, ctx.target, streamed=streamed, bf16_dot=of_bf16)
        ways.append(Way(_name(tiling), calls, ctx.flops_ns(cost * flops, 0.0, 1.0)))
    return cheapest(ways)


def _name(tiling: Tiling | None) -> str:
    """Returns the name of a way in listings of plans."""
    if tiling is None:
        return "direct"
    by = "fused" if tiling.fused else "sections" if tiling.section_blocks else "two kernels"
    return f"winograd {tiling.side[0]}x{tiling.side[1]}, {by}"
