"""spread: copies of an image seen with more axes, of whole blocks of channels where it is blocked."""

from __future__ import annotations

from itertools import pairwise, product

from treadle.graph.dim import divides
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import elements, strides_of
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import Axis, alias_or_copy, copy_call, dense_target
from treadle.plan.call import Call
from treadle.records import dataclass


def can_spread_blocked(node: Node, block: int) -> bool:
    """Whether the parts of the channels fill blocks."""
    return divides(block * elements(node.attrs["strides"]), node.operand(0).static_shape[1])


def lower_spread(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A copy or an alias, and a copy of what is left of it; of blocks a copy for each part of a stride that has as many
    positions.

    None if blocks hold channels of several parts.
    """
    x, y = node.operand(0), node.output
    block = 1 if y.layout is None else y.layout.block
    if x.layout != y.layout or y.known_dtype.kind == "string" or (block > 1 and not can_spread_blocked(node, block)):
        return None
    if not any((*node.attrs["begins"], *node.attrs["ends"])):
        return _whole(node, ctx, y, block)
    if block > 1:
        return _parts(node, ctx, block)
    strides, shape = node.attrs["strides"], x.static_shape
    wide = (size * stride for size, stride in zip(shape[2:], strides, strict=True))
    whole = ctx.temporary(f"{y.name}.whole", y.known_dtype, (*y.static_shape[:2], *wide))
    steps = strides_of(whole.static_shape)
    start = sum(begin * step for begin, step in zip(node.attrs["begins"], steps[2:], strict=True))
    left = copy_call(node, ctx, y, whole, dense_target(y.static_shape, steps), source_start=start)
    return [*_whole(node, ctx, whole, block), left]


def _source_strides(node: Node, block: int) -> tuple[int, ...]:
    """The strides of x seen as [N, *strides, channels of a part, *sizes, block]."""
    batch, given, *sizes = node.operand(0).static_shape
    strides = node.attrs["strides"]
    return strides_of((batch, *strides, given // elements(strides) // block, *sizes, block))


def _whole(node: Node, ctx: LowerContext, target: Value, block: int) -> list[Call]:
    """Fills `target`, of which nothing is cut off."""
    x, strides = node.operand(0), node.attrs["strides"]
    rank, source = len(strides), _source_strides(node, block)
    outer = physical_shape(target.static_shape, target.layout)[:2]
    shape, steps = [*outer], [source[0], source[1 + rank]]
    for number, (size, stride) in enumerate(zip(x.static_shape[2:], strides, strict=True)):
        shape += [size, stride]
        steps += [source[2 + rank + number], source[1 + number]]
    return alias_or_copy(node, ctx, target, x, dense_target((*shape, block), [*steps, 1]))


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring places within a stride: the first one, how many, and the positions of x without those whose place is
    cut off: `skipped` at the begin and `missing` in all."""

    first: int
    count: int
    skipped: int
    missing: int


def _runs(stride: int, begin: int, end: int) -> list[_Run]:
    """The places within a stride, by the positions of x that they have."""
    edges = sorted({0, begin, stride - end, stride})
    return [
        _Run(first, last - first, int(first < begin), int(first < begin) + int(first >= stride - end))
        for first, last in pairwise(edges)
    ]


def _parts(node: Node, ctx: LowerContext, block: int) -> list[Call]:
    x, y, attrs = node.operand(0), node.output, node.attrs
    strides, begins = attrs["strides"], attrs["begins"]
    rank, source = len(strides), _source_strides(node, block)
    target = strides_of(physical_shape(y.static_shape, y.layout))
    batch, channels = physical_shape(y.static_shape, y.layout)[:2]
    calls = []
    for runs in product(*map(_runs, strides, begins, attrs["ends"])):
        axes = [Axis(batch, target[0], source[0]), Axis(channels, target[1], source[1 + rank])]
        starts = [0, 0]
        for number, run in enumerate(runs):
            wide, step, place = target[2 + number], source[2 + rank + number], source[1 + number]
            axes.append(Axis(x.static_shape[2 + number] - run.missing, wide * strides[number], step))
            axes.append(Axis(run.count, wide, place))
            starts[0] += wide * (run.skipped * strides[number] + run.first - begins[number])
            starts[1] += run.skipped * step + run.first * place
        axes.append(Axis(block, 1, 1))
        calls.append(copy_call(node, ctx, y, x, axes, target_start=starts[0], source_start=starts[1]))
    return calls
