"""Operators that are one scalar op, or a chain of one scalar op over many operands."""

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.rule import Rule
from treadle.graph.value import Value


def same(op: str, **integers: int) -> Rule:
    """A rule for an operator that is the core op `op` on the same operands, except strings.

    `integers` are the defaults of the integer attributes that both have under one name.
    """

    def rule(node: OnnxNode, b: Builder) -> Value | None:
        if node.dtype() == dtypes.string:
            return None
        return b.add(op, *node.inputs, **{name: node.integer(name, default) for name, default in integers.items()})

    return rule


def rounding(op: str) -> Rule:
    """A rule for Floor, Ceil and Round, which leave integers as they are."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        dtype = node.dtype()
        return node.input(0) if dtype is not None and dtype.is_integer else b.add(op, node.input(0))

    return rule


def power(node: OnnxNode, b: Builder) -> Value | None:
    """Pow(x, y) -> pow(x, y), or with casts where their element types differ: the result has that of x."""
    x, y = node.input(0), node.input(1)
    if x.dtype is None or y.dtype is None:
        return None
    if x.dtype == y.dtype:
        return b.add("pow", x, y)
    if x.dtype.is_float or not y.dtype.is_float:
        return b.add("pow", x, b.add("cast", y, to=x.dtype))
    return b.add("cast", b.add("pow", b.add("cast", x, to=y.dtype), y), to=x.dtype)


def mod(node: OnnxNode, b: Builder) -> Value:
    """Mod -> fmod (sign of the dividend) or mod (sign of the divisor)."""
    return b.add("fmod" if node.flag("fmod", default=False) else "mod", node.input(0), node.input(1))


def bit_shift(node: OnnxNode, b: Builder) -> Value:
    direction = node.choice("direction", "", "LEFT", "RIGHT")
    return b.add("shift_left" if direction == "LEFT" else "shift_right", node.input(0), node.input(1))


def is_inf(node: OnnxNode, b: Builder) -> Value:
    """IsInf -> isinf(x), and a comparison with 0 if only one sign counts."""
    x = node.input(0)
    infinite = b.add("isinf", x)
    negative, positive = node.flag("detect_negative", default=True), node.flag("detect_positive", default=True)
    if negative and positive:
        return infinite
    zero = b.scalar(0, x.dtype)
    if not negative and not positive:
        return b.add("and", infinite, b.add("isnan", x))  # false everywhere, in the shape of x
    return b.add("and", infinite, b.add("lt" if negative else "gt", x, zero))


def chain(op: str) -> Rule:
    """A rule for Sum, Max and Min of any number of operands: `op` from left to right."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        result = node.input(0)
        for index in range(1, len(node.inputs)):
            result = b.add(op, result, node.input(index))
        return result

    return rule


def mean(node: OnnxNode, b: Builder) -> Value:
    """Mean(x, ...) -> (x + ...) / count."""
    total = chain("add")(node, b)
    assert isinstance(total, Value)
    return b.add("div", total, b.scalar(len(node.inputs), total.dtype)) if len(node.inputs) > 1 else total


def clip(node: OnnxNode, b: Builder) -> Value:
    """Clip -> clip(x, low, high), or max or min where one bound is absent. Before opset 11 bounds are attributes."""
    x = node.input(0)
    if node.version < 11:
        low: Value | None = b.scalar(node.number("min", float(np.finfo(np.float32).min)), x.dtype)
        high: Value | None = b.scalar(node.number("max", float(np.finfo(np.float32).max)), x.dtype)
        low = low if node.has("min") else None
        high = high if node.has("max") else None
    else:
        low, high = node.optional(1), node.optional(2)
    if low is not None and high is not None:
        return b.add("clip", x, low, high)
    if low is not None:
        return b.add("max", x, low)
    return x if high is None else b.add("min", x, high)
