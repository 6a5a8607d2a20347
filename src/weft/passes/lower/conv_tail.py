"""How the operands of a convolution's fused tail are read by its kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.graph.expr import Expr
from weft.graph.node import Node
from weft.graph.shape import StaticShape, elements
from weft.graph.value import Value
from weft.passes.lower.base import LowerContext
from weft.passes.lower.conv_pack import pack_channels
from weft.passes.lower.expr import is_native, may_fail


@dataclass(frozen=True, slots=True)
class TailOperands:
    """The expression, and for each of its operands after the first how it is read (`kinds`) and from where."""

    expr: Expr | None
    kinds: tuple[str, ...]
    values: tuple[Value, ...]


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


def has_readable_tail(node: Node) -> bool:
    """Whether the blocked kernels can read every operand of `node`'s tail, those of full shape being blocked alike."""
    expr: Expr | None = node.attrs.get("tail")
    out = node.output
    if expr is None:
        return True
    if len(expr.results) != 1 or expr.dtype(expr.results[0]) != out.dtype or not is_native(expr) or may_fail(expr):
        return False
    return all(
        value is not None and value.dtype == out.dtype and classify(value.static_shape, out.static_shape) is not None
        for value in node.inputs[3:]
    )


def tail_operands(node: Node, ctx: LowerContext, padded: int) -> TailOperands | None:
    """The operands of `node`'s tail for a kernel that computes `padded` output channels.

    Constants with one element a channel are padded; others that do not fill whole vectors are `ragged`.
    None if the kernels cannot read one of them.
    """
    if not has_readable_tail(node):
        return None
    out = node.output
    kinds, values = [], []
    for operand in node.inputs[3:]:
        assert operand is not None, "a readable tail has all its operands"
        value, kind = operand, classify(operand.static_shape, out.static_shape)
        assert kind is not None, "a readable tail has operands of known kinds only"
        if kind == "full" and value.layout != out.layout:
            return None
        if kind == "channel":
            value, kind = _channel_operand(value, ctx, padded)
        kinds.append(kind)
        values.append(value)
    return TailOperands(node.attrs.get("tail"), tuple(kinds), tuple(values))


def channel_constant(value: Value | None, like: Value, ctx: LowerContext, padded: int) -> Value | None:
    """The constant `value` padded to `padded` elements; zeros if it is None; None if it is no constant."""
    if value is None:
        return ctx.constant(np.zeros(padded, like.known_dtype.numpy), f"{like.name}.zeros")
    if value.data is None:
        return None
    how = f"channels {padded}"
    return ctx.packed(value, how) or ctx.remember_packed(
        value, how, ctx.constant(pack_channels(value.data, padded), f"{value.name}.padded")
    )


def _channel_operand(value: Value, ctx: LowerContext, padded: int) -> tuple[Value, str]:
    constant = channel_constant(value, value, ctx, padded)
    if constant is not None:
        return constant, "channel"
    return value, "channel" if elements(value.static_shape) == padded else "ragged"
