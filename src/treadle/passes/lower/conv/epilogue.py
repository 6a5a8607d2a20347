"""The epilogue of a convolution with a blocked result: its operands, and how the kernel reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.dtypes import bf16, f32, i8, i32, u8
from treadle.graph.dim import equals
from treadle.graph.expr import Expr, Step, cast_operand
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements, equal_shapes
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.concat import image_stride
from treadle.passes.lower.conv.weights import pack_channels
from treadle.passes.lower.expr import is_native, may_fail
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class EpilogueOperands:
    """The bias that sums begin with, and the epilogue `expr` that is applied when they are finished.

    `kinds` and `values` are those of the operands of `expr` after the first (`BlockedConvSpec.kinds`). `bias` is padded
    to whole vectors; None: sums begin with zero. `expr` None: finished sums are the result.
    """

    bias: Value | None
    expr: Expr | None
    kinds: tuple[str, ...]
    values: tuple[Value, ...]

    def image_stride(self, out: Value, ctx: LowerContext) -> int:
        """Returns the elements from one image of the blocked result `out` to the next, which full operands share."""
        return image_stride(out, ctx, alone="full" in self.kinds)

    def of_exact_sums(self, ctx: LowerContext) -> EpilogueOperands:
        """Returns the same for integer sums that the kernel computes exactly in f32; the bias becomes f32 too."""
        expr = _of_floats(self.expr or Expr((i32,), (), (0,)))
        bias = self.bias
        if bias is not None and bias.data is not None:
            bias = ctx.constant(bias.data.astype(np.float32), f"{bias.name}.f32")
        return replace(self, bias=bias, expr=expr)


def _of_floats(expr: Expr) -> Expr:
    """Returns `expr` for an operand 0 that is f32 instead of i32. A first cast to f32 is left out."""
    readers = [step for step in expr.steps if 0 in step.args]
    if readers != [Step("cast", (0,), f32)] or 0 in expr.results:
        return cast_operand(expr, 0, f32)
    left_out = len(expr.operands) + expr.steps.index(readers[0])

    def number(old: int) -> int:
        return 0 if old == left_out else old - (old > left_out)

    steps = tuple(Step(s.op, tuple(map(number, s.args)), s.dtype, s.value) for s in expr.steps if s is not readers[0])
    return Expr((f32, *expr.operands[1:]), steps, tuple(map(number, expr.results)))


_QUANTIZED = (i32, f32, u8, i8, bf16)
"""What epilogues of integer sums read and write."""


def bias_of(node: Node) -> Value | None:
    """Returns the bias of a `conv` node, if it has one."""
    return node.inputs[2] if len(node.inputs) > 2 else None


def classify(shape: StaticShape, out: StaticShape) -> str | None:
    """Returns how an operand of `shape` broadcasts to `out` [N, M, ...], a kind of `BlockedConvSpec.kinds`.

    None if it broadcasts along other axes than those kinds do. Whether a `channel` is padded is not looked at.
    """
    if all(equals(dim, 1) for dim in shape):
        return "scalar"
    if equal_shapes(shape, out):
        return "full"
    images, channels, *pixels = (1,) * (len(out) - len(shape)) + shape
    if not equals(channels, out[1]) or not all(equals(dim, 1) for dim in pixels):
        return None
    if equals(images, 1):
        return "channel"
    return "image" if equals(images, out[0]) else None


def has_readable_epilogue(node: Node) -> bool:
    """Whether the blocked kernels can read every operand of `node`'s epilogue, if full ones have its layout."""
    expr: Expr | None = node.attrs.get("epilogue")
    out, dtype = node.output, node.operand(1).known_dtype
    if expr is None:
        return True
    stored = _QUANTIZED if dtype in (i8, u8) else (f32, bf16) if dtype == f32 else (dtype,)
    if len(expr.results) != 1 or out.dtype not in stored or not is_native(expr) or may_fail(expr):
        return False
    return all(
        value is not None and value.dtype in stored and classify(value.static_shape, out.static_shape) is not None
        for value in node.inputs[3:]
    )


def epilogue_operands(node: Node, ctx: LowerContext, padded: int) -> EpilogueOperands | None:
    """Returns the bias and the epilogue of `node` for a kernel that computes `padded` output channels.

    Constants with one element a channel are padded; others that do not fill whole vectors are `ragged`. If the epilogue
    begins by adding a bias, sums begin with it instead. None if the kernels cannot read an operand.
    """
    bias, out = bias_of(node), node.output
    if not has_readable_epilogue(node) or (bias is not None and bias.data is None):
        return None
    first = None if bias is None else _bias_constant(bias, ctx, padded)
    kinds: list[str] = []
    values: list[Value] = []
    expr: Expr | None = node.attrs.get("epilogue")
    leading = None if expr is None or first is not None else leading_bias(expr)
    for number, operand in enumerate(node.inputs[3:], start=1):
        assert operand is not None, "a readable epilogue has all its operands"
        value, kind = operand, classify(operand.static_shape, out.static_shape)
        assert kind is not None, "a readable epilogue has operands of known kinds only"
        if kind == "full" and value.layout != out.layout:
            return None
        if kind == "channel" and number == leading and value.is_constant:
            assert expr is not None, "its number was found in it"
            first = _bias_constant(value, ctx, padded)
            expr = without_leading_bias(expr, number)
            continue
        if kind == "channel":
            value, kind = _channel_operand(value, ctx, padded)
        kinds.append(kind)
        values.append(value)
    return EpilogueOperands(first, expr, tuple(kinds), tuple(values))


def leading_bias(expr: Expr) -> int | None:
    """Returns the operand that `expr` adds to operand 0 first, if neither is used anywhere else."""
    if not expr.steps or expr.steps[0].op != "add" or 0 not in expr.steps[0].args:
        return None
    left, right = expr.steps[0].args
    number = right if left == 0 else left
    uses = [arg for step in expr.steps for arg in step.args] + list(expr.results)
    alone = uses.count(0) == 1 and uses.count(number) == 1
    return number if alone and 0 < number < len(expr.operands) else None


def without_leading_bias(expr: Expr, number: int) -> Expr | None:
    """Returns `expr` without its first step, which adds operand `number` to operand 0; None if it has no other step."""
    count = len(expr.operands)

    def renumbered(value: int) -> int:
        if value == count:
            return 0
        return value - (value > number) - (value > count)

    steps = tuple(Step(s.op, tuple(renumbered(a) for a in s.args), s.dtype, s.value) for s in expr.steps[1:])
    operands = expr.operands[:number] + expr.operands[number + 1 :]
    return Expr(operands, steps, tuple(renumbered(r) for r in expr.results)) if steps else None


def zeros(like: Value, ctx: LowerContext, padded: int) -> Value:
    """Returns a constant of `padded` zeros of the dtype of `like`."""
    return ctx.constant(np.zeros(padded, like.known_dtype.numpy), f"{like.name}.zeros")


def _bias_constant(value: Value, ctx: LowerContext, padded: int) -> Value | None:
    """As `channel_constant`, for what sums begin with."""
    if value.data is None:
        return None
    return ctx.packed_factor(value, f"bias {padded}", "padded", lambda data: pack_channels(data, padded))


def channel_constant(value: Value, ctx: LowerContext, padded: int) -> Value | None:
    """Returns the constant `value` padded to `padded` elements; None if it is no constant."""
    if value.data is None:
        return None
    return ctx.packed(value, f"channels {padded}", "padded", lambda data: pack_channels(data, padded))


def _channel_operand(value: Value, ctx: LowerContext, padded: int) -> tuple[Value, str]:
    """Returns an operand with one element a channel as the kernel reads it, and its kind."""
    constant = channel_constant(value, ctx, padded)
    if constant is not None:
        return constant, "channel"
    return value, "channel" if elements(value.static_shape) == padded else "ragged"
