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
    """An alias or copies; where an image without blocks is cut, a copy of it whole and one of what is left.

    None if blocks hold channels of several parts.
    """
    x, y, attrs = node.operand(0), node.output, node.attrs
    block = 1 if y.layout is None else y.layout.block
    if x.layout != y.layout or y.known_dtype.kind == "string" or (block > 1 and not can_spread_blocked(node, block)):
        return None
    strides, begins, ends = attrs["strides"], attrs["begins"], attrs["ends"]
    if block > 1 or not any((*begins, *ends)):
        return _filled(node, ctx, y, begins, ends)
    wide = (size * stride for size, stride in zip(x.static_shape[2:], strides, strict=True))
    whole = ctx.temporary(f"{y.name}.whole", y.known_dtype, (*y.static_shape[:2], *wide))
    steps = strides_of(whole.static_shape)
    start = sum(begin * step for begin, step in zip(begins, steps[2:], strict=True))
    left = copy_call(node, ctx, y, whole, dense_target(y.static_shape, steps), source_start=start)
    uncut = (0,) * len(strides)
    return [*_filled(node, ctx, whole, uncut, uncut), left]


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


def _filled(node: Node, ctx: LowerContext, target: Value, begins: tuple[int, ...], ends: tuple[int, ...]) -> list[Call]:
    """Fills `target`, from which `begins` and `ends` are cut off, by a copy for each combination of runs."""
    x, strides = node.operand(0), node.attrs["strides"]
    batch, given, *sizes = x.static_shape
    block = 1 if target.layout is None else target.layout.block
    rank = len(strides)
    # x as [batch, *strides, channels of a part, *sizes, block]
    source = strides_of((batch, *strides, given // elements(strides) // block, *sizes, block))
    shape = physical_shape(target.static_shape, target.layout)
    wide = strides_of(shape)
    calls = []
    for runs in product(*map(_runs, strides, begins, ends)):
        axes = [Axis(shape[0], wide[0], source[0]), Axis(shape[1], wide[1], source[1 + rank])]
        starts = [0, 0]
        for number, run in enumerate(runs):
            row, step, place = wide[2 + number], source[2 + rank + number], source[1 + number]
            axes.append(Axis(sizes[number] - run.missing, row * strides[number], step))
            axes.append(Axis(run.count, row, place))
            starts[0] += row * (run.skipped * strides[number] + run.first - begins[number])
            starts[1] += run.skipped * step + run.first * place
        axes.append(Axis(block, 1, 1))
        if not any((*begins, *ends)):
            return alias_or_copy(node, ctx, target, x, axes)
        calls.append(copy_call(node, ctx, target, x, axes, target_start=starts[0], source_start=starts[1]))
    return calls
