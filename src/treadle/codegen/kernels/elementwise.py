"""Elementwise loops: an Expr applied to every element of operands that broadcast to the output."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.ranges import offset_at
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.expr import emit_expr, given_values, load_value, store_value
from treadle.codegen.kernels.fold import each_vector
from treadle.graph.expr import Expr
from treadle.plan.kernels.elementwise import ElementwiseArgs, ElementwiseSpec, FlatElementwiseArgs, FlatElementwiseSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class _Loop:
    """What all rows of one kernel share: its parameters, and the values of its `given` steps in every lane."""

    spec: FlatElementwiseSpec
    given: list[ir.Value]


def emit_elementwise_flat(k: Kernel, spec: FlatElementwiseSpec) -> None:
    """results[i] = expr(operands[i]); operands of one element are the same for every i."""
    args = k.args(FlatElementwiseArgs[ir.Value], spec)
    shared = _Loop(spec, given_values(k, spec.expr, args.given, spec.lanes))
    begin, end = k.chunk_range(args.elements, args.elements_per_chunk)
    results, operands = _pointers(k, spec.expr)
    _emit_row(k, shared, results, operands, begin, end)


def emit_elementwise(k: Kernel, spec: ElementwiseSpec) -> None:
    """Nested loops: `rank` outer dimensions, then rows, then the elements of a row."""
    args = k.args(ElementwiseArgs[ir.Value], spec)
    expr, rank = spec.expr, spec.rank
    shared = _Loop(spec, given_values(k, expr, args.given, spec.lanes))
    results, operands = _pointers(k, expr)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        piece, rest = k.rem(unit.index, args.pieces), k.div(unit.index, args.pieces)
        block, rest = k.rem(rest, args.row_blocks), k.div(rest, args.row_blocks)
        position: list[Index] = [0] * rank
        for axis in reversed(range(rank)):
            size = args.sizes[axis]
            position[axis], rest = (rest, 0) if axis == 0 else (k.rem(rest, size), k.div(rest, size))
        first = k.mul(block, args.rows_per_unit)
        last = k.min(k.add(first, args.rows_per_unit), args.rows)
        start = k.mul(piece, args.piece)
        stop = k.min(k.add(start, args.piece), args.row)
        bases = [offset_at(k, position, strides[:-1]) for strides in args.strides]
        with loop(k, first, last, name="row") as row:
            offsets = [
                k.add(base, k.mul(row.index, strides[-1])) for base, strides in zip(bases, args.strides, strict=True)
            ]
            dtypes = [expr.dtype(number) for number in expr.results]
            _emit_row(
                k,
                shared,
                [k.at(pointer, offsets[0], dtype) for pointer, dtype in zip(results, dtypes, strict=True)],
                [
                    k.at(pointer, offset, dtype)
                    for pointer, offset, dtype in zip(operands, offsets[1:], expr.operands, strict=True)
                ],
                start,
                stop,
            )


def _pointers(k: Kernel, expr: Expr) -> tuple[list[ir.Value], list[ir.Value]]:
    """Those of the results and those of the operands."""
    results = len(expr.results)
    operands = len(expr.operands)
    return [k.pointer(i) for i in range(results)], [k.pointer(results + i) for i in range(operands)]


def _emit_row(
    k: Kernel, shared: _Loop, results: list[ir.Value], operands: list[ir.Value], start: Index, stop: Index
) -> None:
    """results[i] = expr(operands[i]) for start <= i < stop"""
    spec = shared.spec
    expr, lanes = spec.expr, spec.lanes
    fixed = {
        number: _splat_value(k, operands[number], expr, number, lanes)
        for number, steady in enumerate(spec.steady)
        if steady
    }

    def block(index: Index, mask: ir.Value | None) -> None:
        values = [
            fixed[number] if number in fixed else load_value(k, pointer, index, expr.operands[number], lanes, mask)
            for number, pointer in enumerate(operands)
        ]
        computed = emit_expr(k, expr, values, mask, lanes, shared.given)
        for number, pointer, value in zip(expr.results, results, computed, strict=True):
            store_value(k, value, pointer, index, expr.dtype(number), mask)

    each_vector(k, block, start, stop, lanes, spec.unroll)


def _splat_value(k: Kernel, pointer: ir.Value, expr: Expr, number: int, lanes: int) -> ir.Value:
    return splat(k, load_value(k, pointer, 0, expr.operands[number]), lanes)
