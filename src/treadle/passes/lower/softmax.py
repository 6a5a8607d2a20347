"""Lowering of softmax and log_softmax."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import ceil_div, equals, is_expression, maximum, minimum, real_maximum
from treadle.graph.node import Node
from treadle.graph.shape import around, elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs
from treadle.plan.kernels.softmax import (
    SoftmaxColumnsArgs,
    SoftmaxColumnsSpec,
    SoftmaxRowsArgs,
    SoftmaxRowsSpec,
    SoftmaxSpec,
)

_WORK = 19
"""How many multiply-adds take as long as the work on a vector of elements."""

_ROW_WORK = 75
"""The same for the beginning and the end of a row."""

_COLUMNS = 256


def lower_softmax(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None for half precision and blocked layouts."""
    x, y = node.operand(0), node.output
    dtype, shape = x.known_dtype, x.static_shape
    if dtype not in (dtypes.f32, dtypes.f64) or x.layout is not None or y.layout is not None or not shape:
        return None
    if 0 in shape:
        return []
    axis = node.attrs["axis"] % len(shape)
    outer, n, width = around(shape, axis)
    lanes = ctx.target.lanes(dtype)
    each, row_ns = ctx.machine.fma_ns * _WORK / lanes, ctx.machine.fma_ns * _ROW_WORK
    log, safe = node.op == "log_softmax", bool(node.attrs.get("safe"))
    spec: SoftmaxSpec
    args: KernelArgs[int]
    if equals(width, 1):
        spec = SoftmaxRowsSpec(dtype=dtype, lanes=lanes, log=log, safe=safe, short=not is_expression(n) and n <= lanes)
        chunks, per_chunk = ctx.partition(outer, row_ns + each * n)
        args = SoftmaxRowsArgs(rows=outer, rows_per_chunk=per_chunk, n=n)
    else:
        spec = SoftmaxColumnsSpec(dtype=dtype, lanes=lanes, log=log, safe=safe)
        columns = minimum(width, _COLUMNS)
        blocks = ceil_div(width, columns)
        chunks, per_chunk = ctx.partition(outer * blocks, each * n * maximum(columns, lanes))
        args = SoftmaxColumnsArgs(
            units=outer * blocks, units_per_chunk=per_chunk, n=n, width=width, columns=columns, column_blocks=blocks
        )
    count = elements(shape)
    traffic = nbytes(x) + nbytes(y)
    cost = ctx.machine.call_ns + real_maximum(ctx.moved_ns(traffic), each * count + row_ns * (count / n))
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=cost, flops=5.0 * count, traffic=traffic)]
