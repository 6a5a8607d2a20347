"""Elementwise loops: an Expr applied to every element of operands that broadcast to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.expr import emit_expr, given_values, load_value, store_value
from treadle.codegen.kernels.fold import each_vector
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True)
class _Loop:
    """What all rows of one kernel share.

    `steady` says of each operand whether it is one value a row, `given` are numbers of the program that the call brings.
    """

    expr: Expr
    lanes: int
    unroll: int
    steady: tuple[bool, ...]
    given: list[ir.Value]


def emit_elementwise_flat(k: Kernel, spec: KernelSpec) -> None:
    """Output and operands of one shape, or operands of one element.

    Params: expr, lanes, unroll, steady. Pointers: results, operands. Args: elements, elements per chunk, the given numbers.
    """
    shared = _shared(k, spec, 2)
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    results, operands = _pointers(k, shared)
    _emit_row(k, shared, results, operands, begin, end)


def emit_elementwise(k: Kernel, spec: KernelSpec) -> None:
    """Nested loops: `rank` outer dimensions, then rows, then the elements of a row.

    A unit of work is some rows of one outer position, or a piece of one row.
    Params: expr, lanes, unroll, steady, rank. Pointers: results, operands. Args: units, units per chunk,
    elements a row, elements a piece, pieces a row, rows, rows a unit, units of rows, the outer sizes;
    then the strides (in elements, of the outer dimensions and of the rows) of the results and of each operand; then the
    given numbers.
    """
    rank = spec["rank"]
    shared = _shared(k, spec, 8 + rank + (1 + len(spec["expr"].operands)) * (rank + 1))
    results, operands = _pointers(k, shared)
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    with loop(k, begin, end, name="unit") as unit:
        piece, rest = k.rem(unit.index, k.arg(4)), k.div(unit.index, k.arg(4))
        block, rest = k.rem(rest, k.arg(7)), k.div(rest, k.arg(7))
        position: list[Index] = [0] * rank
        for axis in reversed(range(rank)):
            size = k.arg(8 + axis)
            position[axis], rest = (rest, 0) if axis == 0 else (k.rem(rest, size), k.div(rest, size))
        first = k.mul(block, k.arg(6))
        last = k.min(k.add(first, k.arg(6)), k.arg(5))
        start = k.mul(piece, k.arg(3))
        stop = k.min(k.add(start, k.arg(3)), k.arg(2))
        strides = [[k.arg(8 + rank + number * (rank + 1) + axis) for axis in range(rank + 1)] for number in
                   range(1 + len(operands))]  # fmt: skip
        bases = [_offset(k, position, stride[:-1]) for stride in strides]
        with loop(k, first, last, name="row") as row:
            places = [k.add(base, k.mul(row.index, stride[-1])) for base, stride in zip(bases, strides, strict=True)]
            dtypes = [shared.expr.dtype(number) for number in shared.expr.results]
            _emit_row(
                k,
                shared,
                [k.at(pointer, places[0], dtype) for pointer, dtype in zip(results, dtypes, strict=True)],
                [
                    k.at(pointer, place, dtype)
                    for pointer, place, dtype in zip(operands, places[1:], shared.expr.operands, strict=True)
                ],
                start,
                stop,
            )


def _shared(k: Kernel, spec: KernelSpec, given: int) -> _Loop:
    """The loop of `spec`; arguments from number `given` on are its numbers."""
    expr, lanes = spec["expr"], spec["lanes"]
    return _Loop(expr, lanes, spec["unroll"], spec["steady"], given_values(k, expr, given, lanes))


def _pointers(k: Kernel, shared: _Loop) -> tuple[list[ir.Value], list[ir.Value]]:
    results = len(shared.expr.results)
    operands = len(shared.expr.operands)
    return [k.pointer(i) for i in range(results)], [k.pointer(results + i) for i in range(operands)]


def _offset(k: Kernel, position: Sequence[Index], strides: Sequence[Index]) -> Index:
    total: Index = 0
    for index, stride in zip(position, strides, strict=True):
        total = k.add(total, k.mul(index, stride))
    return total


def _emit_row(
    k: Kernel, shared: _Loop, results: list[ir.Value], operands: list[ir.Value], start: Index, stop: Index
) -> None:
    """results[i] = expr(operands[i]) for start <= i < stop"""
    expr, lanes = shared.expr, shared.lanes
    fixed = {
        number: _splat_value(k, operands[number], expr, number, lanes)
        for number, steady in enumerate(shared.steady)
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

    each_vector(k, block, start, stop, lanes, shared.unroll)


def _splat_value(k: Kernel, pointer: ir.Value, expr: Expr, number: int, lanes: int) -> ir.Value:
    return splat(k, load_value(k, pointer, 0, expr.operands[number]), lanes)
