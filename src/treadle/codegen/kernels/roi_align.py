"""roi_align: regions of images whose channels come last. A sample is four rows of channels, each times its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import lane_mask, load
from treadle.codegen.emit.rows import fill_row
from treadle.codegen.emit.types import I64, scalar
from treadle.codegen.emit.vectors import binary_intrinsic, constant, like, multiply_add, splat, unary_intrinsic
from treadle.codegen.kernels.expr import load_value, store_value
from treadle.dtypes import i32, i64
from treadle.plan.kernels.roi_align import MOST_SAMPLES, RoiAlignArgs, RoiAlignSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a region: where it begins, the length of a bin, and its samples, as a number and as an index."""

    begin: ir.Value
    each: ir.Value
    count: ir.Value
    samples: Index
    size: Index


@dataclass(frozen=True, slots=True)
class _Sample:
    """The two pixels of a sample along an axis, with their weights: both 0 outside of the image."""

    pixels: tuple[Index, Index]
    weights: tuple[ir.Value, ir.Value]


def emit_roi_align(k: Kernel, spec: RoiAlignSpec) -> None:
    """y[n, i, j] = the average, or the largest, of the samples in bin (i, j) of region n. A unit is a row of bins.

    The kernel fails for a number of an image that there is not, an image without pixels, and a bin of more than
    MOST_SAMPLES samples along an axis.
    """
    args = k.args(RoiAlignArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    k.fail_if(k.less(k.min(args.height, args.width), 1), INDEX_OUT_OF_RANGE)
    with loop(k, begin, end, name="row") as unit:
        region, row = k.div(unit.index, args.rows), k.rem(unit.index, args.rows)
        image = load(k, k.pointer(3), region, i64 if spec.wide else i32)
        image = image if spec.wide else k.b.sext(image, I64)
        k.fail_if(k.b.icmp_unsigned(">=", image, as_i64(args.images)), INDEX_OUT_OF_RANGE)
        x = k.at(k.pointer(1), k.mul(k.mul(image, k.mul(args.height, args.width)), args.channels), spec.dtype)
        ends = [load(k, k.pointer(2), k.add(k.mul(region, 4), place), spec.dtype) for place in range(4)]
        down = _axis(k, spec, ends[1], ends[3], args.rows, args.height)
        across = _axis(k, spec, ends[0], ends[2], args.columns, args.width)
        with loop(k, 0, args.columns, name="column") as column:
            y = k.at(
                k.pointer(0), k.mul(k.add(k.mul(unit.index, args.columns), column.index), args.channels), spec.dtype
            )
            _bin(k, spec, args, x, y, (down, row), (across, column.index))


def _axis(k: Kernel, spec: RoiAlignSpec, first: ir.Value, last: ir.Value, bins: Index, size: Index) -> _Axis:
    scale, offset = like(first, spec.scale), like(first, 0.5 if spec.half_pixel else 0.0)
    begin, end = (k.b.fsub(k.b.fmul(place, scale), offset) for place in (first, last))
    length = k.b.fsub(end, begin)
    if not spec.half_pixel:
        length = k.b.select(k.b.fcmp_ordered("<", length, like(length, 1.0)), like(length, 1.0), length)
    each = k.b.fdiv(length, k.b.sitofp(as_i64(bins), first.type))
    if spec.samples:
        return _Axis(begin, each, like(each, float(spec.samples)), spec.samples, size)
    count = unary_intrinsic(k, "ceil", each)
    k.fail_if(k.b.fcmp_unordered(">", count, like(count, float(MOST_SAMPLES))), INDEX_OUT_OF_RANGE)
    enough = k.b.select(k.b.fcmp_ordered(">", count, like(count, 0.0)), count, like(count, 0.0))
    return _Axis(begin, each, count, k.b.fptosi(enough, I64), size)


@contextmanager
def _samples(k: Kernel, axis: _Axis, bin_: Index) -> Iterator[_Sample]:
    """The samples of a bin along an axis, one after another."""
    type_ = axis.begin.type
    start = k.b.fadd(axis.begin, k.b.fmul(k.b.sitofp(as_i64(bin_), type_), axis.each))
    with loop(k, 0, axis.samples, name="sample") as sample:
        middle = k.b.fadd(k.b.sitofp(sample.index, type_), like(start, 0.5))
        place = k.b.fadd(start, k.b.fdiv(k.b.fmul(middle, axis.each), axis.count))
        size = k.b.sitofp(as_i64(axis.size), type_)
        inside = k.b.and_(k.b.fcmp_ordered(">=", place, like(place, -1.0)), k.b.fcmp_ordered("<=", place, size))
        nought, one = like(place, 0.0), like(place, 1.0)
        kept = k.b.select(k.b.and_(inside, k.b.fcmp_ordered(">", place, nought)), place, nought)
        low = k.min(k.b.fptosi(kept, I64), k.sub(axis.size, 1))
        high = k.min(k.add(low, 1), k.sub(axis.size, 1))
        part = k.b.fsub(kept, k.b.sitofp(as_i64(low), type_))
        part = k.b.select(k.less(low, high), part, nought)
        weights = (k.b.select(inside, k.b.fsub(one, part), nought), k.b.select(inside, part, nought))
        yield _Sample((low, high), weights)


def _bin(
    k: Kernel,
    spec: RoiAlignSpec,
    args: RoiAlignArgs[ir.Value],
    x: ir.Value,
    y: ir.Value,
    down: tuple[_Axis, Index],
    across: tuple[_Axis, Index],
) -> None:
    """One bin: each sample is added to y, or y becomes the largest of it and each of its pixels."""
    number = k.mul(down[0].samples, across[0].samples)
    has_samples = k.less(0, number)
    first = constant(spec.dtype, 0.0)
    if spec.largest:
        first = k.b.select(has_samples, ir.Constant(scalar(spec.dtype), float("-inf")), first)
    fill_row(k, y, first, args.channels, spec.dtype)
    share = k.b.fdiv(like(first, 1.0), k.b.sitofp(as_i64(k.max(number, 1)), first.type))
    with _samples(k, *down) as vertical, _samples(k, *across) as horizontal:
        corners = []
        for row, above in zip(vertical.pixels, vertical.weights, strict=True):
            for column, beside in zip(horizontal.pixels, horizontal.weights, strict=True):
                pixel = k.mul(k.add(k.mul(row, args.width), column), args.channels)
                weight = k.b.fmul(above, beside)
                corners.append((k.at(x, pixel, spec.dtype), weight if spec.largest else k.b.fmul(weight, share)))
        lanes = k.target.lanes(spec.dtype)
        whole = k.mul(k.div(args.channels, lanes), lanes)
        with loop(k, 0, whole, lanes, name="channels") as channels:
            _combine(k, spec, y, channels.index, corners, None)
        with when(k, k.less(whole, args.channels)):
            _combine(k, spec, y, whole, corners, lane_mask(k, k.sub(args.channels, whole), lanes))


def _combine(
    k: Kernel,
    spec: RoiAlignSpec,
    y: ir.Value,
    place: Index,
    corners: Sequence[tuple[ir.Value, ir.Value]],
    mask: ir.Value | None,
) -> None:
    """A vector of channels of a sample."""
    lanes = k.target.lanes(spec.dtype)
    total = load_value(k, y, place, spec.dtype, lanes, mask)
    for pixel, weight in corners:
        value, factor = load_value(k, pixel, place, spec.dtype, lanes, mask), splat(k, weight, lanes)
        if spec.largest:
            total = binary_intrinsic(k, "maximum", total, k.b.fmul(value, factor))
        else:
            total = multiply_add(k, value, factor, total)
    store_value(k, total, y, place, spec.dtype, mask)
