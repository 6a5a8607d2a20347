"""Elementwise programs from one byte to one byte, as in quantized activations: a table of their 256 results replaces
them."""

from __future__ import annotations

import numpy as np

from treadle.graph.expr import Expr
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.ops.elementwise import evaluate_expr
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.expr import element_ns, may_fail
from treadle.plan.call import Call
from treadle.plan.kernels.byte_table import ByteTableArgs, ByteTableSpec

_PIECE = 256
_LEAST_ELEMENTS = 1024
_LOADED_NS = 0.4
_PERMUTED_NS = 0.05


def lower_byte_table(
    node: Node, expr: Expr, results: tuple[Value, ...], operands: list[Value], elements: int, ctx: LowerContext
) -> Call | None:
    """A call that reads `expr` of `elements` bytes from a table; None if computing it is as fast, or it has other
    operands.

    The NumPy reference makes the table, on every instruction set.
    """
    if len(results) != 1 or results[0].dtype not in BYTES or len(operands) != 1 or operands[0].dtype not in BYTES:
        return None
    each = _PERMUTED_NS if ctx.target.has_byte_permutes else _LOADED_NS
    if (
        not is_enabled("byte_table")
        or elements < _LEAST_ELEMENTS
        or may_fail(expr)
        or element_ns(expr, ctx.target) <= each
    ):
        return None
    numbers = np.arange(256, dtype=np.uint8).view(operands[0].known_dtype.numpy)
    with np.errstate(all="ignore"):
        (results_of_all,) = evaluate_expr(expr, [numbers])
    table = ctx.constant(results_of_all.view(np.uint8), f"{node.name}.table")
    chunks, per_chunk = ctx.partition(elements, each, _PIECE)
    return ctx.call(
        node,
        ByteTableSpec(),
        results,
        (operands[0], table),
        args=ByteTableArgs(elements=elements, elements_per_chunk=per_chunk),
        chunks=chunks,
        cost=ctx.machine.call_ns + each * elements,
        traffic=2.0 * elements,
    )
