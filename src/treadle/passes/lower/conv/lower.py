"""Convolution: which algorithm computes a node, and the calls for it."""

from __future__ import annotations

from treadle.dtypes import bf16, f32, f64, i8
from treadle.graph.dim import equals
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.knobs import is_enabled
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.depthwise.lower import lower_depthwise
from treadle.passes.lower.conv.depthwise.tiling import depthwise_tiling
from treadle.passes.lower.conv.direct.lower import lower_direct
from treadle.passes.lower.conv.direct.pooled import lower_pooled
from treadle.passes.lower.conv.epilogue import bias_of, has_readable_epilogue
from treadle.passes.lower.conv.few_outputs.lower import lower_few_outputs
from treadle.passes.lower.conv.open_rows import row_tiling
from treadle.passes.lower.conv.plain.lower import lower_plain
from treadle.passes.lower.conv.rows import MAX_SEGMENTS
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.variants import lower_variants
from treadle.passes.lower.conv.winograd.lower import permitted_tilings, tilings_of
from treadle.passes.lower.registers import sum_registers
from treadle.plan.call import Call
from treadle.plan.target import Target

_LEAST_CHANNELS = 8
"""A kernel reads a row-major bf16 input of fewer channels as it is."""

_EXACT_TAPS = (1 << 24) // (255 * 128)
"""The most products of bytes whose sum f32 represents exactly; kernels of narrow groups add them in f32."""


def lower_conv(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns calls for 1-D and 2-D convolutions in fp32 and fp64, of bf16 and of bytes; None for the others.

    The layout of the output, which choose_layouts set, decides: blocked kernels write blocked values.
    """
    if node.operand(1).dtype not in (f32, f64, i8):
        return None
    shape = ConvShape.of(node)
    if shape is None:
        return None
    of_bytes = node.operand(1).dtype == i8
    if node.output.layout is None:
        return None if of_bytes else lower_few_outputs(node, shape, ctx) or lower_plain(node, shape, ctx)
    if _is_narrow(shape, node.output.layout.block):
        return lower_depthwise(node, shape, ctx)
    tilings = (None,) if of_bytes or node.attrs.get("exact") else tilings_of(node, shape, ctx)
    fast = None if tilings == (None,) else lower_variants(node, shape, tilings, ctx)
    if fast is not None:
        return fast
    return _direct_or_pooled(node, shape, ctx)


def _direct_or_pooled(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns the calls of direct convolution, whose last one computes a max pooling of its result if that gains."""
    direct = lower_direct(node, shape, ctx)
    if direct is None:
        return None
    *widening, conv = direct
    return [*widening, *(lower_pooled(node, shape, conv, ctx) or [conv])]


def blocked_output(node: Node, target: Target) -> Blocked | None:
    """Returns the blocked layout in which a kernel can write the result of the `conv` node; None if only row-major."""
    weights = node.operand(1)
    bias = bias_of(node)
    shape = ConvShape.of(node)
    if shape is None or weights.dtype not in (f32, f64, i8) or weights.data is None or not has_readable_epilogue(node):
        return None
    if bias is not None and bias.data is None:
        return None
    of_bytes = weights.dtype == i8
    lanes = target.lanes(f32 if of_bytes else weights.known_dtype)
    return Blocked(lanes) if _has_blocks(shape, lanes, target, vnni=of_bytes) else None


def _has_blocks(shape: ConvShape, lanes: int, target: Target, *, vnni: bool) -> bool:
    """Whether a kernel writes blocks of `lanes` channels, and its code does not become huge."""
    if _is_narrow(shape, lanes):
        if not is_enabled("depthwise") or shape.group_channels != shape.group_outputs or lanes % shape.group_channels:
            return False
        row = depthwise_tiling(shape, target.registers)
        return row is not None and (row.checked or len(row.segments) <= MAX_SEGMENTS)
    if shape.groups > 1 and (shape.group_channels % lanes or shape.group_outputs % lanes):
        return False
    row = row_tiling(shape, lanes, sum_registers(target, vnni=vnni), runs=not vnni)
    return row is not None and (row.checked or len(row.segments) <= MAX_SEGMENTS)


def reads_plain(node: Node, layout: Blocked) -> bool:
    """Whether the kernel that writes `layout` reads a row-major input as well as a blocked one.

    It does for few channels, and for images of one pixel, whose channels are neighbours.
    """
    shape = ConvShape.of(node)
    if shape is None or shape.groups > 1:
        return False
    if node.operand(0).dtype in BYTES:
        return False
    if node.operand(0).dtype == bf16:
        return shape.channels < _LEAST_CHANNELS
    return shape.channels <= layout.block or all(equals(size, 1) for size in shape.size)


def takes_bf16(node: Node, target: Target, *, blocked: bool) -> bool:
    """Whether the kernel of a `conv` node with blocked output reads an x of bf16, which is `blocked` or row-major.

    It uses bf16 dot products of two channels or two columns, or f32 where groups are narrow.
    """
    shape = ConvShape.of(node)
    if shape is None or node.operand(1).dtype != f32:
        return False
    if blocked or shape.channels >= _LEAST_CHANNELS:
        return _is_narrow(shape, target.lanes(f32)) or shape.group_channels % 2 == 0
    return shape.groups == 1 and shape.kernel[1] > 1 and shape.dilations[1] == 1


def prefers_winograd(node: Node, target: Target, math: str, *, streamed: bool, batch_invariant: bool) -> bool:
    """Whether a `conv` node of f32 is faster by Winograd's algorithm than with bf16 dot products; mostly, if open.

    `streamed`: no cache holds the model's weights from one run to the next. `batch_invariant` is as in PassContext.
    """
    shape = ConvShape.of(node) if node.op == "conv" and not node.attrs.get("exact") else None
    if shape is None:
        return False
    ways = permitted_tilings(shape, target, math, 1, streamed=streamed, bf16_dot=True, batch_invariant=batch_invariant)
    return ways != (None,)


def takes_bytes(node: Node, target: Target) -> bool:
    """Whether a kernel multiplies the 8-bit factors of a `conv` node without widening them first."""
    shape = ConvShape.of(node)
    if not is_enabled("vnni") or shape is None or node.operand(1).dtype != i8 or bias_of(node) is not None:
        return False
    if _is_narrow(shape, target.lanes(f32)) and shape.group_channels * elements(shape.kernel) > _EXACT_TAPS:
        return False
    return blocked_output(node, target) is not None


def _is_narrow(shape: ConvShape, lanes: int) -> bool:
    """Whether several groups share a block of channels."""
    return shape.groups > 1 and shape.group_channels < lanes
