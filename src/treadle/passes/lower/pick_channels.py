"""pick_channels: one kernel that reads and writes blocks of channels."""

from __future__ import annotations

from treadle.dtypes import f32, f64
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import BYTES_PER_NS, LowerContext, cut, nbytes
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec

Picks = tuple[tuple[int, int], ...]

_MOST_READS = 256
"""Vectors that a place may take to be read and joined: code grows with them."""


def can_pick(picks: Picks, block: int) -> bool:
    """Whether a kernel is to make a tensor of `picks` in blocks of so many channels."""
    return 0 < reads(picks, block) <= _MOST_READS


def reads(picks: Picks, block: int) -> int:
    """Blocks that are read for a place, once for each block of the result that has channels of them."""
    return len({(number // block, operand, channel // block) for number, (operand, channel) in enumerate(picks)})


def lower_pick_channels(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None unless all operands and the result are in the same blocks of f32 or f64."""
    out, picks = node.output, node.attrs["picks"]
    operands = [node.operand(number) for number in range(len(node.inputs))]
    layout = out.layout
    if not isinstance(layout, Blocked) or out.dtype not in (f32, f64) or any(x.layout != layout for x in operands):
        return None
    places = elements(out.static_shape[2:])
    units = out.static_shape[0] * places
    if not units or not can_pick(picks, layout.block):
        return None
    traffic = nbytes(out) + units * reads(picks, layout.block) * layout.block * out.known_dtype.size
    chunks, per_chunk = cut(units, traffic / BYTES_PER_NS / units)
    spec = KernelSpec.of("pick_channels", dtype=out.known_dtype, lanes=layout.block, picks=picks)
    blocks = tuple(-(-x.static_shape[1] // layout.block) for x in operands)
    return [ctx.call(node, spec, (out,), tuple(operands), args=(units, per_chunk, places, *blocks), chunks=chunks)]
