"""How the operands of a convolution's fused epilogue are read by its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.dtypes import bf16, f32, i8, i32, u8
from treadle.graph.expr import Expr, Step, cast_operand
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.concat import image_stride
from treadle.passes.lower.conv_pack import pack_channels
from treadle.passes.lower.expr import is_native, may_fail


@dataclass(frozen=True, slots=True)
class EpilogueOperands:
    """What becomes of sums: they begin at `bias`, and `expr` is applied to them when they are finished.

    For each operand of `expr` after the first, `kinds` says how it is read, `values` from where. `bias` is
    padded to whole vectors; None stands for zeros, or for doing nothing.
    """

    bias: Value | None
    expr: Expr | None
    kinds: tuple[str, ...]
    values: tuple[Value, ...]

    def image_stride(self, out: Value, ctx: LowerContext) -> int:
        """Elements from one image of the blocked result `out` to the next; what is read with it lies like it."""
        return image_stride(out, ctx, alone="full" in self.kinds)

    def of_exact_sums(self, ctx: LowerContext) -> EpilogueOperands:
        """The same for sums of integers that come as f32, and so does the bias they begin with."""
        expr = _of_floats(self.expr or Expr((i32,), (), (0,)))
        bias = self.bias
        if bias is not None and bias.data is not None:
            bias = ctx.constant(bias.data.astype(np.float32), f"{bias.name}.f32")
        return replace(self, bias=bias, expr=expr)


def _of_floats(expr: Expr) -> Expr:
    """`expr` of an i32 for whole numbers that come as f32: it may cast them to f32 first, which they are already."""
    readers = [step for step in expr.steps if 0 in step.args]
    if readers != [Step("cast", (0,), f32)] or 0 in expr.results:
        return cast_operand(expr, 0, f32)
    gone = len(expr.operands) + expr.steps.index(readers[0])

    def number(old: int) -> int:
        return 0 if old == gone else old - (old > gone)

    steps = tuple(Step(s.op, tuple(map(number, s.args)), s.dtype, s.value) for s in expr.steps if s is not readers[0])
    return Expr((f32, *expr.operands[1:]), steps, tuple(map(number, expr.results)))


_QUANTIZED = (i32, f32, u8, i8, bf16)
"""What epilogues of integer sums read and write."""


def bias_of(node: Node) -> Value | None:
    """The bias of a `conv` node, if it has one."""
    return node.inputs[2] if len(node.inputs) > 2 else None


def classify(shape: StaticShape, out: StaticShape) -> str | None:
    """How an operand of `shape` broadcasts to `out` [N, M, ...]: one of the kinds below; None for other ways.

    `scalar`, `channel` (one element a channel), `image` (one an image and channel), `full`.
    """
    if elements(shape) == 1:
        return "scalar"
    if shape == out:
        return "full"
    aligned = (1,) * (len(out) - len(shape)) + shape
    if aligned[1] == out[1] and elements(aligned) == out[1]:
        return "channel"
    if aligned[:2] == out[:2] and elements(aligned) == out[0] * out[1]:
        return "image"
    return None


def has_readable_epilogue(node: Node) -> bool:
    """Whether the blocked kernels can read every operand of `node`'s epilogue, those of full shape being blocked alike."""
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
    """The bias and the operands of `node`'s epilogue for a kernel that computes `padded` output channels.

    Constants with one element a channel are padded; others that do not fill whole vectors are `ragged`. A
    bias that the epilogue begins with becomes the sums' first value. None if the kernels cannot read an operand.
    """
    bias, out = bias_of(node), node.output
    if not has_readable_epilogue(node) or (bias is not None and bias.data is None):
        return None
    first = None if bias is None else channel_constant(bias, ctx, padded)
    kinds: list[str] = []
    values: list[Value] = []
    for operand in node.inputs[3:]:
        assert operand is not None, "a readable epilogue has all its operands"
        value, kind = operand, classify(operand.static_shape, out.static_shape)
        assert kind is not None, "a readable epilogue has operands of known kinds only"
        if kind == "full" and value.layout != out.layout:
            return None
        if kind == "channel":
            value, kind = _channel_operand(value, ctx, padded)
        kinds.append(kind)
        values.append(value)
    expr: Expr | None = node.attrs.get("epilogue")
    number = None if expr is None else leading_bias(expr)
    if number is not None and first is None and kinds[number - 1] == "channel" and values[number - 1].is_constant:
        assert expr is not None, "its number was found in it"
        first = values.pop(number - 1)
        kinds.pop(number - 1)
        expr = without_leading_bias(expr, number)
    return EpilogueOperands(first, expr, tuple(kinds), tuple(values))


def leading_bias(expr: Expr) -> int | None:
    """The number of the operand that `expr` adds to operand 0 before it does anything else with either, if so."""
    if not expr.steps or expr.steps[0].op != "add" or 0 not in expr.steps[0].args:
        return None
    left, right = expr.steps[0].args
    number = right if left == 0 else left
    uses = [arg for step in expr.steps for arg in step.args] + list(expr.results)
    alone = uses.count(0) == 1 and uses.count(number) == 1
    return number if alone and 0 < number < len(expr.operands) else None


def without_leading_bias(expr: Expr, number: int) -> Expr | None:
    """`expr` without its first step, which adds operand `number` to operand 0; None if nothing is left to do."""
    count = len(expr.operands)

    def renumbered(value: int) -> int:
        if value == count:
            return 0
        return value - (value > number) - (value > count)

    steps = tuple(Step(s.op, tuple(renumbered(a) for a in s.args), s.dtype, s.value) for s in expr.steps[1:])
    operands = expr.operands[:number] + expr.operands[number + 1 :]
    return Expr(operands, steps, tuple(renumbered(r) for r in expr.results)) if steps else None


def zeros(like: Value, ctx: LowerContext, padded: int) -> Value:
    """A constant of `padded` zeros of the dtype of `like`."""
    return ctx.constant(np.zeros(padded, like.known_dtype.numpy), f"{like.name}.zeros")


def channel_constant(value: Value, ctx: LowerContext, padded: int) -> Value | None:
    """The constant `value` padded to `padded` elements; None if it is no constant."""
    if value.data is None:
        return None
    return ctx.packed(value, f"channels {padded}", "padded", lambda data: pack_channels(data, padded))


def _channel_operand(value: Value, ctx: LowerContext, padded: int) -> tuple[Value, str]:
    constant = channel_constant(value, ctx, padded)
    if constant is not None:
        return constant, "channel"
    return value, "channel" if elements(value.static_shape) == padded else "ragged"
