"""Which tiling of direct convolution is the fastest, by a cost model."""

from __future__ import annotations

from typing import Any

from treadle.dtypes import i32
from treadle.graph.dim import ceil_div, computed, hint_of, maximum
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.open_rows import row_tiling
from treadle.passes.lower.conv.rows import EFFICIENCY, RowTiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.registers import sum_registers
from treadle.passes.lower.searches import partition_conv
from treadle.plan.target import Target

_PANEL_SHARE = 0.5
"""The part of L2 that the weights of one group of outputs may fill before the sum is computed in passes."""

_RUN_BYTES = 2048
"""A shorter run of bytes beyond L2 takes as long to read as so many in a long one, where the CPU prefetches."""


def choose_tiling(shape: ConvShape, factors: Factors, ctx: LowerContext, *, sums_fit: bool) -> Tiling | None:
    """Returns the tiling for `factors`; None if no blocks fit open rows.

    It has passes only if `sums_fit`: the elements of the result can store sums; and no pixel is computed twice.
    """
    target, lanes = ctx.target, factors.lanes
    halves = target.isa == "avx512" and factors.each == 1
    vnni = factors.dtype == i32
    row = row_tiling(shape, lanes, sum_registers(target, vnni=vnni), halves=halves, runs=not vnni)
    if row is None:
        return None
    panel = row.vectors * lanes
    groups = -(-shape.outputs // panel)
    channels = factors.channels(shape)
    in_passes = sums_fit and not factors.plain and factors.dtype != i32 and not row.checked
    units = row.blocks if row.flat else shape.out_size[0]
    x_bytes = _x_bytes(shape, factors, row, target)
    unit_chunks, units_per_chunk, groups_per_chunk = _partition(
        shape, factors, ctx, units * shape.images, groups, x_bytes
    )
    return Tiling(
        row=row,
        panel=panel,
        groups=groups,
        channels=channels,
        channels_per_pass=_channels_per_pass(shape, factors, panel, target) if in_passes else channels,
        unroll=_unroll(shape, factors),
        units=units,
        unit_chunks=unit_chunks,
        units_per_chunk=units_per_chunk,
        groups_per_chunk=groups_per_chunk,
    )


def _unroll(shape: ConvShape, factors: Factors) -> int:
    """Returns the elements of channels in a turn of the innermost loop: several where the kernel has one column.

    With four elements of two or four channels, LLVM would spill sums of some blocks, which takes half as long again.
    """
    if shape.kernel[1] > 1:
        return 1
    turns = (4, 2, 1) if factors.each == 1 else (2, 1)
    return next(turn for turn in turns if factors.channels(shape) % turn == 0 and factors.block % turn == 0)


def _channels_per_pass(shape: ConvShape, factors: Factors, panel: int, target: Target) -> int:
    """Returns the elements of channels between two stores of the sums: all if a group's weights fit into L2."""
    channels, block = factors.channels(shape), factors.block
    panel_bytes = channels * elements(shape.kernel) * panel * factors.dtype.size
    passes = -(-panel_bytes // int(_PANEL_SHARE * target.l2))
    if passes <= 1:
        return channels
    blocks = -(-channels // block)
    return -(-blocks // passes) * block


def _x_bytes(shape: ConvShape, factors: Factors, row: RowTiling, target: Target) -> int:
    """Returns the bytes of x, and more for reading it where it is not in L2 and the time of computing is short.

    A register block of a 1x1 kernel reads a run of pixels of one block of channels, then one of the next, far away.
    """
    x_bytes = nbytes(factors.x)
    if shape.kernel != (1, 1) or shape.groups > 1 or factors.plain:
        return x_bytes
    run_bytes = row.widest * factors.block * factors.x.known_dtype.size
    return x_bytes + (max(1, _RUN_BYTES // run_bytes) - 1) * maximum(0, x_bytes - target.l2)


def _partition(
    shape: ConvShape, factors: Factors, ctx: LowerContext, units: int, groups: int, x_bytes: int
) -> tuple[int, int, int]:
    """Returns (chunks along the units, units a chunk, groups a chunk): little traffic and load imbalance.

    `x_bytes`: what reading all of x is like.
    """
    total = ctx.flops_ns(2.0 * shape.multiply_adds / factors.rate(ctx.target), 0.0, EFFICIENCY)
    weights = 4 * elements(factors.weights.static_shape) // factors.each
    args = units, groups, total, weights, x_bytes, ctx.machine.l3_shared_bytes_per_ns, ctx.machine.usual_chunk_ns
    known: Any = map(hint_of, args)
    found = partition_conv(*known)
    units_each = computed("conv.units", lambda *_: found[0], args, least=1)
    groups_each = computed("conv.groups", lambda *_: found[1], args, least=1)
    return ceil_div(units, units_each), units_each, groups_each
