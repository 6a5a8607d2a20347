"""Lowering of gather_reduce: bags of rows, each folded into one row."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.dtypes import i64
from treadle.graph.dim import at_least, at_most, ceil_div, equals, hint_of, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.reduce import reduced_axes
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.gather import INDEX_DTYPES, PICK_NS, prefetched
from treadle.passes.lower.reduce import HOW, Pass, Passes, plain_steps
from treadle.plan.call import Call
from treadle.plan.kernels.gather_reduce import GatherReduceArgs, GatherReduceSpec
from treadle.plan.kernels.reduce import FOLDED_ROWS


def bag_step(how: str, x: Value, indices: Value, axes: Sequence[int]) -> Pass | None:
    """The one pass in which `how` (an op) over `axes` of the indices reduces the rows of x; None if the kernel cannot.

    It takes 32 and 64 bit indices, neighbouring axes, rows of more than one element, and the dtypes that `lower_reduce`
    takes.
    """
    dtype, length, shape = x.known_dtype, elements(x.static_shape[1:]), indices.static_shape
    usable = dtype in (dtypes.f32, dtypes.f64) or (dtype.is_integer and how != "reduce_mean")
    usable = usable and indices.known_dtype in INDEX_DTYPES and at_least(length, 2)
    if not usable or 0 in (*x.static_shape, *shape):
        return None
    steps = plain_steps((*shape, length), set(axes))
    return steps[0] if len(steps) == 1 else None


def lower_gather_reduce(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A call that reduces bags, in pieces if they are few and long, and then a call that reduces the pieces. Pieces and
    the order of sums are those of `lower_reduce` for rows in memory. None where `bag_step` is None."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    shape, length, dtype = indices.static_shape, elements(x.static_shape[1:]), x.known_dtype
    how, mean = HOW[node.attrs["how"]], node.attrs["how"] == "reduce_mean"
    axes = reduced_axes(node.attrs["axes"], len(shape))
    step = bag_step(node.attrs["how"], x, indices, axes)
    if step is None:
        return None
    count = elements(shape[axis] for axis in axes)
    passes = Passes(node, ctx, how, dtype, count, (x,), None)
    pieces, piece = passes.pieces(step, ctx.moved_ns(dtype.size))
    target = y if equals(pieces, 1) else passes.temporary((step.outer, pieces, step.width))

    lanes = ctx.target.vector_bytes // passes.folded(x).size
    while not at_least(length, lanes):
        lanes //= 2
    most = ctx.target.registers // 2
    vectors = ceil_div(int(hint_of(length)), lanes)
    vectors = ceil_div(vectors, ceil_div(vectors, most))
    inner, row = step.width // length, length * dtype.size
    lines, distance = prefetched(x, row, vectors * lanes * dtype.size, ctx)
    reads = tuple(value for value in node.inputs if value is not None)
    spec = GatherReduceSpec(
        how=how,
        source=dtype,
        folded=passes.folded(x),
        result=target.known_dtype,
        long=not at_most(piece, FOLDED_ROWS),
        lanes=lanes,
        mean=mean and equals(pieces, 1),
        wide=indices.known_dtype == i64,
        weighted=len(reads) > 2,
        flat=equals(pieces * inner, 1),
        vectors=vectors,
        lines=lines,
    )
    units = step.outer * pieces * inner
    picks = elements(shape)
    traffic = picks * row + nbytes(indices) + nbytes(target)
    cost = ctx.moved_ns(traffic) + picks * PICK_NS
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    args = GatherReduceArgs(
        units=units,
        units_per_chunk=per_chunk,
        n=step.n,
        piece=piece,
        pieces=pieces,
        count=count,
        inner=inner,
        length=length,
        size=x.static_shape[0],
        total=step.outer * step.n,
        distance=distance,
    )
    call = ctx.call(
        node,
        spec,
        (target,),
        reads,
        args=args,
        chunks=chunks,
        cost=ctx.machine.call_ns + cost,
        flops=picks * length,
        traffic=traffic,
    )
    if not equals(pieces, 1):
        passes.append_whole(Pass(step.outer, pieces, step.width), target, y, mean=mean)
    return [call, *passes.calls]
