"""Convolution of row-major tensors, for all that the blocked kernels cannot compute.

A vector is a piece of an output row. Any groups, strides, dilations and pads; the weights may be computed at run time.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store_masked
from treadle.codegen.emit.ranges import taps_inside
from treadle.codegen.emit.types import I1, I32, I64, POINTER, scalar, vector
from treadle.codegen.emit.vectors import constant, mangled, multiply_add, splat
from treadle.codegen.kernels.conv.row_major import RowEpilogue
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.plain import PlainConvArgs, PlainConvSpec


def emit_conv_plain(k: Kernel, spec: PlainConvSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum of x[n, c, h*s + i*d - p, w*s + j*d - p] * weights[m, c, i, j]).

    The sum is over c, i and j.
    """
    args = k.args(PlainConvArgs[ir.Value], spec)
    at_once = spec.outputs_at_once
    epilogue = RowEpilogue(spec, args)
    out_blocks = k.div(args.outputs, at_once)
    with loop(k, *k.chunk_range(args.units, args.units_per_chunk), name="unit") as unit:
        row = k.rem(unit.index, args.out_height)
        rest = k.div(unit.index, args.out_height)
        output = k.mul(k.rem(rest, out_blocks), at_once)
        image = k.div(rest, out_blocks)
        with loop(k, 0, args.out_width, spec.lanes, name="column") as column:
            sums = _sums(k, spec, args, image, output, row, column.index)
            mask = lane_mask(k, k.sub(args.out_width, column.index), spec.lanes)
            for number, value in enumerate(sums):
                channel = k.add(output, number)
                line = k.add(k.mul(k.add(k.mul(image, args.outputs), channel), args.out_height), row)
                result = epilogue.apply(k, value, (image, channel, row), column.index, mask)
                at = k.add(k.mul(line, args.out_width), column.index)
                store_masked(k, result, k.pointer(0), at, spec.dtype, mask)


def _sums(
    k: Kernel,
    spec: PlainConvSpec,
    args: PlainConvArgs[ir.Value],
    image: Index,
    output: Index,
    row: Index,
    column: Index,
) -> list[ir.Value]:
    """Returns bias plus products of `lanes` pixels of a row from `column` on, for each of the outputs at once."""
    dtype, lanes, at_once = spec.dtype, spec.lanes, spec.outputs_at_once
    start = [constant(dtype, 0.0, lanes)] * at_once
    if spec.bias:
        start = [splat(k, load(k, k.pointer(BIAS_POINTER), k.add(output, i), dtype), lanes) for i in range(at_once)]
    top = k.sub(k.mul(row, args.stride_down), args.pad_top)
    left = k.sub(k.mul(column, args.stride_across), args.pad_left)
    first_channel = k.mul(k.div(output, args.group_outputs), args.group_channels)
    x_image = k.mul(k.add(k.mul(image, args.channels), first_channel), k.mul(args.x_height, args.x_width))
    taps = k.mul(args.kernel_height, args.kernel_width)
    panel = k.mul(args.group_channels, taps)
    rows = taps_inside(k, top, args.x_height, args.kernel_height, args.dilation_down)
    with loop(k, 0, args.group_channels, carry=start, name="channel") as channel:
        plane = k.add(x_image, k.mul(channel.index, k.mul(args.x_height, args.x_width)))
        with loop(k, *rows, carry=channel.carry, name="tap") as tap:
            line = k.add(plane, k.mul(k.add(top, k.mul(tap.index, args.dilation_down)), args.x_width))
            with loop(k, 0, args.kernel_width, carry=tap.carry, name="across") as across:
                position = k.add(left, k.mul(across.index, args.dilation_across))
                pixels = _pixels(k, spec, args, line, position)
                element = k.add(k.mul(tap.index, args.kernel_width), across.index)
                weight = k.add(k.add(k.mul(output, panel), k.mul(channel.index, taps)), element)
                factors = [load(k, k.pointer(2), k.add(weight, k.mul(panel, i)), dtype) for i in range(at_once)]
                across.next(
                    *[
                        multiply_add(k, pixels, splat(k, factor, lanes), value)
                        for factor, value in zip(factors, across.carry, strict=True)
                    ]
                )
            tap.next(*across.carry)
        channel.next(*tap.carry)
    return channel.carry


def _pixels(k: Kernel, spec: PlainConvSpec, args: PlainConvArgs[ir.Value], line: Index, position: Index) -> ir.Value:
    """Returns in lane i the element `position` + i * stride of the input row at `line`; 0 outside the row."""
    dtype, lanes = spec.dtype, spec.lanes
    iota = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    stride = splat(k, k.b.trunc(args.stride_across, I32), lanes)
    steps = iota if spec.unit_stride else k.b.mul(iota, stride)
    positions = k.b.add(steps, splat(k, k.b.trunc(as_i64(position), I32), lanes))
    mask = k.b.icmp_unsigned("<", positions, splat(k, k.b.trunc(args.x_width, I32), lanes))
    zero = constant(dtype, 0.0, lanes)
    base = k.b.gep(k.pointer(1), [as_i64(line)], source_etype=scalar(dtype))
    if spec.unit_stride:
        start = k.b.gep(base, [as_i64(position)], source_etype=scalar(dtype))
        return load_masked(k, start, 0, dtype, mask, zero)
    wide = ir.VectorType(I64, lanes)
    offsets = k.b.mul(k.b.sext(positions, wide), ir.Constant(wide, [dtype.size] * lanes))
    addresses = k.b.add(splat(k, k.b.ptrtoint(base, I64), lanes), offsets)
    pointers = k.b.inttoptr(addresses, ir.VectorType(POINTER, lanes))
    type_ = vector(dtype, lanes)
    name = f"llvm.masked.gather.{mangled(type_)}.v{lanes}p0"
    gather = k.intrinsic(name, type_, pointers.type, I32, ir.VectorType(I1, lanes), type_)
    return k.b.call(gather, [pointers, I32(dtype.size), mask, zero])
