"""Convolution of a blocked input to a few row-major output channels.

A lane is an input channel. Each sum of a register block is a vector for one output and one pixel; the lanes of those of
neighbouring pixels are added up together, which gives a piece of an output row.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load, store_masked
from treadle.codegen.emit.ranges import taps_inside
from treadle.codegen.emit.types import I64
from treadle.codegen.emit.vectors import constant, lane_sums, multiply_add, splat
from treadle.codegen.kernels.conv.row_major import RowEpilogue
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.few_outputs import FewOutputsArgs, FewOutputsSpec
from treadle.records import dataclass


def emit_conv_few_outputs(k: Kernel, spec: FewOutputsSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum of x[n, c, h*s + i*d - p, w*s + j*d - p] * weights[m, c, i, j]).

    The sum is over c, i and j. Blocks cover the pixels that read no column outside x; the last block ends with them,
    and computes some again, to the same bits. The other pixels are computed one by one.
    """
    args = k.args(FewOutputsArgs[ir.Value], spec)
    rows = _Rows(k, spec, args)
    inside = k.sub(args.high, args.low)
    tiled = k.b.select(k.less(inside, spec.pixels), I64(0), inside)
    with loop(k, *k.chunk_range(args.units, args.units_per_chunk), name="unit") as unit:
        row = _Row(k.div(unit.index, args.out_height), k.rem(unit.index, args.out_height))
        with loop(k, 0, tiled, spec.pixels, name="tile") as tile:
            column = k.min(k.add(args.low, tile.index), k.sub(args.high, spec.pixels))
            rows.store(row, column, rows.tile(row, column), spec.pixels)
        with loop(k, 0, k.sub(args.out_width, tiled), name="edge") as edge:
            column = k.add(edge.index, k.b.select(k.less(edge.index, args.low), I64(0), tiled))
            rows.store(row, column, rows.edge(row, column), 1)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the result: its image, and its number there."""

    image: Index
    number: Index


@dataclass(frozen=True, slots=True)
class _Taps:
    """Where a row of the kernel meets a block of channels: the addresses of its first column in x, for the first pixel
    of a block, and of its weights."""

    x: ir.Value
    weights: ir.Value


_Add = Callable[[_Taps, "list[ir.Value]"], "list[ir.Value]"]
"""Returns sums plus the products of one row of the kernel."""


class _Rows:
    """What computes and stores pieces of rows."""

    def __init__(self, k: Kernel, spec: FewOutputsSpec, args: FewOutputsArgs[ir.Value]) -> None:
        self.k, self.spec, self.args = k, spec, args
        self.x_row = k.mul(args.x_width, spec.lanes)
        self.x_block = k.mul(args.x_height, self.x_row)
        self.epilogue = RowEpilogue(spec, args)

    def tile(self, row: _Row, column: Index) -> list[ir.Value]:
        """Returns the sums of `pixels` pixels from `column` on, which read no column outside x: a vector an output."""
        pixels = self.spec.pixels
        sums = self._sums(row, column, pixels * self.spec.outputs, self._add_columns)
        return [lane_sums(self.k, sums[at : at + pixels]) for at in range(0, len(sums), pixels)]

    def edge(self, row: _Row, column: Index) -> list[ir.Value]:
        """Returns the sum of one pixel in every lane, a vector an output; columns outside x are left out."""
        k, spec, args = self.k, self.spec, self.args
        left, dilation = k.sub(k.mul(column, spec.strides[1]), args.pad_left), spec.dilations[1]
        inside = taps_inside(k, left, args.x_width, spec.kernel[1], dilation)

        def add(taps: _Taps, sums: list[ir.Value]) -> list[ir.Value]:
            with loop(k, *inside, carry=sums, name="column") as turn:
                x = self._pixel(taps, k.mul(turn.index, dilation * spec.lanes))
                factors = self._factors(taps, turn.index)
                turn.next(*[multiply_add(k, x, f, s) for f, s in zip(factors, turn.carry, strict=True)])
            return turn.carry

        sums = self._sums(row, column, spec.outputs, add)
        return [splat(k, lane_sums(k, [value]), spec.pixels) for value in sums]

    def store(self, row: _Row, column: Index, sums: list[ir.Value], count: int) -> None:
        """Finishes the first `count` lanes of `sums`, pixels from `column` on, and stores them."""
        k, spec, args = self.k, self.spec, self.args
        mask = lane_mask(k, count, spec.pixels)
        for output, total in enumerate(sums):
            value = total
            if spec.bias:
                bias = load(k, k.pointer(BIAS_POINTER), output, spec.dtype)
                value = k.b.fadd(total, splat(k, bias, spec.pixels))
            line = k.add(k.mul(k.add(k.mul(row.image, spec.outputs), output), args.out_height), row.number)
            result = self.epilogue.apply(k, value, (row.image, output, row.number), column, mask)
            store_masked(k, result, k.pointer(0), k.add(k.mul(line, args.out_width), column), spec.dtype, mask)

    def _sums(self, row: _Row, column: Index, count: int, add: _Add) -> list[ir.Value]:
        """Returns `count` sums over all channels and the kernel rows inside x, for a block that begins at `column`."""
        k, spec, args = self.k, self.spec, self.args
        top = k.sub(k.mul(row.number, spec.strides[0]), args.pad_top)
        rows = taps_inside(k, top, args.x_height, spec.kernel[0], spec.dilations[0])
        left = k.sub(k.mul(column, spec.strides[1]), args.pad_left)
        corner = k.add(k.mul(top, self.x_row), k.mul(left, spec.lanes))
        origin = k.add(k.mul(k.mul(row.image, args.blocks), self.x_block), corner)
        weights_row = spec.kernel[1] * spec.outputs * spec.lanes

        def of_block(block: Index, sums: list[ir.Value]) -> list[ir.Value]:
            with loop(k, *rows, carry=sums, name="tap") as tap:
                down = k.mul(tap.index, k.mul(self.x_row, spec.dilations[0]))
                x = k.at(k.pointer(1), k.add(k.add(origin, k.mul(block, self.x_block)), down), spec.dtype)
                number = k.add(k.mul(block, spec.kernel[0]), tap.index)
                weights = k.at(k.pointer(2), k.mul(number, weights_row), spec.dtype)
                tap.next(*add(_Taps(x, weights), tap.carry))
            return tap.carry

        none = constant(spec.dtype, 0.0, spec.lanes)
        sums, whole = [none] * count, args.blocks
        if spec.last_lanes < spec.lanes:
            # The last block first: then what its spare lanes hold can be dropped from the sums. Loads of some lanes
            # alone take several times as long where caches miss (Zen 5).
            whole = k.sub(args.blocks, 1)
            mask = lane_mask(k, spec.last_lanes, spec.lanes)
            sums = [k.b.select(mask, value, none) for value in of_block(whole, sums)]
        with loop(k, 0, whole, carry=sums, name="block") as block:
            block.next(*of_block(block.index, block.carry))
        return block.carry

    def _add_columns(self, taps: _Taps, sums: list[ir.Value]) -> list[ir.Value]:
        """Returns `sums`, of all pixels for one output after the other, plus the products of a row of the kernel."""
        spec, found = self.spec, list(sums)
        stride, dilation = spec.strides[1], spec.dilations[1]
        readers: dict[int, list[tuple[int, int]]] = {}
        for pixel in range(spec.pixels):
            for column in range(spec.kernel[1]):
                readers.setdefault(pixel * stride + column * dilation, []).append((pixel, column))
        factors = [self._factors(taps, column) for column in range(spec.kernel[1])]
        for position in sorted(readers):
            x = self._pixel(taps, position * spec.lanes)
            for pixel, column in readers[position]:
                for output, factor in enumerate(factors[column]):
                    at = output * spec.pixels + pixel
                    found[at] = multiply_add(self.k, x, factor, found[at])
        return found

    def _pixel(self, taps: _Taps, at: Index) -> ir.Value:
        """Returns the channels of the pixel that lies `at` elements behind the first one."""
        return load(self.k, taps.x, at, self.spec.dtype, self.spec.lanes)

    def _factors(self, taps: _Taps, column: Index) -> list[ir.Value]:
        """Returns the weights of a column of the kernel, a vector an output."""
        k, spec = self.k, self.spec
        at = k.mul(column, spec.outputs * spec.lanes)
        return [
            load(k, taps.weights, k.add(at, output * spec.lanes), spec.dtype, spec.lanes)
            for output in range(spec.outputs)
        ]
