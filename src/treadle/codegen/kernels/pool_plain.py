"""max_pool and avg_pool in row-major memory: the rows of a window are reduced first, then the columns."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop, values_of_either, when
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.types import I64, scalar, vector, vector_of
from treadle.codegen.emit.vectors import splat, take
from treadle.codegen.kernels.pool import counted_rows, rows_inside
from treadle.codegen.kernels.pool_taps import Taps
from treadle.dtypes import DType
from treadle.plan.kernels.pool import PlainPoolSpec, PoolArgs

MAX_SHUFFLED_STRIDE = 4
"""Up to this stride, strided elements are shuffled out of whole vectors."""


def emit_pool_plain(k: Kernel, spec: PlainPoolSpec) -> None:
    """y[plane, oh, ow] = max or mean of x[plane, window]. A unit is a segment of one row of y.

    The rows of the window are reduced into scratch, pads included, then the columns of scratch into y.
    """
    dtype = spec.dtype
    lanes = k.target.lanes(dtype)
    taps = Taps(k, spec.kind, dtype, lanes)
    args: PoolArgs[Index] = k.args(PoolArgs[Index], spec)
    stride = spec.stride_width
    parts = k.div(k.add(args.out_width, k.sub(args.segment, 1)), args.segment)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        row, part = k.div(unit.index, parts), k.rem(unit.index, parts)
        plane, oh = k.div(row, args.out_height), k.rem(row, args.out_height)
        first = k.mul(part, args.segment)
        count = k.min(args.segment, k.sub(args.out_width, first))
        top = k.sub(k.mul(oh, args.stride_height), args.pad_top)
        left = k.sub(k.mul(first, stride), args.pad_left)
        reach = k.add(k.mul(k.sub(args.kernel_width, 1), spec.dilation_width), 1)
        need = k.add(k.mul(k.sub(count, 1), stride), reach)
        image = k.mul(k.add(k.mul(plane, args.height), top), args.width)
        _reduce_rows(k, taps, args, image, rows_inside(k, args, top), left, need)
        target = k.add(k.mul(row, args.out_width), first)
        counted = counted_rows(k, args, top) if taps.mean else 0
        _reduce_columns(k, spec, taps, args, target, counted, first, count)


def _reduce_rows(
    k: Kernel, taps: Taps, args: PoolArgs[Index], image: Index, rows: tuple[Index, Index], left: Index, need: Index
) -> None:
    """scratch[i] = the reduction of column left + i of the window's rows, for i < need; in the pads, of no taps."""
    dtype, lanes = taps.dtype, taps.lanes
    x = k.pointer(1)
    nothing = taps.nothing()
    before = k.min(k.max(k.sub(0, left), 0), need)
    start = k.max(left, 0)
    inside = k.max(k.sub(k.min(k.add(left, need), args.width), start), 0)
    with loop(k, 0, before, lanes, name="before") as turn:
        store(k, nothing, k.scratch, turn.index, dtype)

    def column(at: Index, count: Index | None) -> None:
        mask = None if count is None else lane_mask(k, count, lanes)
        with loop(k, rows[0], rows[1], carry=taps.start(), name="kh") as row:
            line = k.add(image, k.mul(k.mul(row.index, args.dilation_height), args.width))
            offset = k.add(k.add(line, start), at)
            value = (
                load(k, x, offset, dtype, lanes) if mask is None else load_masked(k, x, offset, dtype, mask, nothing)
            )
            row.next(*taps.combine(list(row.carry), [value]))
        store(k, taps.result(list(row.carry)), k.scratch, k.add(before, at), dtype)

    whole = k.mul(k.div(inside, lanes), lanes)
    with loop(k, 0, whole, lanes, name="column") as turn:
        column(turn.index, None)
    rest = k.sub(inside, whole)
    with when(k, k.less(0, rest)):
        column(whole, rest)
    after = k.add(before, k.mul(k.div(k.add(inside, lanes - 1), lanes), lanes))
    with loop(k, after, need, lanes, name="after") as turn:
        store(k, nothing, k.scratch, turn.index, dtype)


def _reduce_columns(
    k: Kernel,
    spec: PlainPoolSpec,
    taps: Taps,
    args: PoolArgs[Index],
    target: Index,
    rows: Index,
    first: Index,
    count: Index,
) -> None:
    """y[target + i] = the reduction of the taps scratch[i * stride + t * dilation], for i < count.

    A mean counts `rows` rows of each window.
    """
    dtype, lanes = taps.dtype, taps.lanes
    stride, dilation, kernel_width = spec.stride_width, spec.dilation_width, spec.kernel_width
    y = k.pointer(0)
    with loop(k, 0, count, lanes, name="ow") as turn:
        base = k.mul(turn.index, stride)
        if kernel_width:
            values = [_strided(k, k.add(base, tap * dilation), stride, dtype, lanes) for tap in range(kernel_width)]
            state = taps.combine(taps.start(), values)
        else:
            with loop(k, 0, args.kernel_width, carry=taps.start(), name="kw") as tap:
                value = _strided(k, k.add(base, k.mul(tap.index, dilation)), stride, dtype, lanes)
                tap.next(*taps.combine(list(tap.carry), [value]))
            state = list(tap.carry)
        rest = k.sub(count, turn.index)
        taken = _counts(k, spec, args, rows, k.add(first, turn.index), lanes) if taps.mean else None
        result = taps.finish(taps.result(state), taken)
        at = k.add(target, turn.index)
        with either(k, k.less(k.sub(lanes, 1), rest)) as (full, partial):
            with full:
                store(k, result, y, at, dtype)
            with partial:
                store_masked(k, result, y, at, dtype, lane_mask(k, rest, lanes))


def _counts(k: Kernel, spec: PlainPoolSpec, args: PoolArgs[Index], rows: Index, ow: Index, lanes: int) -> ir.Value:
    """Returns how many taps a mean counts of each of `lanes` outputs from column `ow` on."""
    dtype, dilation = spec.dtype, spec.dilation_width

    def everywhere(number: Index) -> ir.Value:
        return splat(k, as_i64(number), lanes)

    def edge() -> list[ir.Value]:
        start = k.add(k.sub(k.mul(ow, spec.stride_width), args.pad_left), args.counted_left)
        steps = ir.Constant(vector_of(I64, lanes), [lane * spec.stride_width for lane in range(lanes)])
        starts, none = k.add(everywhere(start), steps), everywhere(0)

        def before(column: Index) -> Index:
            ahead = k.add(k.max(k.sub(everywhere(column), starts), none), everywhere(dilation - 1))
            return ahead if dilation == 1 else k.div(ahead, everywhere(dilation))

        inside = k.sub(k.min(before(args.counted_width), everywhere(args.kernel_width)), before(0))
        counts = k.mul(k.max(inside, none), everywhere(rows))
        return [k.b.sitofp(counts, vector(dtype, lanes))]

    def interior() -> list[ir.Value]:
        return [splat(k, k.b.sitofp(as_i64(k.mul(rows, args.kernel_width)), scalar(dtype)), lanes)]

    is_interior = k.b.and_(k.less(k.sub(args.low, 1), ow), k.less(k.add(ow, lanes - 1), args.high))
    return values_of_either(k, is_interior, interior, edge)[0]


def _strided(k: Kernel, start: Index, stride: int, dtype: DType, lanes: int) -> ir.Value:
    """Lane i: scratch[start + i * stride]. Reads up to stride - 1 elements further."""
    if stride <= MAX_SHUFFLED_STRIDE:
        wide = load(k, k.scratch, start, dtype, lanes * stride)
        return wide if stride == 1 else take(k, wide, range(0, lanes * stride, stride))
    value = ir.Constant(vector(dtype, lanes), ir.Undefined)
    for i in range(lanes):
        value = k.b.insert_element(value, load(k, k.scratch, k.add(start, i * stride), dtype), I64(i))
    return value
