"""How direct convolution into the blocked layout is cut: groups of outputs, passes over the input's channels, chunks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes, wanted_chunks
from treadle.passes.lower.conv_blocked_factors import Factors
from treadle.passes.lower.conv_shape import ConvShape, Pair
from treadle.passes.lower.conv_tiles import EFFICIENCY, Tile, choose_tile, sum_registers
from treadle.passes.lower.load_imbalance import load_imbalance
from treadle.plan.target import Target

_CHUNK_NS = 30_000.0
CACHE_BYTES_PER_NS = 16.0
"""How fast chunks read weights and images that others read too."""

_PANEL_SHARE = 0.5
"""The part of L2 that the weights of one group of outputs may fill before the reduction is cut into passes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to do a convolution.

    `groups` of `panel` output channels each, as wide as `tile`, take turns. Of the `channels` elements along the input's
    channels, `channels_per_pass` are done between two stores of the sums, `unroll` in a turn of the innermost loop.
    `units` are the rows of an image, or its blocks if it is one long row. A chunk is `units_per_chunk` of those of all
    images, of which there are `unit_chunks`, in `groups_per_chunk` groups.
    """

    tile: Tile
    panel: int
    groups: int
    channels: int
    channels_per_pass: int
    unroll: int
    units: int
    unit_chunks: int
    units_per_chunk: int
    groups_per_chunk: int

    @property
    def outputs(self) -> int:
        """Output channels of all groups, those that fill up the last one included."""
        return self.groups * self.panel

    @property
    def has_passes(self) -> bool:
        """Whether sums are stored before they are finished."""
        return self.channels_per_pass < self.channels

    @property
    def chunks(self) -> int:
        """Chunks of the whole convolution."""
        return self.unit_chunks * -(-self.groups // self.groups_per_chunk)

    @property
    def widest(self) -> int:
        """Pixels of the widest register block."""
        return max(map(len, self.tile.segments))


def choose_cut(shape: ConvShape, factors: Factors, ctx: LowerContext, *, sums_fit: bool) -> Cut:
    """The cut for `factors`. There are passes only if `sums_fit` the output's elements, where they wait."""
    target, lanes = ctx.target, factors.lanes
    halves = target.isa == "avx512" and factors.each == 1
    tile = choose_tile(shape, lanes, sum_registers(target, quads=factors.quads), halves=halves)
    panel = tile.vectors * lanes
    groups = -(-shape.outputs // panel)
    channels = factors.channels(shape)
    in_passes = sums_fit and not factors.plain and not factors.quads
    units = tile.blocks if tile.flat else shape.out_size[0]
    unit_chunks, units_per_chunk, groups_per_chunk = _grid(shape, factors, ctx, units * shape.images, groups)
    return Cut(
        tile=tile,
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
    """Elements of the input's channels a turn of the innermost loop: several where the kernel has one column.

    Of pairs and quads only two: with four, LLVM keeps sums of some blocks on the stack, which takes half as long again.
    """
    if shape.kernel[1] > 1:
        return 1
    turns = (4, 2, 1) if factors.each == 1 else (2, 1)
    return next(turn for turn in turns if factors.channels(shape) % turn == 0 and factors.block % turn == 0)


def _channels_per_pass(shape: ConvShape, factors: Factors, panel: int, target: Target) -> int:
    """Elements of channels between two stores of the sums: all, unless the weights of a group would overflow L2."""
    channels, block = factors.channels(shape), factors.block
    panel_bytes = channels * elements(shape.kernel) * panel * factors.dtype.size
    passes = -(-panel_bytes // int(_PANEL_SHARE * target.l2))
    if passes <= 1:
        return channels
    blocks = -(-channels // block)
    return -(-blocks // passes) * block


def _grid(shape: ConvShape, factors: Factors, ctx: LowerContext, units: int, groups: int) -> tuple[int, int, int]:
    """(chunks along the units, units a chunk, groups a chunk): little traffic, chunks of about _CHUNK_NS."""
    total = ctx.flops_ns(2.0 * shape.multiply_adds / factors.each, 0.0, EFFICIENCY)
    wanted = wanted_chunks(total, _CHUNK_NS)
    weights, x = 4 * elements(factors.weights.static_shape) // factors.each, nbytes(factors.x)
    best: tuple[float, tuple[int, int, int]] | None = None
    for group_chunks in range(1, groups + 1):
        per_chunk = -(-groups // group_chunks)
        if -(-groups // per_chunk) < group_chunks:
            continue
        for unit_chunks, units_per_chunk in _unit_cuts(units, wanted / group_chunks):
            traffic = (unit_chunks * weights + group_chunks * x) / CACHE_BYTES_PER_NS
            score = traffic + total * load_imbalance((groups, per_chunk), (units, units_per_chunk), wanted)
            if best is None or score < best[0]:
                best = (score, (unit_chunks, units_per_chunk, per_chunk))
    assert best is not None, "there is at least one group"
    return best[1]


def _unit_cuts(units: int, wanted: float) -> list[Pair]:
    """(chunks, units a chunk) for numbers of chunks near `wanted`; if there is none, for the most that are not more."""
    least = 0.8 * wanted
    counts = range(max(1, ceil(least)), max(1, ceil(least), int(1.3 * wanted)) + 1)
    sizes = {-(-units // min(units, count)) for count in counts}
    cuts = [(-(-units // each), each) for each in sorted(sizes)]
    return [cut for cut in cuts if cut[0] >= least] or cuts[:1]
