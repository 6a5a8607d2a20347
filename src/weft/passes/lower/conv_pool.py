"""A direct convolution together with the max pooling that alone reads it: the call of their one kernel, and its chunks."""

from __future__ import annotations

from dataclasses import dataclass

from weft.graph.node import Node
from weft.graph.value import Value
from weft.passes.lower.base import BYTES_PER_NS, USEFUL_CHUNKS, LowerContext, nbytes, wanted_chunks
from weft.passes.lower.conv_blocked import lower_direct
from weft.passes.lower.conv_shape import ConvShape
from weft.passes.lower.evenness import loss
from weft.passes.lower.pool import Axis, axes_of, lower_max_pool
from weft.plan.call import Call
from weft.plan.kernel_spec import KernelSpec
from weft.plan.target import LINE

_BAND_SHARE = 0.5
"""The part of L2 that the rows between the two may fill."""

_WEIGHT_BYTES_PER_NS = 16.0
_KINDS = {"scalar", "channel", "ragged"}
"""Operands of a tail that are the same for all rows and images."""


@dataclass(frozen=True, slots=True)
class Bands:
    """Chunks of `rows` rows of the pooled image. `most` are the rows of the convolution that one of them reads at most."""

    rows: int
    most: int

    @staticmethod
    def of(axis: Axis, rows: int) -> Bands:
        """Chunks of `rows` rows pooled along `axis`."""
        return Bands(rows, min((rows - 1) * axis.stride + reach(axis), axis.size))


def reach(axis: Axis) -> int:
    """From the first row that a window reads to behind the last one."""
    return (axis.kernel - 1) * axis.dilation + 1


def lower_pooled(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """One call for `node` and the max pooling of its result. None if something else reads that, or where two calls are faster."""
    reader = _only_reader(node, ctx)
    if reader is None or reader.op != "max_pool" or reader.operand(0).layout is None:
        return None
    convs, pools = lower_direct(node, shape, ctx), lower_max_pool(reader, ctx)
    if not convs or not pools:
        return None
    (conv,), (pool,) = convs, pools
    assert conv.spec is not None and pool.spec is not None, "both have kernels"  # noqa: PT018
    if conv.spec["flat"] or not set(conv.spec["kinds"]) <= _KINDS:
        return None
    bands = choose_bands(shape, conv, pool, axes_of(reader)[0], ctx)
    if bands is None:
        return None
    row_bytes = nbytes(node.output) // (shape.images * shape.out_size[0])
    aside = -(-bands.most * row_bytes // LINE) * LINE
    lanes: int = conv.spec["lanes"]
    row_chunks = -(-axes_of(reader)[0].out // bands.rows)
    call = ctx.call(
        node,
        KernelSpec.of("conv_pool", conv=conv.spec, pool=pool.spec, operands=1 + len(conv.reads)),
        pool.writes,
        conv.reads,
        args=(bands.rows, row_chunks, -(-shape.outputs // lanes), aside, *conv.args, *pool.args),
        chunks=shape.images * row_chunks,
        flops=conv.flops + pool.flops,
        cost=conv.cost + pool.cost,
        scratch=aside + conv.scratch,
    )
    call.node = f"{node.name}+{reader.name}"
    node.take_over([node, reader])
    ctx.done(reader)
    return [call]


def _only_reader(node: Node, ctx: LowerContext) -> Node | None:
    value: Value = node.output
    return value.users[0] if len(value.users) == 1 and not ctx.graph.is_output(value) else None


def choose_bands(shape: ConvShape, conv: Call, pool: Call, axis: Axis, ctx: LowerContext) -> Bands | None:
    """The chunks that cost least: rows that two of them compute, weights that each reads, and what workers wait for each
    other. None where that is more than it takes to stream the rows between once."""
    weights, between = nbytes(conv.reads[1]), nbytes(conv.writes[0])
    row_bytes = between // (shape.images * shape.out_size[0])
    total = conv.cost + pool.cost
    wanted = min(wanted_chunks(total), float(USEFUL_CHUNKS))
    best: tuple[float, Bands] | None = None
    for rows in range(1, axis.out + 1):
        bands = Bands.of(axis, rows)
        if bands.most * row_bytes + conv.scratch > _BAND_SHARE * ctx.target.l2:
            break
        chunks = -(-axis.out // rows)
        again = max(0, reach(axis) - axis.stride) * (chunks - 1) * conv.cost / axis.size
        fetched = shape.images * chunks * weights / _WEIGHT_BYTES_PER_NS
        score = again + fetched + total * loss((axis.out, rows), (shape.images, 1), wanted)
        if best is None or score < best[0]:
            best = (score, bands)
    return best[1] if best is not None and best[0] <= between / BYTES_PER_NS else None
