"""The register block of a direct convolution: its sums, the loops over what is summed, and the store."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.bfloat import bf16_dot, bf16_dot_at
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, load_masked, prefetch, store
from treadle.codegen.emit.types import FLOAT, I1, I32, I64, lanes_of, scalar
from treadle.codegen.emit.vectors import constant, multiply_add, opaque, splat, take, zeros
from treadle.codegen.emit.vnni import dot_of_pairs, load_vnni_left, vnni_dot
from treadle.codegen.kernels.conv.epilogue import Epilogue
from treadle.codegen.kernels.conv.rows import over_columns
from treadle.codegen.kernels.remainders import Remainders
from treadle.dtypes import bf16
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec, PrefetchArgs
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.rows import Columns
from treadle.plan.target import LINE
from treadle.records import dataclass

_LINES_UNROLLED = 64
"""More lines are prefetched by a loop, so that code is short where kernels are wide."""

_COLUMNS_AT_ONCE = 4
"""Columns of a wide kernel in a turn of the loop over them."""

_MOST_PREFETCHES = 64
"""A block whose strides are so wide that it would need more prefetches has none: it reads few of the lines below it."""


@dataclass(frozen=True, slots=True)
class RowOperands:
    """The operands of a row of blocks: weights of its output channels, element offsets into x and out.

    `x` is the offset of the input row that kernel row 0 reads (it may lie above the input), `out` that of the output
    row, `channel` the first output channel, `channels` the range of input channels to sum over.
    """

    weights: ir.Value
    x: Index
    out: Index
    image: Index
    channel: Index
    channels: tuple[Index, Index]
    next_group: Index = 0
    """Bytes from the weights that a turn reads to those of the next group that it prefetches."""
    constant: Index = 0
    """Byte offset of the part of the constant that these blocks prefetch."""
    top: Index = 0
    """The input row of kernel row 0."""
    inside: tuple[Index, Index] | None = None
    """The kernel columns inside the input, of a block for which they are not known before."""

    def moved(self, k: Kernel, x: Index, out: Index) -> RowOperands:
        """Returns the same with `x` and `out` advanced by these numbers of elements."""
        return replace(self, x=k.add(self.x, x), out=k.add(self.out, out))


@dataclass(frozen=True, slots=True)
class Stream:
    """Weights that turns read one after the other, and what these prefetch: see RowOperands."""

    weights: ir.Value
    next_group: Index
    constant: Index


def loaded_again(k: Kernel, pointer: ir.Value) -> ir.Value:
    """Returns `pointer` such that what was loaded from it is loaded again.

    Neighbouring kernel columns read mostly the same pixels. If LLVM merged those loads, it would need more registers
    than there are; loading again takes no time.
    """
    return opaque(k, pointer)


def blurred(k: Kernel, value: ir.Value) -> ir.Value:
    """Returns the AVX-512 vector `value` such that the optimiser cannot know that its lanes are equal.

    LLVM would broadcast the element again for half a vector, instead of using half of this one.
    """
    return opaque(k, value)


def widen(k: Kernel, value: ir.Value, lanes: int) -> ir.Value:
    """Returns `value` with zeros behind it, `lanes` lanes in all."""
    have = lanes_of(value.type)
    if have == lanes:
        return value
    order = ir.Constant(ir.VectorType(I32, lanes), [min(lane, have) for lane in range(lanes)])
    return k.b.shuffle_vector(value, ir.Constant(value.type, None), order)


class RegisterBlock:
    """Emits blocks of one convolution kernel."""

    def __init__(self, k: Kernel, spec: DirectConvSpec, args: DirectConvArgs[ir.Value]) -> None:
        self.k = k
        self.args = args
        self.dtype, self.lanes, self.vectors = spec.dtype, spec.lanes, spec.vectors
        self.widths = [self.lanes] * (self.vectors - 1) + [spec.last_lanes]
        self.kernel, self.strides, self.dilations = spec.kernel, spec.strides, spec.dilations
        self.pad_left, self.unroll = spec.pad_left, spec.unroll
        self.prefetch_lines = spec.prefetch_lines
        self.plain_input, self.passes, self.bias = spec.plain_input, spec.passes, spec.bias
        self.vnni = spec.vnni
        self.block = self.lanes // (4 if self.vnni else 2 if spec.bf16_dot or spec.words else 1)
        self.pixel = 1 if self.plain_input else self.block
        self.two_columns = spec.bf16_dot and self.plain_input
        self.columns = spec.columns
        self.source = spec.input_dtype
        self.multiply_add = bf16_dot if spec.bf16_dot else dot_of_pairs if spec.words else multiply_add
        self.used_once = spec.bf16_dot and not self.plain_input and self.vectors == 1
        self.pad = k.pointer(spec.padding_pointer) if spec.padded else None
        self.remainders: Remainders | None = None
        if spec.remainders:
            table = k.pointer(spec.remainders_pointer)
            self.remainders = Remainders(k, table, args.groups, self.vectors * self.lanes)
        self.constant = k.pointer(spec.prefetch_pointer) if spec.prefetches_constant else None
        self.epilogue = Epilogue(k, spec, args.outputs)

    def emit(
        self,
        operands: RowOperands,
        pixel: Index,
        columns: Columns,
        taps: tuple[Index, Index],
        inside: tuple[Index, Index] | None = None,
    ) -> None:
        """Computes the len(columns) output pixels that begin at `pixel`, over the kernel rows `taps`.

        A block may have a range of kernel columns that are `inside` the input for all its pixels in place of `columns`;
        of bytes, and of two columns at once, only one of one pixel.
        """
        operands = replace(operands, inside=inside)
        k = self.k
        out = k.add(operands.out, k.mul(pixel, self.lanes))
        left = k.sub(k.mul(pixel, self.strides[1] * self.pixel), self.pad_left * self.pixel)
        sums = self._begin(operands, out, len(columns))
        sums = self._reduce(operands, k.add(operands.x, left), columns, taps, sums)
        if self.remainders is not None:
            sums = self._add_remainders(self.remainders, operands, k.add(operands.x, left), columns, sums)
        self._end(operands, out, [widen(k, value, self.lanes) for value in sums])

    def prefetch_below(self, operands: RowOperands, pixel: Index, pixels: int) -> None:
        """Prefetches what the block below the `pixels` at `pixel` reads of a row-major input and this one does not.

        An image that the caller has just written comes from memory, and hardware does not prefetch across channels.
        """
        k, size = self.k, self.source.size
        lines = range(0, pixels * self.strides[1] * size, LINE)
        if self.strides[0] * len(lines) > _MOST_PREFETCHES:
            return
        step = self.args.x_row
        below = k.mul(step, (self.kernel[0] - 1) * self.dilations[0] + 1)
        left = k.sub(k.mul(pixel, self.strides[1]), self.pad_left)
        first = k.add(k.add(operands.x, below), left)
        with loop(k, 0, self.args.channels, name="plane") as plane:
            at = k.add(first, k.mul(plane.index, self.args.x_channel))
            for row in range(self.strides[0]):
                start = k.mul(k.add(at, k.mul(step, row)), size)
                for byte in lines:
                    prefetch(k, k.pointer(1), k.add(start, byte), near=True)

    def _begin(self, operands: RowOperands, out: Index, pixels: int) -> list[ir.Value]:
        """Returns what sums begin with, pixel by pixel: the bias, or in later passes the sums that `out` holds."""
        k, lanes, dtype = self.k, self.lanes, self.dtype
        if not self.passes:
            first = [
                load(k, k.pointer(BIAS_POINTER), k.add(operands.channel, v * lanes), dtype, width)
                if self.bias
                else constant(dtype, 0.0, width)
                for v, width in enumerate(self.widths)
            ]
            return first * pixels
        start = k.b.icmp_signed("==", as_i64(operands.channels[0]), I64(0))
        bias, stored = k.at(k.pointer(BIAS_POINTER), operands.channel, dtype), k.at(k.pointer(0), out, dtype)
        base = k.b.select(start, bias, stored)
        step = k.b.select(start, I64(0), I64(lanes))
        row = k.b.select(start, I64(lanes), self.args.out_block)
        return [
            load(k, base, k.add(k.mul(step, p), k.mul(row, v)), dtype, width)
            for p in range(pixels)
            for v, width in enumerate(self.widths)
        ]

    def _reduce(
        self, operands: RowOperands, x: Index, columns: Columns, taps: tuple[Index, Index], sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Returns `sums` plus the products over the input channels of `operands` and the kernel rows `taps`."""
        k, args, block = self.k, self.args, self.block
        per_tap = self.columns * self.vectors * self.lanes
        if self.plain_input:
            return self._rows(
                operands,
                x,
                Stream(operands.weights, operands.next_group, operands.constant),
                args.channels,
                columns,
                taps,
                sums,
            )
        first, last = operands.channels
        begin, end = k.div(first, block), k.div(k.add(last, block - 1), block)
        per_block = block * per_tap * self.kernel[0]
        weights = k.at(operands.weights, k.mul(begin, per_block), self.dtype)
        x = as_i64(k.add(x, k.mul(begin, args.x_channel)))
        with loop(k, begin, end, carry=[*sums, x, weights], name="channels") as blocks:
            *sums, x, weights = blocks.carry
            channel = k.mul(blocks.index, block)
            count = k.min(k.sub(last, channel), block)
            constant: Index = 0
            if isinstance(args.prefetch, PrefetchArgs):
                constant = k.add(operands.constant, k.mul(channel, args.prefetch.channel_bytes))
            stream = Stream(weights, operands.next_group, constant)
            sums = self._rows(operands, x, stream, count, columns, taps, sums)
            blocks.next(*sums, k.add(x, args.x_channel), k.at(weights, per_block, self.dtype))
        return blocks.carry[:-2]

    def _rows(
        self,
        operands: RowOperands,
        x: Index,
        stream: Stream,
        count: Index,
        columns: Columns,
        taps: tuple[Index, Index],
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Returns `sums` plus the products of `count` input channels and kernel rows `taps` with weights `stream`."""
        k = self.k
        if self.kernel[0] == 1 and taps == (0, 1):
            return self._channels(operands, self._base(x, operands.top), stream, count, columns, sums)
        panel = k.mul(count, self.columns * self.vectors * self.lanes)
        row = k.mul(self.args.x_row, self.dilations[0])
        with loop(k, *taps, carry=sums, name="tap") as tap:
            tap_stream = replace(stream, weights=k.at(stream.weights, k.mul(tap.index, panel), self.dtype))
            tap_x = k.add(x, k.mul(tap.index, row))
            at = k.add(operands.top, k.mul(tap.index, self.dilations[0]))
            tap.next(*self._channels(operands, self._base(tap_x, at), tap_stream, count, columns, tap.carry))
        return tap.carry

    def _base(self, x: Index, row: Index) -> ir.Value:
        """Returns the address of input row `row`, whose offset is `x`; outside the input, that of the padding."""
        k = self.k
        base = k.b.gep(k.pointer(1), [x], source_etype=scalar(self.source))
        if self.pad is None:
            return base
        inside = k.b.icmp_unsigned("<", as_i64(row), self.args.x_height)
        return k.b.select(inside, base, self.pad)

    def _channels(
        self,
        operands: RowOperands,
        base: ir.Value,
        stream: Stream,
        count: Index,
        columns: Columns,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Returns `sums` plus the products over `count` input channels of one kernel row."""
        k, here, constant = self.k, stream.weights, self.args.prefetch
        per_channel = self.columns * self.vectors * self.lanes
        step = self.args.x_channel if self.plain_input else 1
        with loop(k, 0, count, self.unroll, carry=sums, name="channel") as turn:
            values = list(turn.carry)
            next_weights = k.add(k.mul(k.mul(turn.index, per_channel), self.dtype.size), stream.next_group)
            self._prefetch_lines(here, next_weights)
            if isinstance(constant, PrefetchArgs):
                assert self.constant is not None, "what is prefetched has a pointer"
                at = k.add(stream.constant, k.mul(turn.index, constant.channel_bytes))
                with loop(k, 0, constant.turn_lines, name="line") as line_turn:
                    prefetch(k, self.constant, k.add(at, k.mul(line_turn.index, LINE)))
            x_first = k.b.gep(base, [k.mul(turn.index, step)], source_etype=scalar(self.source))
            weights_first = k.at(here, k.mul(turn.index, per_channel), self.dtype)
            for u in range(self.unroll):
                x_at = k.b.gep(x_first, [as_i64(k.mul(step, u))], source_etype=scalar(self.source))
                weights_at = k.at(weights_first, u * per_channel, self.dtype)
                if operands.inside is not None:
                    values = self._columns_inside(x_at, weights_at, operands.inside, values)
                    continue
                values = self._all_columns(x_at, weights_at, columns, values)
            turn.next(*values)
        return turn.carry

    def _prefetch_lines(self, weights: ir.Value, first: Index) -> None:
        """Prefetches the lines of `weights`, from the byte `first` on, that a turn of the loop over channels reads."""
        k, lines = self.k, self.prefetch_lines
        if lines > _LINES_UNROLLED:  # the weights of a wide kernel
            with loop(k, 0, lines, name="line") as turn:
                prefetch(k, weights, k.add(first, k.mul(turn.index, LINE)))
            return
        for line in range(lines):
            prefetch(k, weights, k.add(first, line * LINE))

    def _all_columns(self, x: ir.Value, weights: ir.Value, columns: Columns, sums: list[ir.Value]) -> list[ir.Value]:
        """Returns `sums` plus the products of one element of channels and all kernel columns."""
        k = self.k
        width = 2 if self.two_columns else 1

        def add(first: Index, inside: Columns, numbers: range, values: list[ir.Value]) -> None:
            step = width * self.dilations[1] * self.pixel
            at = k.b.gep(x, [as_i64(k.mul(first, step))], source_etype=scalar(self.source))
            factors = k.at(weights, k.mul(first, self.vectors * self.lanes), self.dtype)
            for column in numbers:
                if self.vnni:
                    self._column_of_bytes(at, factors, column, inside, values)
                else:
                    self._column(at, factors, column, inside, values)

        return over_columns(k, columns, self.columns, _COLUMNS_AT_ONCE, sums, add, width=width)

    def _columns_inside(
        self, x: ir.Value, weights: ir.Value, inside: tuple[Index, Index], sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Returns `sums` plus the products of one element of channels and the kernel columns `inside`."""
        k, pixels = self.k, len(sums) // self.vectors
        whole = self.two_columns or self.pad is not None
        step = (2 if self.two_columns else 1) * self.dilations[1] * self.pixel
        with loop(k, *((0, self.columns) if whole else inside), carry=sums, name="column") as turn:
            values = list(turn.carry)
            factors = k.at(weights, k.mul(turn.index, self.vectors * self.lanes), self.dtype)
            at = k.b.gep(x, [k.mul(turn.index, step)], source_etype=scalar(self.source))
            if self.two_columns:
                pixels = splat(k, self._pixels_inside(at, k.mul(turn.index, 2), inside), self.lanes)
                for v, width in enumerate(self.widths):
                    same = pixels if width == self.lanes else take(k, pixels, range(width))
                    factor = load(k, factors, v * self.lanes, self.dtype, width)
                    values[v] = self.multiply_add(k, same, factor, values[v])
            elif self.vnni:
                if self.pad is not None:
                    at = k.b.select(self._is_inside(turn.index, inside), at, self.pad)
                self._column_of_bytes(at, factors, 0, ((0, 1),), values)
            else:
                self._column(at, factors, 0, ((0, 1),) * pixels, values)
            turn.next(*values)
        return turn.carry

    def _is_inside(self, column: Index, inside: tuple[Index, Index]) -> ir.Value:
        """Returns whether kernel column `column` is one of those `inside`, as an i1."""
        k = self.k
        return k.b.and_(k.less(k.sub(inside[0], 1), column), k.less(column, inside[1]))

    def _pixels_inside(self, x: ir.Value, column: Index, inside: tuple[Index, Index]) -> ir.Value:
        """Returns two neighbouring pixels of a row-major bf16 image, which kernel columns from `column` on read.

        A pixel that is not `inside` the image is 0.
        """
        k = self.k
        mask = ir.Constant(ir.VectorType(I1, 2), [0, 0])
        for lane in range(2):
            mask = k.b.insert_element(mask, self._is_inside(k.add(column, lane), inside), I32(lane))
        none = zeros(bf16, 2)
        return k.b.bitcast(load_masked(k, x, 0, bf16, mask, none), FLOAT)

    def _column(self, x: ir.Value, weights: ir.Value, column: int, columns: Columns, sums: list[ir.Value]) -> None:
        """Adds the products of one element of channels and one kernel column (or two) to `sums`, in operands."""
        k, lanes = self.k, self.lanes
        width = 2 if self.two_columns else 1
        first = column * width
        users = [p for p, (low, high) in enumerate(columns) if low < first + width and first < high]
        if not users:
            return
        factors = [
            load(k, weights, (column * self.vectors + v) * lanes, self.dtype, width)
            for v, width in enumerate(self.widths)
        ]
        if column and self.columns > 1:
            x = loaded_again(k, x)
        for p in users:
            position = (p * self.strides[1] + first * self.dilations[1]) * self.pixel
            if self.used_once:
                sums[p] = bf16_dot_at(k, x, position * self.dtype.size, factors[0], sums[p])
                continue
            if self.two_columns:
                low, high = columns[p]
                value = self._two_pixels(x, position, inside=(low <= first, first + 1 < high))
            else:
                value = splat(k, load(k, x, position, self.dtype), lanes)
                if self.widths[-1] != lanes:
                    value = blurred(k, value)
            for v, factor in enumerate(factors):
                number = p * self.vectors + v
                same = value if self.widths[v] == lanes else take(k, value, range(self.widths[v]))
                sums[number] = self.multiply_add(k, same, factor, sums[number])

    def _column_of_bytes(
        self, x: ir.Value, weights: ir.Value, column: int, columns: Columns, sums: list[ir.Value]
    ) -> None:
        """Adds the VNNI dot products of four channels and one kernel column to `sums`, in operands."""
        k, lanes = self.k, self.lanes
        inside = [low <= column < high for low, high in columns]
        if not any(inside) and self.pad is None:
            return
        factors = [
            load(k, weights, (column * self.vectors + v) * lanes, self.dtype, lanes) for v in range(self.vectors)
        ]
        if column and self.columns > 1:
            x = loaded_again(k, x)
        padding: ir.Value | None = None
        for p, is_inside in enumerate(inside):
            if is_inside:
                position = (p * self.strides[1] + column * self.dilations[1]) * self.pixel
                value = load_vnni_left(k, x, position, lanes, signed=self.vnni == "signed")
            elif self.pad is not None:
                padding = padding or load_vnni_left(k, self.pad, 0, lanes, signed=self.vnni == "signed")
                value = padding
            else:
                continue
            for v, factor in enumerate(factors):
                number = p * self.vectors + v
                sums[number] = vnni_dot(k, value, factor, sums[number])

    def _add_remainders(
        self, remainders: Remainders, operands: RowOperands, x: Index, columns: Columns, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Returns `sums` plus the products of the second terms of weights that were split."""
        k = self.k
        group = k.div(operands.channel, remainders.width)
        with remainders.of_panel(group, sums, 4) as (turn, (block, element, row, column), weights):
            values = list(turn.carry)
            along = k.mul(row, self.dilations[0])
            at = k.add(k.mul(block, self.args.x_channel), k.mul(along, self.args.x_row))
            base = self._base(k.add(x, at), k.add(operands.top, along))
            here = k.add(element, k.mul(column, self.dilations[1] * self.pixel))
            first = k.b.gep(base, [as_i64(here)], source_etype=scalar(self.source))
            factors = [load(k, weights, v * self.lanes, self.dtype, self.lanes) for v in range(self.vectors)]
            for p, known in enumerate(columns):
                inside = operands.inside or known
                pixel = k.at(first, p * self.strides[1] * self.pixel, self.source)
                if self.pad is not None and inside != (0, self.columns):
                    pixel = k.b.select(self._is_inside(column, inside), pixel, self.pad)
                value = load_vnni_left(k, pixel, 0, self.lanes, signed=self.vnni == "signed")
                for v, factor in enumerate(factors):
                    number = p * self.vectors + v
                    values[number] = vnni_dot(k, value, factor, values[number])
            turn.next(*values)
        return turn.carry

    def _two_pixels(self, x: ir.Value, position: int, inside: tuple[bool, bool]) -> ir.Value:
        """Returns two neighbouring pixels of a row-major bf16 image in every lane.

        A pixel that is not `inside` the image, or that no kernel column reads, is 0.
        """
        k = self.k
        if all(inside):
            both = k.b.load(k.at(x, position, bf16), align=bf16.size, typ=FLOAT)
        else:
            one = k.b.zext(load(k, x, position + (not inside[0]), bf16), I32)
            both = k.b.bitcast(one if inside[0] else k.b.shl(one, I32(16)), FLOAT)
        return splat(k, both, self.lanes)

    def _end(self, operands: RowOperands, out: Index, sums: list[ir.Value]) -> None:
        """Stores the block, with the epilogue applied unless passes over further input channels follow."""
        k = self.k
        outs = [k.add(out, k.mul(self.args.out_block, v)) for v in range(self.vectors)]
        if not self.passes or self.epilogue.expr is None:
            self.epilogue.store_block(sums, operands.image, operands.channel, outs)
            return
        unfinished = k.less(operands.channels[1], self.args.channels)
        with k.b.if_else(unfinished) as (then, otherwise):
            with then:
                for number, value in enumerate(sums):
                    p, v = divmod(number, self.vectors)
                    store(k, value, k.pointer(0), k.add(outs[v], p * self.lanes), self.dtype)
            with otherwise:
                self.epilogue.store_block(sums, operands.image, operands.channel, outs)
