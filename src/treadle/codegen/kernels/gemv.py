"""A vector times a matrix whose columns lie contiguous in memory: one dot product a column, bound by memory.

Pointers: out, vector, matrix, then the epilogue's operands. Args: see ARGS.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store
from treadle.codegen.emit.ranges import coordinates, segments
from treadle.codegen.emit.vectors import constant, multiply_add, reduce
from treadle.codegen.kernels.expr import store_value
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.plan.kernel_spec import KernelSpec

ARGS = (
    "columns",
    "depth",
    "b_column",  # elements from one column of the matrix to the next
    "blocks",  # of as many columns as a vector has lanes
    "units",  # blocks of all batches
    "units_per_chunk",
)
"""The int64 arguments in order; then the sizes of the batch dimensions, and for vector, matrix, out and each
epilogue operand its strides along them, in elements."""

_COLUMNS = 4
"""Dot products that are computed side by side."""


def emit_gemv(k: Kernel, spec: KernelSpec) -> None:
    """out[.., c] = epilogue(sum over t of a[.., t] * b[.., c * b_column + t], operands).

    Params: dtype, vectors (1), batch_rank, epilogue, kinds. Scratch: one vector.
    """
    arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
    epilogue = Epilogue(k, spec)
    dtype, lanes, rank, kinds = epilogue.dtype, epilogue.lanes, spec["batch_rank"], spec["kinds"]
    begin, end = k.chunk_range(arg["units"], arg["units_per_chunk"])
    with segments(k, begin, end, arg["blocks"], "batch") as (batch, first, last):
        places = coordinates(k, batch, [k.arg(len(ARGS) + axis) for axis in range(rank)])
        offsets: list[Index] = []
        for number in range(1, 4 + len(kinds)):
            offset: Index = 0
            for axis, place in enumerate(places):
                offset = k.add(offset, k.mul(place, k.arg(len(ARGS) + number * rank + axis)))
            offsets.append(offset)
        a, b = (k.at(k.pointer(number), offset, dtype) for number, offset in enumerate(offsets[:2], start=1))
        c = k.at(k.pointer(0), offsets[2], epilogue.result)
        operands = [
            Operand(k.at(k.pointer(3 + i), offsets[3 + i], epilogue.expr.operands[1 + i]), 0, kind)
            for i, kind in enumerate(kinds)
        ]
        with loop(k, first, last, name="block") as block:
            column = k.mul(block.index, lanes)
            count = k.min(k.sub(arg["columns"], column), lanes)
            with loop(k, 0, count, min(_COLUMNS, lanes), name="columns") as group:
                start = k.add(column, group.index)
                rows = [k.min(k.add(start, i), k.sub(arg["columns"], 1)) for i in range(min(_COLUMNS, lanes))]
                columns = [k.at(b, k.mul(row, arg["b_column"]), dtype) for row in rows]
                for i, total in enumerate(_dots(k, spec, a, columns, arg["depth"])):
                    store(k, total, k.scratch, k.add(group.index, i), dtype)
            mask = lane_mask(k, count, lanes)
            found = epilogue.apply(load(k, k.scratch, 0, dtype, lanes), operands, 0, column, mask)
            store_value(k, found, c, column, epilogue.result, mask)


def _dots(k: Kernel, spec: KernelSpec, a: ir.Value, columns: list[ir.Value], depth: Index) -> list[ir.Value]:
    """The dot product of `a` with each of `columns`."""
    dtype = spec["dtype"]
    lanes = k.target.lanes(dtype)
    zero = constant(dtype, 0.0, lanes)
    whole = k.mul(k.div(depth, 2 * lanes), 2 * lanes)
    with loop(k, 0, whole, 2 * lanes, carry=[zero] * (2 * len(columns)), name="depth") as turn:
        sums = list(turn.carry)
        for half in range(2):
            at = k.add(turn.index, half * lanes)
            left = load(k, a, at, dtype, lanes)
            for i, column in enumerate(columns):
                number = half * len(columns) + i
                sums[number] = multiply_add(k, left, load(k, column, at, dtype, lanes), sums[number])
        turn.next(*sums)
    sums = [
        k.b.fadd(one, other) for one, other in zip(turn.carry[: len(columns)], turn.carry[len(columns) :], strict=True)
    ]
    with loop(k, whole, depth, lanes, carry=sums, name="rest") as rest:
        mask = lane_mask(k, k.sub(depth, rest.index), lanes)
        left = load_masked(k, a, rest.index, dtype, mask, zero)
        rest.next(
            *(
                multiply_add(k, left, load_masked(k, column, rest.index, dtype, mask, zero), value)
                for column, value in zip(columns, rest.carry, strict=True)
            )
        )
    return [reduce(k, value, "fadd") for value in rest.carry]
