"""What the kernel of direct convolution reads besides the input: packed weights, bias, padding, epilogue."""

from __future__ import annotations

import numpy as np

from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.bf16_dot import pack_bf16
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.remainders import SplitWeights
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.direct.weights import pack_direct, pack_plain_input
from treadle.passes.lower.conv.epilogue import EpilogueOperands, epilogue_operands, zeros
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.vnni import pack_bytes, pack_words
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one call.

    `bias`: what sums begin with; None: zero. `padding`: the row that is read outside the input; None: products there
    are left out. `remainders`: second terms of weights that were split, if there are any.
    """

    weights: Value
    bias: Value | None
    padding: Value | None
    remainders: Value | None
    epilogue: EpilogueOperands

    @property
    def values(self) -> tuple[Value, ...]:
        """All of them, in the order of the kernel's pointers."""
        given = (self.weights, self.bias, self.padding, self.remainders)
        return tuple(value for value in given if value is not None) + self.epilogue.values


def direct_operands(
    node: Node, shape: ConvShape, factors: Factors, tiling: Tiling, split: SplitWeights | None, ctx: LowerContext
) -> Operands | None:
    """Returns the operands of `node` for `tiling`, with weights that are `split` if need be.

    None if the kernel cannot read the bias or one of the epilogue.
    """
    epilogue = epilogue_operands(node, ctx, tiling.outputs)
    if epilogue is None:
        return None
    bias, padding, remainders = epilogue.bias, None, None
    if tiling.has_passes and bias is None:
        bias = zeros(node.output, ctx, tiling.outputs)
    if factors.zero_point:
        bias = _corrected_bias(factors, bias, tiling.outputs, ctx)
    if split is not None and split.entries:
        remainders = ctx.constant(split.remainders, f"{factors.weights.name}.remainders")
    if (factors.zero_point or remainders is not None) and _leaves_input(shape, tiling):
        padding = _padding(shape, factors, tiling, ctx)
    return Operands(_packed(shape, factors, tiling.panel, ctx, split), bias, padding, remainders, epilogue)


def _corrected_bias(factors: Factors, bias: Value | None, padded: int, ctx: LowerContext) -> Value:
    """Returns `bias` less the zero point times the weights of each output: the kernel multiplies bytes as they are."""
    weights = factors.weights
    assert weights.data is not None, "weights are constant"
    start = np.zeros(padded, np.int64) if bias is None or bias.data is None else bias.data.astype(np.int64)
    sums = weights.data.reshape(weights.data.shape[0], -1).sum(axis=1, dtype=np.int64)
    start[: sums.size] -= factors.zero_point * sums
    return ctx.constant(start.astype(np.int32), f"{weights.name}.start")


def _leaves_input(shape: ConvShape, tiling: Tiling) -> bool:
    """Whether some register block reads outside the input."""
    inside = (0, shape.kernel[1])
    columns = (pixel for segment in tiling.row.segments for pixel in segment)
    return not tiling.row.flat and (shape.rows_leave_input or any(pixel != inside for pixel in columns))


def _padding(shape: ConvShape, factors: Factors, tiling: Tiling, ctx: LowerContext) -> Value:
    """Returns a row of zero points as long as the widest register block reads."""
    x = factors.x
    reach = (tiling.row.widest - 1) * shape.strides[1] + (shape.kernel[1] - 1) * shape.dilations[1] + 1
    return ctx.constant(np.full(reach * factors.lanes, factors.zero, x.known_dtype.numpy), f"{x.name}.padding")


def _packed(shape: ConvShape, factors: Factors, panel: int, ctx: LowerContext, split: SplitWeights | None) -> Value:
    """Returns the packed weights."""
    weights, plain = factors.weights, factors.plain
    how = f"conv {shape.groups} {panel} {factors.block} {plain} {factors.each} {split is not None}"

    def packed(data: Array) -> Array:
        four = data.reshape(shape.outputs, shape.group_channels, *shape.kernel)
        if split is not None:
            four = split.weights
        elif factors.vnni:
            four = pack_bytes(four, axis=1)
        elif factors.words:
            four = pack_words(four, axis=1)
        elif factors.bf16_dot:
            four = pack_bf16(four, axis=3 if plain else 1)
        return pack_plain_input(four, panel) if plain else pack_direct(four, shape.groups, panel, factors.block)

    return ctx.packed_factor(weights, how, "packed", packed)
