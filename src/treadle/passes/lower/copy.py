"""Lowering of strided copies: axes are merged and sorted so that the copy kernels are fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from treadle.graph.dim import at_least, at_most, ceil_div, equals, hint_of, maximum, minimum
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs, KernelSpec
from treadle.plan.kernels.copy import (
    CopyInterleavedArgs,
    CopyInterleavedSpec,
    CopyRowsArgs,
    CopyRowsSpec,
    CopyTilesArgs,
    CopyTilesSpec,
)
from treadle.records import dataclass

_PIECE_BYTES = 32 << 10
"""Longer rows are copied in pieces, so that workers can share one long row."""

_SHORT_ROW = 8
"""Shorter rows take as long as rows of this many elements."""

_MAX_TILE = 16
_GROUP = 4
"""Tiles that are moved together."""

_WAYS = (2, 4)
"""So many rows are interleaved by shuffles."""

_SHUFFLED_STEPS = (-1, 0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of a copy: its length, and its strides in the target and in the source, in elements."""

    size: int
    target: int
    source: int


def dense_target(shape: StaticShape, source: Iterable[int]) -> list[Axis]:
    """The axes of a copy that fills a row-major tensor of `shape`, given the source's strides."""
    return [Axis(*axis) for axis in zip(shape, strides_of(shape), source, strict=True)]


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """The same copy in as few axes as possible, the target's innermost last."""
    kept: list[Axis] = []
    for axis in _outermost_first([axis for axis in axes if not equals(axis.size, 1)]):
        if kept:
            outer = kept[-1]
            if equals(outer.target, axis.size * axis.target) and equals(outer.source, axis.size * axis.source):
                kept[-1] = Axis(outer.size * axis.size, axis.target, axis.source)
                continue
        kept.append(axis)
    return kept


def _outermost_first(axes: list[Axis]) -> list[Axis]:
    """`axes` by their strides in the target, the largest first; any order if they have no elements."""

    def is_outer(outer: Axis, inner: Axis) -> bool:
        return equals(outer.target, inner.size * inner.target) or at_least(outer.target - inner.target, 0)

    if all(is_outer(outer, inner) for outer, inner in pairwise(axes)):
        return axes
    return sorted(axes, key=lambda axis: -axis.target)


def is_whole(axes: Sequence[Axis]) -> bool:
    """Whether the copy moves one contiguous piece of memory, so that an alias does as well."""
    rest = merged(axes)
    return not rest or (len(rest) == 1 and equals(rest[0].target, 1) and equals(rest[0].source, 1))


def is_movable(*values: Value) -> bool:
    """Whether kernels can move the elements of `values`: plain memory, elements of 1, 2, 4 or 8 bytes."""
    return all(value.layout is None and value.known_dtype.kind != "string" for value in values)


def alias_or_copy(
    node: Node, ctx: LowerContext, target: Value, source: Value, axes: Sequence[Axis], source_start: int = 0
) -> list[Call]:
    """`target` as part of the memory of `source` where it is one contiguous piece there, else a copy."""
    if is_whole(axes):
        ctx.alias(target, source, source_start * source.known_dtype.size)
        return []
    return [copy_call(node, ctx, target, source, axes, source_start=source_start)]


def copy_call(
    node: Node,
    ctx: LowerContext,
    target: Value,
    source: Value,
    axes: Sequence[Axis],
    *,
    target_start: int = 0,
    source_start: int = 0,
) -> Call:
    """The call that does the copy. Starts and strides count elements; the innermost target stride is 1."""
    size = target.known_dtype.size
    total = elements(axis.size for axis in axes)
    rest = [] if equals(total, 0) else merged(axes)
    if not rest or not equals(rest[-1].target, 1):
        rest.append(Axis(minimum(total, 1), 1, 1))
    inner, outer = rest[-1], rest[:-1]
    across = next((axis for axis in outer if equals(axis.source, 1) and not equals(axis.size, 0)), None)
    traffic = 2.0 * total * size
    rows = total / maximum(inner.size, 1)
    cost = ctx.moved_ns(traffic) + rows * (2.0 if hint_of(inner.size) <= _SHORT_ROW else 1.0)
    starts = target_start, source_start
    ways = next((ways for ways in _WAYS if equals(inner.size, ways)), None)
    if across is not None and ways is not None and equals(across.target, ways):
        copy = _Copy(node, ctx, target, source, starts, ctx.moved_ns(traffic), traffic)
        return copy.interleaved([axis for axis in outer if axis is not across], ways, inner, across)
    copy = _Copy(node, ctx, target, source, starts, cost, traffic)
    strided = not equals(inner.source, 0) and not equals(inner.source, 1)
    far = across is not None and (hint_of(across.size) > max(_SHUFFLED_STEPS) or hint_of(inner.source) > 4)
    if across is not None and strided and far:
        return copy.tiles([axis for axis in outer if axis is not across], inner, across)
    return copy.rows(outer, inner)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The call of a copy: `starts` are the offsets of the first element in target and source, `cost` is its time in ns,
    `traffic` the bytes it moves."""

    node: Node
    ctx: LowerContext
    target: Value
    source: Value
    starts: tuple[int, int]
    cost: float
    traffic: float

    def rows(self, outer: list[Axis], inner: Axis) -> Call:
        """Copies row by row; long rows in parts."""
        size = self.target.known_dtype.size
        most, fall = inner.size, 0
        if not at_most(inner.size * size, _PIECE_BYTES):
            most = fall = maximum(minimum(_PIECE_BYTES // size, inner.size), 1)
            outer = [*outer, Axis(ceil_div(inner.size, most), most, most * inner.source)]
        outer = outer or [Axis(1, 0, 0)]
        units = 0 if equals(inner.size, 0) else elements(axis.size for axis in outer)
        chunks, per_chunk = self._partition(units)
        step = next((step for step in _SHUFFLED_STEPS if equals(inner.source, step)), None)
        args = CopyRowsArgs(
            units=units,
            units_per_chunk=per_chunk,
            length=inner.size,
            most=most,
            fall=fall,
            step=inner.source,
            target_start=self.starts[0],
            source_start=self.starts[1],
            sizes=tuple(axis.size for axis in outer),
            target_strides=tuple(axis.target for axis in outer),
            source_strides=tuple(axis.source for axis in outer),
        )
        return self._call(CopyRowsSpec(size=size, rank=len(outer), step=step), args, chunks)

    def interleaved(self, outer: list[Axis], ways: int, inner: Axis, rows: Axis) -> Call:
        """Copies `ways` rows, which are contiguous in the source, element by element in turn; long rows in parts."""
        size = self.target.known_dtype.size
        piece = _PIECE_BYTES // (size * ways)
        units = elements(axis.size for axis in outer) * ceil_div(rows.size, piece)
        chunks, per_chunk = self._partition(units)
        args = CopyInterleavedArgs(
            units=units,
            units_per_chunk=per_chunk,
            length=rows.size,
            piece=piece,
            source_way=inner.source,
            target_start=self.starts[0],
            source_start=self.starts[1],
            sizes=tuple(axis.size for axis in outer),
            target_strides=tuple(axis.target for axis in outer),
            source_strides=tuple(axis.source for axis in outer),
        )
        return self._call(CopyInterleavedSpec(size=size, rank=len(outer), ways=ways), args, chunks)

    def tiles(self, outer: list[Axis], inner: Axis, across: Axis) -> Call:
        """Copies tiles of `inner` and `across`, which is contiguous in the source."""
        size = self.target.known_dtype.size
        side = min(_MAX_TILE, self.ctx.target.vector_bytes // size)
        tiles = ceil_div(inner.size, side) * ceil_div(across.size, side * _GROUP)
        units = elements(axis.size for axis in outer) * tiles
        chunks, per_chunk = self._partition(units)
        args = CopyTilesArgs(
            units=units,
            units_per_chunk=per_chunk,
            size_a=inner.size,
            size_b=across.size,
            source_a=inner.source,
            target_b=across.target,
            target_start=self.starts[0],
            source_start=self.starts[1],
            sizes=tuple(axis.size for axis in outer),
            target_strides=tuple(axis.target for axis in outer),
            source_strides=tuple(axis.source for axis in outer),
        )
        return self._call(CopyTilesSpec(size=size, rank=len(outer), side=side, group=_GROUP), args, chunks)

    def _partition(self, units: int) -> tuple[int, int]:
        return self.ctx.partition(units, self.cost / maximum(units, 1))

    def _call(self, spec: KernelSpec, args: KernelArgs[int], chunks: int) -> Call:
        return self.ctx.call(
            self.node,
            spec,
            (self.target,),
            (self.source,),
            args=args,
            chunks=chunks,
            traffic=self.traffic,
            cost=self.ctx.machine.call_ns + self.cost,
        )
