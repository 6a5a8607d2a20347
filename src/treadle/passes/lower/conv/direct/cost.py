"""Which tiling of direct convolution is the fastest, by a cost model."""

from __future__ import annotations

from math import ceil

from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.rows import EFFICIENCY, choose_row_tiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.registers import sum_registers
from treadle.passes.lower.searches import load_imbalance, wanted_chunks
from treadle.plan.kernels.conv.rows import Pair
from treadle.plan.target import Target

CACHE_BYTES_PER_NS = 16.0
"""How fast a chunk reads weights and images that other chunks read too."""

_CHUNK_NS = 30_000.0

_PANEL_SHARE = 0.5
"""The part of L2 that the weights of one group of outputs may fill before the sum is computed in passes."""


def choose_tiling(shape: ConvShape, factors: Factors, ctx: LowerContext, *, sums_fit: bool) -> Tiling:
    """Returns the tiling for `factors`. It has passes only if `sums_fit`: the elements of the result can store sums."""
    target, lanes = ctx.target, factors.lanes
    halves = target.isa == "avx512" and factors.each == 1
    row = choose_row_tiling(shape, lanes, sum_registers(target, vnni=factors.vnni), halves=halves)
    panel = row.vectors * lanes
    groups = -(-shape.outputs // panel)
    channels = factors.channels(shape)
    in_passes = sums_fit and not factors.plain and not factors.vnni
    units = row.blocks if row.flat else shape.out_size[0]
    unit_chunks, units_per_chunk, groups_per_chunk = _partition(shape, factors, ctx, units * shape.images, groups)
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


def _partition(shape: ConvShape, factors: Factors, ctx: LowerContext, units: int, groups: int) -> tuple[int, int, int]:
    """Returns (chunks along the units, units a chunk, groups a chunk): little traffic, chunks of about _CHUNK_NS."""
    total = ctx.flops_ns(2.0 * shape.multiply_adds / factors.each, 0.0, EFFICIENCY)
    wanted = wanted_chunks(total, _CHUNK_NS)
    weights, x = 4 * elements(factors.weights.static_shape) // factors.each, nbytes(factors.x)
    best: tuple[float, tuple[int, int, int]] | None = None
    for group_chunks in range(1, groups + 1):
        per_chunk = -(-groups // group_chunks)
        if -(-groups // per_chunk) < group_chunks:
            continue
        for unit_chunks, units_per_chunk in _unit_partitions(units, wanted / group_chunks):
            traffic = (unit_chunks * weights + group_chunks * x) / CACHE_BYTES_PER_NS
            score = traffic + total * load_imbalance((groups, per_chunk), (units, units_per_chunk), wanted)
            if best is None or score < best[0]:
                best = (score, (unit_chunks, units_per_chunk, per_chunk))
    assert best is not None, "there is at least one group"
    return best[1]


def _unit_partitions(units: int, wanted: float) -> list[Pair]:
    """Returns (chunks, units a chunk) for numbers of chunks near `wanted`; if there is none, for the most below it."""
    least = 0.8 * wanted
    counts = range(max(1, ceil(least)), max(1, ceil(least), int(1.3 * wanted)) + 1)
    sizes = {-(-units // min(units, count)) for count in counts}
    partitions = [(-(-units // each), each) for each in sorted(sizes)]
    return [partition for partition in partitions if partition[0] >= least] or partitions[:1]
