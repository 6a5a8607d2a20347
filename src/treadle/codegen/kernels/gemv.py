"""A vector times a matrix whose columns lie contiguous in memory: one dot product a column, bound by memory."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store
from treadle.codegen.emit.ranges import coordinates, offset_at, segments
from treadle.codegen.emit.vectors import constant, multiply_add, reduce
from treadle.codegen.kernels.expr import store_value
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.plan.kernels.gemv import GemvArgs, GemvSpec

_COLUMNS = 4
"""Dot products that are computed side by side."""


def emit_gemv(k: Kernel, spec: GemvSpec) -> None:
    """out[.., c] = epilogue(sum over t of a[.., t] * b[.., c * b_column + t], operands)."""
    args = k.args(GemvArgs[ir.Value], spec)
    epilogue = Epilogue(k, spec)
    dtype, lanes = epilogue.dtype, epilogue.lanes
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with segments(k, begin, end, args.blocks, "batch") as (batch, first, last):
        position = coordinates(k, batch, args.sizes)
        offsets = [
            offset_at(k, position, strides)
            for strides in (args.a_batch, args.b_batch, args.out_batch, *args.epilogue_batch)
        ]
        a, b = (k.at(k.pointer(number), offset, dtype) for number, offset in enumerate(offsets[:2], start=1))
        c = k.at(k.pointer(0), offsets[2], epilogue.result)
        operands = [
            Operand(k.at(k.pointer(3 + i), offsets[3 + i], epilogue.operand_dtype(i)), 0, kind)
            for i, kind in enumerate(spec.kinds)
        ]
        with loop(k, first, last, name="block") as block:
            column = k.mul(block.index, lanes)
            count = k.min(k.sub(args.columns, column), lanes)
            with loop(k, 0, count, min(_COLUMNS, lanes), name="columns") as group:
                start = k.add(column, group.index)
                rows = [k.min(k.add(start, i), k.sub(args.columns, 1)) for i in range(min(_COLUMNS, lanes))]
                columns = [k.at(b, k.mul(row, args.b_column), dtype) for row in rows]
                for i, total in enumerate(_dots(k, spec, a, columns, args.depth)):
                    store(k, total, k.scratch, k.add(group.index, i), dtype)
            mask = lane_mask(k, count, lanes)
            result = epilogue.apply(load(k, k.scratch, 0, dtype, lanes), operands, 0, column, mask)
            store_value(k, result, c, column, epilogue.result, mask)


def _dots(k: Kernel, spec: GemvSpec, a: ir.Value, columns: list[ir.Value], depth: Index) -> list[ir.Value]:
    """The dot product of `a` with each of `columns`."""
    dtype = spec.dtype
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
