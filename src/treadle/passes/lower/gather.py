"""gather, gather_elements and gather_nd."""

from __future__ import annotations

from treadle.dtypes import i32, i64
from treadle.graph.node import Node
from treadle.graph.shape import around, elements, normalize_axis, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import BYTES_PER_NS, CALL_NS, LowerContext, cut, nbytes
from treadle.passes.lower.copy import alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import LINE

INDEX_DTYPES = (i32, i64)
"""What kernels read indices as."""

PICK_NS = 2.0
"""What looking up one index is assumed to cost."""

_MOST_LINES = 64
"""From here on the CPU sees by itself that a row is read from end to end."""

_AHEAD_BYTES = 24 << 10
_MOST_AHEAD = 32


def prefetched(x: Value, row: int, together: int, ctx: LowerContext) -> tuple[int, int]:
    """What to ask for of each of the rows of x, of `row` bytes, that indices pick, and how many rows ahead.

    (cache lines that the `together` bytes that are read at once may lie in, rows); no lines where x fits into L2.
    Measured, docs/adr/0013-embedding-bags.md: rows of 64 bytes to 3 kB from L3 and from memory, 1 to 256 rows ahead.
    """
    lines = -(-together // LINE) + (row % LINE > 0) if nbytes(x) > ctx.target.l2 // 2 else 0
    return min(lines, _MOST_LINES), min(max(_AHEAD_BYTES // row, 1), _MOST_AHEAD)


def lower_gather(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; for a single constant index a copy or an alias. None for indices other than i32 and i64."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, indices, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    shape = x.static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    size, picks = shape[axis], elements(indices.static_shape)
    strides = strides_of(shape)
    if indices.data is not None and picks == 1:
        index = int(indices.data.reshape(()))
        if -size <= index < size:
            index += size if index < 0 else 0
            rest = [dim for at, dim in enumerate(shape) if at != axis]
            kept = [stride for at, stride in enumerate(strides) if at != axis]
            return alias_or_copy(node, ctx, y, x, dense_target(tuple(rest), kept), index * strides[axis])
    outer, _, length = around(shape, axis)
    units = outer * picks if length else 0
    row = length * x.known_dtype.size
    lines, ahead = prefetched(x, row, row, ctx) if length > 1 else (0, 0)
    spec = KernelSpec.of(
        "gather", size=x.known_dtype.size, wide=indices.known_dtype == i64, single=length == 1, lines=lines
    )
    args = (max(picks, 1), size, length, ahead)
    return [_call(node, ctx, spec, units, args, float(picks))]


def lower_gather_elements(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for indices other than i32 and i64."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, indices, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    axis = normalize_axis(node.attrs["axis"], len(x.static_shape))
    shape, strides = indices.static_shape, element_strides(x, axis)
    spec = KernelSpec.of("gather_elements", size=x.known_dtype.size, wide=indices.known_dtype == i64, rank=len(shape))
    units = elements(shape[:-1]) if elements(shape) else 0
    args = (x.static_shape[axis], strides_of(x.static_shape)[axis], *(max(dim, 1) for dim in shape), *strides)
    return [_call(node, ctx, spec, units, args, float(elements(shape)))]


def element_strides(value: Value, axis: int) -> tuple[int, ...]:
    """The strides of `value`, 0 for the axis that indices stand for."""
    return tuple(0 if at == axis else stride for at, stride in enumerate(strides_of(value.static_shape)))


def lower_gather_nd(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for indices other than i32 and i64."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, indices, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    batch_dims, shape = node.attrs["batch_dims"], x.static_shape
    depth = indices.static_shape[-1]
    picks = elements(indices.static_shape[batch_dims:-1])
    length = elements(shape[batch_dims + depth :])
    addressed = slice(batch_dims, batch_dims + depth)
    spec = KernelSpec.of("gather_nd", size=x.known_dtype.size, wide=indices.known_dtype == i64, depth=depth)
    units = elements(shape[:batch_dims]) * picks if length else 0
    args = (max(picks, 1), elements(shape[batch_dims:]), length, *shape[addressed], *strides_of(shape)[addressed])
    return [_call(node, ctx, spec, units, args, float(elements(indices.static_shape)))]


def _call(node: Node, ctx: LowerContext, spec: KernelSpec, units: int, args: tuple[int, ...], lookups: float) -> Call:
    x, indices, y = node.operand(0), node.operand(1), node.output
    traffic = 2.0 * nbytes(y) + nbytes(indices)
    cost = traffic / BYTES_PER_NS + lookups * PICK_NS
    chunks, per_chunk = cut(units, cost / max(units, 1))
    return ctx.call(
        node,
        spec,
        (y,),
        (x, indices),
        args=(units, per_chunk, *args),
        chunks=chunks,
        traffic=traffic,
        cost=CALL_NS + cost,
    )
