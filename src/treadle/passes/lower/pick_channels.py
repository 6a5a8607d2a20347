"""pick_channels: channels of blocked values are joined into blocks."""

from __future__ import annotations

from treadle.dtypes import f32, f64
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.pick_channels import PickChannelsArgs, PickChannelsSpec, Picks

_MOST_READS = 256
"""The most vectors that are read and joined for one pixel: code grows with their number."""


def can_pick(picks: Picks, block: int) -> bool:
    """Whether a kernel should join a tensor of `picks` in blocks of `block` channels."""
    return 0 < reads(picks, block) <= _MOST_READS


def reads(picks: Picks, block: int) -> int:
    """Returns the blocks that are read for one pixel; a block counts once for each block of the result that uses it."""
    return len({(number // block, operand, channel // block) for number, (operand, channel) in enumerate(picks)})


def lower_pick_channels(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call; None unless all operands and the result are in the same blocks of f32 or f64."""
    out, picks = node.output, node.attrs["picks"]
    operands = [node.operand(number) for number in range(len(node.inputs))]
    layout = out.layout
    if not isinstance(layout, Blocked) or out.dtype not in (f32, f64) or any(x.layout != layout for x in operands):
        return None
    pixels = elements(out.static_shape[2:])
    units = out.static_shape[0] * pixels
    if not units or not can_pick(picks, layout.block):
        return None
    traffic = nbytes(out) + units * reads(picks, layout.block) * layout.block * out.known_dtype.size
    chunks, per_chunk = ctx.partition(units, ctx.moved_ns(traffic) / units)
    spec = PickChannelsSpec(dtype=out.known_dtype, lanes=layout.block, picks=picks, operands=len(operands))
    blocks = tuple(-(-x.static_shape[1] // layout.block) for x in operands)
    args = PickChannelsArgs(units=units, units_per_chunk=per_chunk, pixels=pixels, blocks=blocks)
    return [ctx.call(node, spec, (out,), tuple(operands), args=args, chunks=chunks)]
