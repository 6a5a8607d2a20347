"""Lowering of gather, gather_elements and gather_nd."""

from __future__ import annotations

from treadle.dtypes import i32, i64
from treadle.graph.dim import ceil_div, equals, hint_of, maximum
from treadle.graph.node import Node
from treadle.graph.shape import around, elements, normalize_axis, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs, KernelSpec
from treadle.plan.kernels.gather import (
    GatherArgs,
    GatherElementsArgs,
    GatherElementsSpec,
    GatherNdArgs,
    GatherNdSpec,
    GatherSpec,
)
from treadle.plan.target import LINE
from treadle.records import dataclass

INDEX_DTYPES = (i32, i64)
"""Dtypes of indices that kernels read."""

PICK_NS = 2.0
"""Estimated time of reading one index."""

_MOST_LINES = 64
"""The CPU prefetches the later lines of a longer row by itself."""

_PREFETCHED_BYTES = 24 << 10
_MOST_DISTANCE = 32


def prefetched(x: Value, row: int, together: int, ctx: LowerContext) -> tuple[int, int]:
    """(cache lines of each row to prefetch, how many rows before it is read).

    Rows of x have `row` bytes, of which `together` are read at once. There are no lines where x fits into L2. Measured
    (docs/adr/0013-embedding-bags.md): rows of 64 bytes to 3 kB from L3 and from memory, at distances of 1 to 256 rows.
    """
    sample = int(hint_of(row))
    lines = (
        ceil_div(int(hint_of(together)), LINE) + (sample % LINE > 0) if hint_of(nbytes(x)) > ctx.target.l2 // 2 else 0
    )
    return min(lines, _MOST_LINES), min(max(_PREFETCHED_BYTES // sample, 1), _MOST_DISTANCE)


def lower_gather(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; for a single constant index a copy or an alias. None for indices other than i32 and i64."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, indices, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    shape = x.static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    size, picks = shape[axis], elements(indices.static_shape)
    strides = strides_of(shape)
    if indices.data is not None and indices.data.size == 1:
        index = int(indices.data.reshape(()))
        if -size <= index < size:
            index += size if index < 0 else 0
            rest = [dim for at, dim in enumerate(shape) if at != axis]
            kept = [stride for at, stride in enumerate(strides) if at != axis]
            return alias_or_copy(node, ctx, y, x, dense_target(tuple(rest), kept), index * strides[axis])
    outer, _, length = around(shape, axis)
    units = outer * picks if length else 0
    row = length * x.known_dtype.size
    lines, distance = prefetched(x, row, row, ctx) if not equals(length, 1) and not equals(length, 0) else (0, 0)
    spec = GatherSpec(size=x.known_dtype.size, wide=indices.known_dtype == i64, single=equals(length, 1), lines=lines)
    task = _Gather(node, ctx, units, 1.0 * picks)
    chunks, per_chunk = task.partition
    args = GatherArgs(
        units=units, units_per_chunk=per_chunk, picks=maximum(picks, 1), size=size, length=length, distance=distance
    )
    return [task.call(spec, args, chunks)]


def lower_gather_elements(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for indices other than i32 and i64."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, indices, y) or indices.known_dtype not in INDEX_DTYPES:
        return None
    axis = normalize_axis(node.attrs["axis"], len(x.static_shape))
    shape = indices.static_shape
    spec = GatherElementsSpec(size=x.known_dtype.size, wide=indices.known_dtype == i64, rank=len(shape))
    units = elements(shape[:-1]) if elements(shape) else 0
    task = _Gather(node, ctx, units, 1.0 * elements(shape))
    chunks, per_chunk = task.partition
    args = GatherElementsArgs(
        units=units,
        units_per_chunk=per_chunk,
        size=x.static_shape[axis],
        stride=strides_of(x.static_shape)[axis],
        shape=tuple(maximum(dim, 1) for dim in shape),
        strides=element_strides(x, axis),
    )
    return [task.call(spec, args, chunks)]


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
    spec = GatherNdSpec(size=x.known_dtype.size, wide=indices.known_dtype == i64, depth=depth)
    units = elements(shape[:batch_dims]) * picks if length else 0
    task = _Gather(node, ctx, units, 1.0 * elements(indices.static_shape))
    chunks, per_chunk = task.partition
    args = GatherNdArgs(
        units=units,
        units_per_chunk=per_chunk,
        picks=maximum(picks, 1),
        batch=elements(shape[batch_dims:]),
        length=length,
        sizes=shape[addressed],
        strides=strides_of(shape)[addressed],
    )
    return [task.call(spec, args, chunks)]


@dataclass(frozen=True, slots=True)
class _Gather:
    """The work of a node: `units` rows of y, for which `lookups` indices are read."""

    node: Node
    ctx: LowerContext
    units: int
    lookups: float

    @property
    def partition(self) -> tuple[int, int]:
        """(chunks, units per chunk)."""
        return self.ctx.partition(self.units, self._cost / maximum(self.units, 1))

    def call(self, spec: KernelSpec, args: KernelArgs[int], chunks: int) -> Call:
        """The call of a kernel that reads x and indices."""
        node = self.node
        reads = (node.operand(0), node.operand(1))
        cost = self.ctx.machine.call_ns + self._cost
        return self.ctx.call(
            node, spec, (node.output,), reads, args=args, chunks=chunks, traffic=self._traffic, cost=cost
        )

    @property
    def _traffic(self) -> float:
        return 2.0 * nbytes(self.node.output) + nbytes(self.node.operand(1))

    @property
    def _cost(self) -> float:
        return self.ctx.moved_ns(self._traffic) + self.lookups * PICK_NS
