"""Lowering of elementwise nodes and of every scalar op to loops."""

from __future__ import annotations

from treadle.graph.dim import ceil_div, equals, floor_int, is_expression, maximum, minimum, real_maximum
from treadle.graph.expr import Expr, Step
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.broadcast import Access, access_operands
from treadle.passes.lower.byte_table import lower_byte_table
from treadle.passes.lower.expr import element_ns, is_native, lanes_for, may_fail, unroll_for, with_given
from treadle.passes.lower.searches import LEAST_CHUNK
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs
from treadle.plan.kernels.elementwise import ElementwiseArgs, ElementwiseSpec, FlatElementwiseArgs, FlatElementwiseSpec

_PIECE = 256
"""Pieces of a row or of flat memory are multiples of this many elements."""


def lower_elementwise(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call of a loop that evaluates the node's program."""
    operands = [node.operand(i) for i in range(len(node.inputs))]
    return lower_expr(node, node.attrs["expr"], tuple(node.outputs), operands, ctx)


def lower_scalar(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call of a loop that applies the scalar op (or cast) that the node is."""
    operands = [node.operand(i) for i in range(len(node.inputs))]
    dtypes = tuple(value.known_dtype for value in operands)
    step = Step(node.op, tuple(range(len(operands))), node.output.known_dtype)
    return lower_expr(node, Expr(dtypes, (step,), (len(operands),)), (node.output,), operands, ctx)


def lower_expr(
    node: Node, expr: Expr, results: tuple[Value, ...], operands: list[Value], ctx: LowerContext
) -> list[Call] | None:
    """One call that computes `results` by `expr` from `operands`, which broadcast to their shape and layout."""
    result = results[0]
    if not is_native(expr) or any(other.layout != result.layout for other in results):
        return None
    if result.layout is not None and result.static_shape[1] % result.layout.block and may_fail(expr):
        return None
    operands_and_access = access_operands(result, operands, ctx)
    if operands_and_access is None:
        return None
    reads, access = operands_and_access
    if 0 in result.static_shape:
        return []
    lanes = lanes_for(expr, ctx.target)
    program, given = with_given(expr)
    unroll = unroll_for(expr)
    traffic = sum(nbytes(value) for value in (*results, *reads))
    elements = 1
    for size in access.sizes:
        elements *= size
    tabulated = lower_byte_table(node, expr, results, reads, elements, ctx) if len(access.sizes) == 1 else None
    if tabulated is not None:
        return [tabulated]
    each = real_maximum(element_ns(expr, ctx.target), ctx.moved_ns(traffic) / maximum(elements, 1))
    steady = tuple(equals(strides[-1], 0) for strides in access.strides[1:])
    args: KernelArgs[int]
    if len(access.sizes) == 1:
        chunks, per_chunk = ctx.partition(elements, each, _PIECE)
        spec = FlatElementwiseSpec(expr=program, lanes=lanes, unroll=unroll, steady=steady)
        args = FlatElementwiseArgs(elements=elements, elements_per_chunk=per_chunk, given=given)
    else:
        rank = len(access.sizes) - 2
        spec = ElementwiseSpec(expr=program, lanes=lanes, unroll=unroll, steady=steady, rank=rank)
        chunks, args = _nested(access, each, given, ctx)
    return [
        ctx.call(
            node,
            spec,
            results,
            tuple(reads),
            args=args,
            chunks=chunks,
            cost=ctx.machine.call_ns + each * elements,
            flops=1.0 * (elements * sum(step.op != "const" for step in expr.steps)),
            traffic=traffic,
        )
    ]


def _piece(row: int, wanted: int) -> int:
    """Elements of each piece of a row: the whole row, unless it has twice as many as are `wanted`."""
    if is_expression(row) or is_expression(wanted):
        pieces = maximum(1, row // wanted)
        return minimum(row, ceil_div(ceil_div(row, pieces), _PIECE) * _PIECE)
    return row if row < 2 * wanted else ceil_div(wanted, _PIECE) * _PIECE


def _nested(access: Access, each: float, given: tuple[int, ...], ctx: LowerContext) -> tuple[int, ElementwiseArgs[int]]:
    """(chunks, arguments) of the nested kernel; `each` is the time of one element in ns."""
    *outer, rows, row = access.sizes
    wanted = maximum(_PIECE, floor_int(LEAST_CHUNK * ctx.machine.usual_chunk_ns / each))
    piece = maximum(1, _piece(row, wanted))  # a row may be empty
    pieces = ceil_div(row, piece)
    rows_each = maximum(1, minimum(rows, wanted // maximum(1, row)))
    blocks = ceil_div(rows, rows_each)
    units = pieces * blocks
    for size in outer:
        units *= size
    chunks, per_chunk = ctx.partition(units, each * piece * rows_each)
    args = ElementwiseArgs(
        units=units,
        units_per_chunk=per_chunk,
        row=row,
        piece=piece,
        pieces=pieces,
        rows=rows,
        rows_per_unit=rows_each,
        row_blocks=blocks,
        sizes=tuple(outer),
        strides=tuple(operand[:-1] for operand in access.strides),
        given=given,
    )
    return chunks, args
