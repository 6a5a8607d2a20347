"""What the kernel of direct convolution reads besides the input: packed weights, the first sums, padding, the epilogue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.bf16_dot import pack_bf16
from treadle.passes.lower.conv_blocked_cut import Cut
from treadle.passes.lower.conv_blocked_factors import Factors
from treadle.passes.lower.conv_epilogue import EpilogueOperands, epilogue_operands, zeros
from treadle.passes.lower.conv_pack import pack_direct, pack_plain_input
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.vnni import pack_bytes


@dataclass(frozen=True, slots=True)
class Operands:
    """`bias`: what sums begin with, None for zeros. `padding`: what lies outside the input, None where that counts as 0."""

    weights: Value
    bias: Value | None
    padding: Value | None
    epilogue: EpilogueOperands

    @property
    def values(self) -> tuple[Value, ...]:
        """All of them in the order of the kernel's pointers."""
        given = (self.weights, self.bias, self.padding)
        return tuple(value for value in given if value is not None) + self.epilogue.values


def direct_operands(node: Node, shape: ConvShape, factors: Factors, cut: Cut, ctx: LowerContext) -> Operands | None:
    """The operands of `node`, cut as `cut` says. None if the kernel cannot read the bias or an operand of the epilogue."""
    epilogue = epilogue_operands(node, ctx, cut.outputs)
    if epilogue is None:
        return None
    bias, padding = epilogue.bias, None
    if cut.has_passes and bias is None:
        bias = zeros(node.output, ctx, cut.outputs)
    if factors.offset:
        bias = _less_offset(factors, bias, cut.outputs, ctx)
        if _leaves_input(shape, cut):
            padding = _padding(shape, factors, cut, ctx)
    return Operands(_packed(shape, factors, cut.panel, ctx), bias, padding, epilogue)


def _less_offset(factors: Factors, bias: Value | None, padded: int, ctx: LowerContext) -> Value:
    """`bias` less the offset times the weights of each output: sums begin there so that the offset counts as 0."""
    weights = factors.weights
    assert weights.data is not None, "weights are constant"
    start = np.zeros(padded, np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    sums = weights.data.reshape(weights.data.shape[0], -1).sum(axis=1, dtype=np.int64)
    start[: sums.size] -= factors.offset * sums
    return ctx.constant(start.astype(np.int32), f"{weights.name}.start")


def _leaves_input(shape: ConvShape, cut: Cut) -> bool:
    """Whether some register block reads outside of the input."""
    inside = (0, shape.kernel[1])
    columns = (pixel for segment in cut.tile.segments for pixel in segment)
    return not cut.tile.flat and (shape.rows_leave_input or any(pixel != inside for pixel in columns))


def _padding(shape: ConvShape, factors: Factors, cut: Cut, ctx: LowerContext) -> Value:
    """What kernels of quads read outside of the input, as far as the widest block reaches: its zero point."""
    x = factors.x
    reach = (cut.widest - 1) * shape.strides[1] + (shape.kernel[1] - 1) * shape.dilations[1] + 1
    return ctx.constant(np.full(reach * factors.lanes, factors.zero, x.known_dtype.numpy), f"{x.name}.padding")


def _packed(shape: ConvShape, factors: Factors, panel: int, ctx: LowerContext) -> Value:
    weights, plain = factors.weights, factors.plain
    how = f"conv {shape.groups} {panel} {factors.block} {plain} {factors.each}"

    def packed(data: Array) -> Array:
        four = data.reshape(shape.outputs, shape.group_channels, *shape.kernel)
        if factors.quads:
            four = pack_bytes(four, axis=1)
        elif factors.pairs:
            four = pack_bf16(four, axis=3 if plain else 1)
        return pack_plain_input(four, panel) if plain else pack_direct(four, shape.groups, panel, factors.block)

    return ctx.packed(weights, how, "packed", packed)
