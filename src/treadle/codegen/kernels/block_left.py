"""block_left: the left factor of a product with packed numbers, scaled or rounded block by block."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load_masked, store
from treadle.codegen.emit.types import I8, I16, I32, vector, vector_of
from treadle.codegen.emit.vectors import binary_intrinsic, constant, like, reduce, splat, take, unary_intrinsic
from treadle.dtypes import f32, i8, i16
from treadle.plan.kernels.block_matmul import (
    LARGEST,
    LEFT_DTYPES,
    BlockLeftArgs,
    BlockLeftSpec,
    left_factor,
    word_numbers,
)


def emit_block_left(k: Kernel, spec: BlockLeftSpec) -> None:
    """left[r] = a[r] made ready as `spec.left` says, with 0 behind the depth. A unit is a row.

    A rounded block that holds a NaN or an infinity gets a scale that is one.
    """
    args = k.args(BlockLeftArgs[ir.Value], spec)
    dtype = LEFT_DTYPES[spec.left]
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="row") as row:
        padded = k.mul(args.depth_blocks, spec.block)
        left = k.at(k.pointer(0), k.mul(row.index, padded), dtype)
        scales = k.at(k.pointer(1), k.mul(row.index, k.mul(args.depth_blocks, 2)), f32)
        a = k.at(k.pointer(2), k.mul(row.index, args.depth), f32)
        with loop(k, 0, args.depth_blocks, name="block") as block:
            first = k.mul(block.index, spec.block)
            if spec.left == "real":
                scale, total = constant(f32, 1.0), _scaled(k, spec, left, a, first, args.depth)
            else:
                scale, total = _rounded(k, spec, left, a, first, args.depth)
            store(k, scale, scales, block.index, f32)
            store(k, total, scales, k.add(args.depth_blocks, block.index), f32)


def _numbers(k: Kernel, a: ir.Value, at: Index, depth: Index) -> ir.Value:
    """A vector of a from `at` on, 0 behind the depth."""
    lanes = k.target.lanes(f32)
    return load_masked(k, a, at, f32, lane_mask(k, k.sub(depth, at), lanes), constant(f32, 0.0, lanes))


def _scaled(k: Kernel, spec: BlockLeftSpec, left: ir.Value, a: ir.Value, first: Index, depth: Index) -> ir.Value:
    """Stores a block as real numbers, and returns its sum."""
    lanes, each = k.target.lanes(f32), word_numbers(spec.bits)
    turn = max(lanes, each)
    with loop(k, 0, spec.block, turn, carry=[constant(f32, 0.0, lanes)], name="part") as part:
        total = part.carry[0]
        for begin in range(0, turn, lanes):
            at = k.add(k.add(first, part.index), begin)
            value = _numbers(k, a, at, depth)
            total = k.b.fadd(total, value)
            factors = [left_factor(number % each, spec.bits) for number in range(begin, begin + lanes)]
            store(k, k.b.fmul(value, ir.Constant(vector(f32, lanes), factors)), left, at, f32)
        part.next(total)
    return reduce(k, part.carry[0], "fadd")


def _rounded(
    k: Kernel, spec: BlockLeftSpec, left: ir.Value, a: ir.Value, first: Index, depth: Index
) -> tuple[ir.Value, ir.Value]:
    """Stores a block as integers, and returns its scale and the sum of the integers."""
    lanes = k.target.lanes(f32)
    with loop(k, 0, spec.block, lanes, carry=[constant(f32, 0.0, lanes)], name="part") as part:
        value = unary_intrinsic(k, "fabs", _numbers(k, a, k.add(first, part.index), depth))
        part.next(binary_intrinsic(k, "maximum", part.carry[0], value))
    largest = reduce(k, part.carry[0], "maximum")
    nought = like(largest, 0.0)
    inverse = k.b.select(
        k.b.fcmp_ordered(">", largest, nought), k.b.fdiv(like(largest, float(LARGEST)), largest), nought
    )
    factor = splat(k, inverse, lanes)
    with loop(k, 0, spec.block, lanes, carry=[ir.Constant(vector_of(I32, lanes), None)], name="rounded") as part:
        at = k.add(first, part.index)
        scaled = unary_intrinsic(k, "roundeven", k.b.fmul(_numbers(k, a, at, depth), factor))
        finite = k.b.select(k.b.fcmp_ordered("ord", scaled, scaled), scaled, constant(f32, 0.0, lanes))
        whole = k.b.fptosi(finite, vector_of(I32, lanes))
        if spec.left == "bytes":
            store(k, k.b.trunc(whole, vector_of(I8, lanes)), left, at, i8)
        else:
            order = [place - place % 4 + (0, 2, 1, 3)[place % 4] for place in range(lanes)]
            store(k, take(k, k.b.trunc(whole, vector_of(I16, lanes)), order), left, at, i16)
        part.next(k.b.add(part.carry[0], whole))
    total = k.b.sitofp(reduce(k, part.carry[0], "add"), largest.type)
    return k.b.fmul(largest, like(largest, 1 / LARGEST)), total
