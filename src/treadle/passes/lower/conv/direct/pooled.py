"""A direct convolution and the max pooling that alone reads its result: the call of one kernel, and its chunks."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.knobs import is_enabled
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.pool import Axis, axes_of, lower_max_pool
from treadle.passes.lower.searches import choose_band
from treadle.plan.call import Call
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec
from treadle.plan.kernels.conv.pooled import PooledConvArgs, PooledConvSpec
from treadle.plan.kernels.pool import BlockedPoolSpec, PoolArgs
from treadle.plan.target import LINE
from treadle.records import dataclass

_KINDS = {"scalar", "channel", "ragged"}
"""Kinds of operands of an epilogue that are the same for all rows and images."""


@dataclass(frozen=True, slots=True)
class Bands:
    """Chunks of `rows` rows of the pooled image. Each reads at most `most` rows of the convolution."""

    rows: int
    most: int

    @staticmethod
    def of(axis: Axis, rows: int) -> Bands:
        """Returns chunks of `rows` rows pooled along `axis`."""
        return Bands(rows, min((rows - 1) * axis.stride + axis.reach, axis.size))


def lower_pooled(node: Node, shape: ConvShape, conv: Call, ctx: LowerContext) -> list[Call] | None:
    """Returns one call for `node`, of which `conv` is the call, and the max pooling of its result.

    None if another node reads that result too, where two calls are faster, and for open sizes.
    """
    if shape.is_open or not is_enabled("conv_pool") or not ctx.graph.has_one_use(node.output):
        return None
    (reader,) = node.output.users
    pools = lower_max_pool(reader, ctx) if reader.op == "max_pool" else None
    if not pools:
        return None
    (pool,), axis = pools, axes_of(reader)[0]
    spec, conv_args, pool_args = _records(conv, pool)
    if spec.conv.flat or not set(spec.conv.kinds) <= _KINDS:
        return None
    bands = choose_bands(shape, conv, pool, axis, ctx)
    if bands is None:
        return None
    conv_scratch = -(-bands.most * _row_bytes(shape, conv) // LINE) * LINE
    row_chunks = -(-axis.out // bands.rows)
    call = ctx.call(
        node,
        spec,
        pool.writes,
        conv.reads,
        args=PooledConvArgs(
            rows_per_chunk=bands.rows,
            row_chunks=row_chunks,
            planes=-(-shape.outputs // spec.conv.lanes),
            conv_scratch=conv_scratch,
            conv=conv_args,
            pool=pool_args,
        ),
        chunks=shape.images * row_chunks,
        flops=conv.flops + pool.flops,
        cost=conv.cost + pool.cost,
        scratch=conv_scratch + conv.scratch,
    )
    call.node = f"{node.name}+{reader.name}"
    node.take_over([node, reader])
    ctx.done(reader)
    return [call]


def _records(conv: Call, pool: Call) -> tuple[PooledConvSpec, DirectConvArgs[int], PoolArgs[int]]:
    """Returns the spec of the one kernel, and the arguments of both calls."""
    assert isinstance(conv.spec, DirectConvSpec), "direct convolutions have a kernel"
    assert isinstance(conv.args, DirectConvArgs)
    assert isinstance(pool.spec, BlockedPoolSpec), "what a direct convolution writes is blocked"
    assert isinstance(pool.args, PoolArgs)
    return PooledConvSpec(conv=conv.spec, pool=pool.spec, operands=1 + len(conv.reads)), conv.args, pool.args


def _row_bytes(shape: ConvShape, conv: Call) -> int:
    """Returns the bytes of a row of the convolution, in all channels."""
    return nbytes(conv.writes[0]) // (shape.images * shape.out_size[0])


def choose_bands(shape: ConvShape, conv: Call, pool: Call, axis: Axis, ctx: LowerContext) -> Bands | None:
    """Returns the cheapest chunks; None where two calls are faster, or no chunk's rows fit in L2."""
    rows = choose_band(
        images=shape.images,
        out_rows=axis.out,
        rows=axis.size,
        row_bytes=_row_bytes(shape, conv),
        reach=axis.reach,
        stride=axis.stride,
        weight_bytes=nbytes(conv.reads[1]),
        scratch=conv.scratch,
        conv_ns=conv.cost,
        pool_ns=pool.cost,
        l2=ctx.target.l2,
        l3_bytes_per_ns=ctx.machine.l3_bytes_per_ns,
        l3_shared_bytes_per_ns=ctx.machine.l3_shared_bytes_per_ns,
        usual_chunk_ns=ctx.machine.usual_chunk_ns,
    )
    return Bands.of(axis, rows) if rows else None
