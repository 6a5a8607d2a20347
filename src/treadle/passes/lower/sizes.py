"""Lowering of sizes: a tensor of numbers that are known at binding."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dtypes import boolean, f32, f64
from treadle.graph.dim import DimExpr, is_expression
from treadle.graph.node import Node
from treadle.graph.reals import bits_of_real
from treadle.graph.shape import strides_of
from treadle.ops.sizes import evaluate_sizes
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import copy_call, dense_target
from treadle.plan.call import Call
from treadle.plan.kernels.sizes import MOST_ELEMENTS, SizesArgs, SizesSpec

_ELEMENT_NS = 0.5


def lower_sizes(node: Node, ctx: LowerContext) -> list[Call]:
    """One kernel; a copy of a constant, for which expressions are pinned, where elements are many, or fractions in
    other dtypes than f32 and f64."""
    elements, y = node.attrs["elements"], node.output
    dtype = y.known_dtype
    whole = all(map(is_argument, elements))
    if dtype != boolean and len(elements) <= MOST_ELEMENTS and (whole or dtype in (f32, f64)):
        given = (as_argument(element, whole=whole) for element in elements)
        spec = SizesSpec(dtype=dtype, count=len(elements), whole=whole)
        cost = ctx.machine.call_ns + len(elements) * _ELEMENT_NS
        return [ctx.call(node, spec, (y,), (), args=SizesArgs(elements=tuple(given)), cost=cost)]
    numbers = evaluate_sizes({**node.attrs, "elements": tuple(map(pinned, elements))}, ())[0]
    axes = dense_target(y.static_shape, strides_of(y.static_shape))
    return [copy_call(node, ctx, y, ctx.constant(numbers, f"{y.name}.numbers"), axes)]


def is_argument(element: Any) -> bool:
    """Whether an integer argument of a kernel can stand for `element`: a whole number, or an integer expression."""
    if is_expression(element):
        return type(element) is DimExpr
    if isinstance(element, float | np.floating) and (not float(element).is_integer() or str(element) == "-0.0"):
        return False
    return bool(-(1 << 63) <= element < 1 << 63)


def as_argument(element: Any, *, whole: bool) -> int:
    """Returns the integer argument for `element`: itself if it is `whole`, else its bits as an f64."""
    if not whole:
        return bits_of_real(element)
    return element if is_expression(element) else int(element)


def pinned(element: Any) -> Any:
    """Returns the number that `element` is for the sample sizes, and assumes that it is."""
    if not is_expression(element):
        return element
    return int(element) if type(element) is DimExpr else float(element)
