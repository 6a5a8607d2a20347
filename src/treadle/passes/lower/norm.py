"""Lowering of layer, RMS, group, instance and batch normalisation."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.graph.dim import at_most, equals, real_maximum
from treadle.graph.expr import Expr, Step
from treadle.graph.node import Node
from treadle.graph.reals import bits_of_number
from treadle.graph.shape import StaticShape, elements
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.elementwise import lower_expr
from treadle.plan.call import Call
from treadle.plan.kernels.norm import NormRowsArgs, NormRowsSpec
from treadle.plan.kernels.reduce import FOLDED_VECTORS
from treadle.records import dataclass

_WORK = 10
"""How many multiply-adds take as long as the work on a vector of elements."""

_ROW_WORK = 90
"""The same for the beginning and the end of a row."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """How x falls into rows of `segments` segments of `length` elements; segment parameters repeat after `turn`
    rows."""

    count: int
    segments: int
    length: int
    turn: int


def lower_layer_norm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where scale or bias broadcasts within the normalised axes."""
    return _lower_trailing(node, ctx, centred=True)


def lower_rms_norm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where scale broadcasts within the normalised axes."""
    return _lower_trailing(node, ctx, centred=False)


def _lower_trailing(node: Node, ctx: LowerContext, *, centred: bool) -> list[Call] | None:
    x = node.operand(0)
    shape = x.static_shape
    axis = node.attrs["axis"] % len(shape)
    given = [*node.inputs[1:], None, None][:2]
    modes = [_trailing_mode(value, shape[axis:]) for value in given]
    if None in modes:
        return None
    rows = _Rows(elements(shape[:axis]), 1, elements(shape[axis:]), 1)
    return _lower_rows(node, ctx, rows, [mode or "none" for mode in modes], given, centred=centred)


def _trailing_mode(value: Value | None, normalised: StaticShape) -> str | None:
    """How a row reads its scale or bias; None if the kernel cannot."""
    if value is None:
        return "none"
    shape = value.static_shape
    if equals(elements(shape), 1):
        return "one"
    return "element" if _without_ones(shape) == _without_ones(normalised) else None


def _without_ones(shape: StaticShape) -> StaticShape:
    """`shape` without leading ones."""
    while shape and equals(shape[0], 1):
        shape = shape[1:]
    return shape


def lower_group_norm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call: a row is a group of channels, a segment one channel."""
    return _lower_channels(node, ctx, node.attrs["groups"])


def lower_instance_norm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call: a row is one channel of one sample."""
    return _lower_channels(node, ctx, node.operand(0).static_shape[1])


def _lower_channels(node: Node, ctx: LowerContext, groups: int) -> list[Call] | None:
    shape = node.operand(0).static_shape
    rows = _Rows(shape[0] * groups, shape[1] // groups, elements(shape[2:]), groups)
    return _lower_rows(node, ctx, rows, ["segment", "segment"], node.inputs[1:3], centred=True)


def _lower_rows(
    node: Node, ctx: LowerContext, rows: _Rows, modes: list[str], given: list[Value | None], *, centred: bool
) -> list[Call] | None:
    x, y = node.operand(0), node.output
    dtype = x.known_dtype
    if dtype not in (dtypes.f32, dtypes.f64) or x.layout is not None or y.layout is not None:
        return None
    if 0 in x.static_shape:
        return []
    n, lanes = rows.segments * rows.length, ctx.target.lanes(dtype)
    spec = NormRowsSpec(
        dtype=dtype,
        lanes=lanes,
        centred=centred,
        scale=modes[0],
        bias=modes[1],
        long=not at_most(n, FOLDED_VECTORS * lanes),
    )
    each, row_ns = ctx.machine.fma_ns * _WORK / lanes, ctx.machine.fma_ns * _ROW_WORK
    chunks, per_chunk = ctx.partition(rows.count, row_ns + each * n)
    reads = (x, *(value for value in given if value is not None))
    traffic = sum(nbytes(value) for value in (y, *reads))
    return [
        ctx.call(
            node,
            spec,
            (y,),
            reads,
            args=NormRowsArgs(
                rows=rows.count,
                rows_per_chunk=per_chunk,
                n=n,
                length=rows.length,
                segments=rows.segments,
                turn=rows.turn,
                epsilon=bits_of_number(node.attrs["epsilon"]),
            ),
            chunks=chunks,
            cost=ctx.machine.call_ns + real_maximum(ctx.moved_ns(traffic), rows.count * (row_ns + each * n)),
            flops=8.0 * rows.count * n,
            traffic=traffic,
        )
    ]


def lower_batch_norm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One elementwise loop: x * a + b with constant a and b, or the whole formula if the statistics vary."""
    x, y = node.operand(0), node.output
    dtype = x.known_dtype
    given = [node.operand(index) for index in range(1, 5)]
    channel: StaticShape = (x.static_shape[1], *(1,) * (len(x.static_shape) - 2))
    arrays = [value.data for value in given]
    if all(data is not None for data in arrays):
        scale, bias, mean, variance = (np.asarray(data, np.float64) for data in arrays)
        factor = scale / np.sqrt(variance + node.attrs["epsilon"])
        folded = [factor, bias - mean * factor]
        operands = [ctx.constant(array.astype(dtype.numpy).reshape(channel), f"{node.name}.folded") for array in folded]
        expr = Expr((dtype,) * 3, (Step("mul", (0, 1), dtype), Step("add", (3, 2), dtype)), (4,))
        return lower_expr(node, expr, (y,), [x, *operands], ctx)
    operands = []
    for value in given:
        view = ctx.temporary(f"{value.name}.channels", dtype, channel)
        ctx.alias(view, value)
        operands.append(view)
    steps = (
        Step("sub", (0, 3), dtype),
        Step("const", (), dtype, float(node.attrs["epsilon"])),
        Step("add", (4, 6), dtype),
        Step("sqrt", (7,), dtype),
        Step("div", (5, 8), dtype),
        Step("mul", (9, 1), dtype),
        Step("add", (10, 2), dtype),
    )
    return lower_expr(node, Expr((dtype,) * 5, steps, (11,)), (y,), [x, *operands], ctx)
