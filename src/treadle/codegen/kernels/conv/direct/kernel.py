"""Direct convolution into the blocked layout: loops over channels, images and rows around register blocks.

A register block is a few neighbouring output pixels of one row times a few vectors of output channels.
Its sums stay in registers until they are finished; weights are packed in the order in which they are read.
A row is divided into segments of equal blocks. Which kernel columns fall outside the input at its left and right end is
known when code is generated, so borders take no time and the input is never copied. It is found at run time for the
pixels that may be left over in rows of an open width, and for all pixels where a dilated kernel reaches so far out of
the input that many blocks would need code of their own.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.kernels.conv.direct.block import RegisterBlock, RowOperands
from treadle.codegen.kernels.conv.rows import columns_inside, rows_inside, segment_blocks
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec, PrefetchArgs
from treadle.plan.target import LINE


def emit_conv(k: Kernel, spec: DirectConvSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum of x[n, c, h*s + i*d - p, w*s + j*d - p] * weights[m, c, i, j]).

    The sum is over c, i and j.
    """
    args = k.args(DirectConvArgs[ir.Value], spec)
    lanes, vectors, dtype = spec.lanes, spec.vectors, spec.dtype
    block = RegisterBlock(k, spec, args)
    per_channel = spec.kernel[0] * spec.columns * vectors * lanes

    group_chunk = k.div(k.chunk, args.unit_chunks)
    unit_chunk = k.sub(k.chunk, k.mul(group_chunk, args.unit_chunks))
    first_group = k.mul(group_chunk, args.groups_per_chunk)
    last_group = k.min(k.add(first_group, args.groups_per_chunk), args.groups)
    first_unit = k.mul(unit_chunk, args.units_per_chunk)
    last_unit = k.min(k.add(first_unit, args.units_per_chunk), k.mul(args.images, args.units))

    def images(weights: ir.Value, group: Index, channels: tuple[Index, Index]) -> None:
        set_offset = k.mul(k.div(group, args.groups_per_set), args.x_set)
        first_image = k.div(first_unit, args.units)
        end_image = k.div(k.add(last_unit, k.sub(args.units, 1)), args.units)
        with loop(k, first_image, end_image, name="image") as image:
            past = k.mul(image.index, args.units)
            x_offset = k.add(k.mul(image.index, args.x_image), set_offset)
            out_offset = k.add(k.mul(image.index, args.out_image), k.mul(group, k.mul(args.out_block, vectors)))
            operands = RowOperands(weights, x_offset, out_offset, image.index, k.mul(group, vectors * lanes), channels)
            units = k.max(k.sub(first_unit, past), 0), k.min(k.sub(last_unit, past), args.units)
            if spec.flat:
                _flat_row(k, spec, args, block, operands, units)
            else:
                _rows(k, spec, args, block, operands, units)

    with loop(k, first_group, last_group, name="group") as group:
        weights = k.at(k.pointer(2), k.mul(group.index, k.mul(args.channels, per_channel)), dtype)
        if not spec.passes:
            images(weights, group.index, (0, args.channels))
        else:
            count = k.div(k.add(args.channels, k.sub(args.channels_per_pass, 1)), args.channels_per_pass)
            with loop(k, 0, count, name="pass") as turn:
                begin = k.mul(turn.index, args.channels_per_pass)
                images(weights, group.index, (begin, k.min(k.add(begin, args.channels_per_pass), args.channels)))


def _rows(
    k: Kernel,
    spec: DirectConvSpec,
    args: DirectConvArgs[ir.Value],
    block: RegisterBlock,
    operands: RowOperands,
    rows: tuple[Index, Index],
) -> None:
    """Emits every block of the output rows `rows`."""
    with loop(k, *rows, name="row") as row:
        top = k.sub(k.mul(row.index, spec.strides[0]), args.pad_top)
        taps = rows_inside(k, spec, top, args.x_height)
        at = operands.moved(k, k.mul(top, args.x_row), k.mul(row.index, args.out_row))
        at = replace(_with_own_prefetch(k, spec, args, at, row.index), top=top)
        if spec.in_runs:
            _runs(spec, block, at, taps)
        else:
            _segments(spec, block, at, taps)


def _segments(spec: DirectConvSpec, block: RegisterBlock, at: RowOperands, taps: tuple[Index, Index]) -> None:
    """Emits the blocks of a row that is divided into segments."""
    k, args = block.k, block.args
    for number, columns in enumerate(spec.segments):
        with segment_blocks(k, spec, args.spans, number) as pixel:
            if spec.plain_input:
                block.prefetch_below(at, pixel, len(columns))
            if spec.checked and number == len(spec.segments) - 1:
                inside = columns_inside(k, spec, pixel, k.div(args.x_row, block.pixel))
                block.emit(at, pixel, columns, taps, inside)
            else:
                block.emit(at, pixel, columns, taps)


def _runs(spec: DirectConvSpec, block: RegisterBlock, at: RowOperands, taps: tuple[Index, Index]) -> None:
    """Emits the blocks of a row that is divided, at run time, into runs of pixels with the same kernel columns inside
    the input.

    The last block of a run ends with it, and computes some pixels again, to the same bits; a run that is shorter than
    the widest block is of smaller ones.
    """
    k, args = block.k, block.args
    width, out = k.div(args.x_row, block.pixel), k.div(args.out_row, spec.lanes)
    stride, dilation, pad = spec.strides[1], spec.dilations[1], spec.pad_left
    widest, *smaller = (len(columns) for columns in spec.segments)

    def first_at(position: Index) -> Index:
        """Returns the first pixel whose kernel begins at `position` of the input or behind it."""
        return k.div(k.add(k.max(k.add(position, pad), 0), stride - 1), stride)

    # A column enters and leaves the input once.
    with loop(k, 0, 2 * spec.kernel[1] + 1, carry=[as_i64(0)], name="run") as run:
        (begin,) = run.carry
        low, high = columns_inside(k, spec, begin, width)
        enters = k.b.select(k.less(0, low), as_i64(first_at(k.mul(k.sub(1, low), dilation))), as_i64(out))
        leaves = first_at(k.sub(width, k.mul(k.sub(high, 1), dilation)))
        change = k.b.select(k.less(low, high), as_i64(k.min(enters, leaves)), enters)
        end = k.min(change, out)
        count = k.max(k.sub(end, begin), 0)
        is_wide = k.b.icmp_signed(">=", count, as_i64(widest))
        with loop(k, 0, k.b.select(is_wide, count, as_i64(0)), widest, name="block") as turn:
            pixel = k.min(k.add(begin, turn.index), k.sub(end, widest))
            block.emit(at, pixel, spec.segments[0], taps, (low, high))
        done, rest = begin, k.b.select(is_wide, as_i64(0), count)
        for number, size in enumerate(smaller, 1):
            blocks = k.div(rest, size)
            with loop(k, 0, blocks, name=f"part{number}") as turn:
                block.emit(at, k.add(done, k.mul(turn.index, size)), spec.segments[number], taps, (low, high))
            done, rest = k.add(done, k.mul(blocks, size)), k.sub(rest, k.mul(blocks, size))
        run.next(as_i64(k.max(end, begin)))


def _flat_row(
    k: Kernel,
    spec: DirectConvSpec,
    args: DirectConvArgs[ir.Value],
    block: RegisterBlock,
    operands: RowOperands,
    units: tuple[Index, Index],
) -> None:
    """Emits the blocks numbered `units` of an image that is one long row."""
    past: Index = 0
    for number, columns in enumerate(spec.segments):
        start, count = args.spans[number]
        first, last = (k.sub(unit, past) for unit in units)
        with loop(k, k.max(first, 0), k.min(last, count), name=f"segment{number}") as turn:
            unit = k.add(past, turn.index)
            at = _with_constant_prefetch(k, spec, args, _with_own_prefetch(k, spec, args, operands, unit), unit)
            block.emit(at, k.add(start, k.mul(turn.index, len(columns))), columns, (0, 1))
        past = k.add(past, count)


def _with_own_prefetch(
    k: Kernel, spec: DirectConvSpec, args: DirectConvArgs[ir.Value], operands: RowOperands, unit: Index
) -> RowOperands:
    """Returns `operands` for unit number `unit`, which prefetches its part of the weights of the next group."""
    if not spec.prefetch_lines:
        return operands
    group = spec.kernel[0] * spec.columns * spec.vectors * spec.lanes * spec.dtype.size
    return replace(operands, next_group=k.add(k.mul(args.channels, group), k.mul(unit, spec.prefetch_lines * LINE)))


def _with_constant_prefetch(
    k: Kernel, spec: DirectConvSpec, args: DirectConvArgs[ir.Value], operands: RowOperands, unit: Index
) -> RowOperands:
    """Returns `operands` for unit number `unit`, which prefetches its part of a constant that a later call reads."""
    if not isinstance(args.prefetch, PrefetchArgs):
        return operands
    group = k.div(operands.channel, spec.vectors * spec.lanes)
    number = k.add(k.mul(k.add(k.mul(group, args.images), operands.image), args.units), unit)
    return replace(operands, constant=k.mul(number, k.mul(args.channels, args.prefetch.channel_bytes)))
