"""max_pool and avg_pool over windows of an image in blocked memory.

Taps that fall outside the image are never read: the range of taps that lie inside is computed once a row and, at the
left and right edge, once an output.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import segments, taps_inside
from treadle.codegen.emit.types import scalar
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.pool_taps import BfloatMaximum, Taps
from treadle.dtypes import bf16
from treadle.plan.kernels.pool import BlockedPoolSpec, PoolArgs


def rows_inside(k: Kernel, args: PoolArgs[Index], top: Index) -> tuple[Index, Index]:
    """Returns the range of taps that lie inside the image, for windows that begin at row `top`."""
    return taps_inside(k, top, args.height, args.kernel_height, args.dilation_height)


def counted_rows(k: Kernel, args: PoolArgs[Index], top: Index) -> Index:
    """Returns how many rows a mean counts of windows that begin at row `top`."""
    start = k.add(top, args.counted_top)
    return _number(k, taps_inside(k, start, args.counted_height, args.kernel_height, args.dilation_height))


def _number(k: Kernel, taps: tuple[Index, Index]) -> Index:
    return k.max(k.sub(taps[1], taps[0]), 0)


def emit_pool_blocked(k: Kernel, spec: BlockedPoolSpec) -> None:
    """y[n, c, oh, ow, :] = max or mean of x[n, c, window, :]. A unit is one row of y."""
    dtype, block = spec.dtype, spec.block
    taps = (BfloatMaximum if dtype == bf16 else Taps)(k, spec.kind, dtype, block)
    args: PoolArgs[Index] = k.args(PoolArgs[Index], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    y, x = k.pointer(0), k.pointer(1)
    with (
        segments(k, begin, end, args.out_height, "plane") as (plane, first, last),
        loop(k, first, last, name="oh") as row,
    ):
        top = k.sub(k.mul(row.index, args.stride_height), args.pad_top)
        inside = rows_inside(k, args, top)
        image = k.add(k.mul(plane, args.height), top)
        target = k.mul(k.add(k.mul(plane, args.out_height), row.index), args.out_width)
        rows = counted_rows(k, args, top) if taps.mean else 0

        def count(ow: Index, *, edge: bool) -> ir.Value:
            columns = args.kernel_width
            if edge:
                start = k.add(k.sub(k.mul(ow, spec.stride_width), args.pad_left), args.counted_left)
                found = taps_inside(k, start, args.counted_width, args.kernel_width, spec.dilation_width)
                columns = _number(k, found)
            number = k.b.sitofp(as_i64(k.mul(rows, columns)), scalar(dtype))
            return splat(k, number, block)

        def put(ow: Index, outputs: int, *, edge: bool) -> None:
            values = _window(k, spec, taps, args, x, (image, inside), ow, outputs, edge=edge)
            taken = count(ow, edge=edge) if taps.mean else None
            for i, value in enumerate(values):
                stored = convert(k, taps.finish(value, taken), dtype, spec.result)
                store(k, stored, y, k.mul(k.add(target, k.add(ow, i)), block), spec.result)

        with loop(k, 0, args.low, name="left") as turn:
            put(turn.index, 1, edge=True)
        tile = spec.tile
        many = k.add(args.low, k.mul(k.div(k.sub(args.high, args.low), tile), tile))
        if tile > 1:
            with loop(k, args.low, many, tile, name="tile") as turn:
                put(turn.index, tile, edge=False)
        with loop(k, many, args.high, name="single") as turn:
            put(turn.index, 1, edge=False)
        with loop(k, args.high, args.out_width, name="right") as turn:
            put(turn.index, 1, edge=True)


def _window(
    k: Kernel,
    spec: BlockedPoolSpec,
    taps: Taps,
    args: PoolArgs[Index],
    x: ir.Value,
    rows: tuple[Index, tuple[Index, Index]],
    ow: Index,
    outputs: int,
    *,
    edge: bool,
) -> list[ir.Value]:
    """Returns the reductions of `outputs` neighbouring windows from column `ow` on; `edge`: taps may lie outside."""
    block = spec.block
    stride, dilation, kernel_width = spec.stride_width, spec.dilation_width, spec.kernel_width
    image, (first, last) = rows

    def pixel(number: Index) -> ir.Value:
        value = load(k, x, k.mul(number, block), spec.source, block)
        return convert(k, value, spec.source, spec.dtype)

    left = k.sub(k.mul(ow, stride), args.pad_left)
    start = [value for _ in range(outputs) for value in taps.start()]
    width = len(start) // outputs
    with loop(k, first, last, carry=start, name="kh") as row:
        line = k.add(k.mul(k.add(image, k.mul(row.index, args.dilation_height)), args.width), left)
        states = [list(row.carry[i * width : (i + 1) * width]) for i in range(outputs)]
        if kernel_width and not edge:
            loaded: dict[int, ir.Value] = {}
            for i in range(outputs):
                columns = [i * stride + tap * dilation for tap in range(kernel_width)]
                for column in columns:
                    if column not in loaded:
                        loaded[column] = pixel(k.add(line, column))
                states[i] = taps.combine(states[i], [loaded[column] for column in columns])
        else:
            taps_of_row: tuple[Index, Index] = 0, args.kernel_width
            if edge:
                taps_of_row = taps_inside(k, left, args.width, args.kernel_width, dilation)
            flat = [value for state in states for value in state]
            with loop(k, *taps_of_row, carry=flat, name="kw") as tap:
                carried: list[ir.Value] = []
                for i in range(outputs):
                    at = k.add(k.add(line, i * stride), k.mul(tap.index, dilation))
                    carried += taps.combine(list(tap.carry[i * width : (i + 1) * width]), [pixel(at)])
                tap.next(*carried)
            states = [list(tap.carry[i * width : (i + 1) * width]) for i in range(outputs)]
        row.next(*(value for state in states for value in state))
    return [taps.result(list(row.carry[i * width : (i + 1) * width])) for i in range(outputs)]
