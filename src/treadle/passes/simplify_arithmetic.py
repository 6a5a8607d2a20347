"""Replaces arithmetic by cheaper equivalent operations."""

from __future__ import annotations

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, is_power_of_two, number, produced_by, sweep, uniform

_POWERS = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


class SimplifyArithmetic:
    """%y = pow(%x, 2); %z = div(%y, 8)  ->  %y = mul(%x, %x); %z = mul(%y, 0.125)"""

    name = "simplify_arithmetic"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def power(node: Node, edit: Edit) -> Value | None:
    """pow(x, 2) -> mul(x, x); under fast math also pow(x, 0.5) -> sqrt(x), pow(x, -1) -> reciprocal(x), cubes"""
    x, exponent = node.operand(0), uniform(node.inputs[1])
    if not equal_shapes(x.shape, node.output.shape):
        return None
    if exponent == 2:
        return edit.add("mul", [x, x])
    if edit.math == "exact" or exponent is None or not x.known_dtype.is_float:
        return None
    if exponent == 3:
        return edit.add("mul", [edit.add("mul", [x, x]), x])
    op = _POWERS.get(exponent)
    return None if op is None else edit.add(op, [x])


def divide_by_constant(node: Node, edit: Edit) -> Value | None:
    """div(x, 8) -> mul(x, 0.125), exactly; under fast math any finite constant except 0, such as sqrt(2)"""
    x, divisor = node.operand(0), node.operand(1)
    if divisor.data is None or x.data is not None or not x.known_dtype.is_float or divisor.data.size == 0:
        return None
    wide = divisor.data.astype(np.float64)
    if edit.math == "exact":
        value = uniform(divisor)
        if value is None or not is_power_of_two(value):
            return None
    with np.errstate(all="ignore"):
        inverse = (1.0 / wide).astype(divisor.data.dtype)
    if not _is_normal(wide, divisor) or not _is_normal(inverse, divisor):
        return None
    return edit.add("mul", [x, edit.constant(inverse, name=divisor.name)])


def _is_normal(array: np.ndarray, like: Value) -> bool:
    info = np.finfo(np.float32 if like.known_dtype.name == "bf16" else like.known_dtype.numpy)
    magnitude = np.abs(array)
    return bool((magnitude >= info.tiny).all() and (magnitude <= info.max).all())


def multiply_twice(node: Node, edit: Edit) -> Value | None:
    """mul(mul(x, 2), 3) -> mul(x, 6) under fast math"""
    if edit.math == "exact":
        return None
    for side in (0, 1):
        outer = number(node.inputs[side])
        inner = produced_by(node.inputs[1 - side], "mul")
        if outer is None or inner is None or not edit.graph.has_one_use(inner.output):
            continue
        for inner_side in (0, 1):
            factor = number(inner.inputs[inner_side])
            x = inner.operand(1 - inner_side)
            if factor is None or not equal_shapes(x.shape, node.output.shape) or not x.known_dtype.is_float:
                continue
            product = float(outer) * float(factor)
            with np.errstate(all="ignore"):
                constant = np.asarray(product, dtype=x.known_dtype.numpy)
            if product != 0 and _is_normal(constant, x):
                return edit.add("mul", [x, edit.constant(constant)])
    return None


def negate_twice(node: Node, edit: Edit) -> Value | None:
    """neg(neg(x)) -> x; not(not(x)) -> x"""
    inner = produced_by(node.inputs[0], node.op)
    return None if inner is None else inner.inputs[0]


def decided_where(node: Node, edit: Edit) -> Value | None:
    """where(true, a, b) -> a; where(false, a, b) -> b, if the one chosen has the result's shape"""
    chosen = uniform(node.inputs[0])
    if chosen is None:
        return None
    value = node.operand(1 if chosen else 2)
    return value if equal_shapes(value.shape, node.output.shape) else None


def same_branches(node: Node, edit: Edit) -> Value | None:
    """where(c, a, a) -> a"""
    value = node.operand(1)
    return value if value is node.inputs[2] and equal_shapes(value.shape, node.output.shape) else None


_RULES: Rules = {
    "pow": (power,),
    "div": (divide_by_constant,),
    "mul": (multiply_twice,),
    "neg": (negate_twice,),
    "not": (negate_twice,),
    "where": (decided_where, same_branches),
}
