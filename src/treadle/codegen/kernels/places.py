"""places: the offset in x of what each position along an axis of a padded or resized tensor copies."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.math_round import ceil, floor
from treadle.codegen.emit.memory import store
from treadle.codegen.emit.types import DOUBLE, FLOAT, I64
from treadle.codegen.kernels.interpolation import coordinate
from treadle.dtypes import i64
from treadle.plan.kernels.lookup import OUTSIDE
from treadle.plan.kernels.places import PlacesArgs, PlacesSpec


def emit_places(k: Kernel, spec: PlacesSpec) -> None:
    """table[first + i] = stride * (the position of x that position i of y copies), or OUTSIDE. A unit is an i."""
    args = k.args(PlacesArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="position") as position:
        if spec.how == "nearest":
            at = _nearest(k, spec, position.index, args)
        else:
            at = _source(k, spec.how, k.sub(position.index, args.begin), args.size)
        place = as_i64(k.mul(k.add(args.skipped, at), args.stride))
        if spec.how == "constant":
            place = k.b.select(k.b.icmp_unsigned("<", as_i64(at), args.size), place, I64(OUTSIDE))
        store(k, place, k.pointer(0), k.add(args.first, position.index), i64)


def _source(k: Kernel, how: str, at: Index, size: ir.Value) -> Index:
    """The position that is looked up at `at`, which may be beyond the ends. `size` is 1 or more, but for "constant"."""
    if how == "edge":
        return k.max(k.min(at, k.sub(size, 1)), 0)
    if how == "wrap":
        return _floor_rem(k, at, size)
    if how == "reflect":
        period = k.max(k.mul(k.sub(size, 1), 2), 1)
        rest = _floor_rem(k, at, period)
        return k.min(rest, k.sub(period, rest))
    return at


def _floor_rem(k: Kernel, at: Index, size: Index) -> Index:
    rest = k.b.srem(as_i64(at), as_i64(size))
    return k.b.select(k.less(rest, 0), as_i64(k.add(rest, size)), rest)


def _nearest(k: Kernel, spec: PlacesSpec, position: ir.Value, args: PlacesArgs[ir.Value]) -> Index:
    """The neighbour that `nearest_mode` picks, in the order of operations of `ops.interpolation`, in f32."""
    scale = k.b.fptrunc(k.b.bitcast(args.scale, DOUBLE), FLOAT)
    at = coordinate(k, spec.coordinate_mode, position, (args.size, args.units), scale)
    half = FLOAT(0.5)
    picked = {
        "floor": lambda: floor(k, at),
        "ceil": lambda: ceil(k, at),
        "round_prefer_ceil": lambda: floor(k, k.b.fadd(at, half)),
        "round_prefer_floor": lambda: ceil(k, k.b.fsub(at, half)),
    }[spec.nearest_mode]()
    return k.max(k.min(k.b.fptosi(picked, I64), k.sub(args.size, 1)), 0)
