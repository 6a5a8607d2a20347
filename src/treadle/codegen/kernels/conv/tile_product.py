"""The products of Winograd's algorithm: one of small matrices for each point.

A point is one at which the algorithm evaluates a tile and the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, prefetch, store
from treadle.codegen.emit.vectors import constant, multiply_add, splat
from treadle.plan.kernels.conv.tile_product import TileProductSpec
from treadle.plan.target import LINE
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """Neighbouring input channels, in whole blocks except the last, and the weights that they are multiplied with."""

    channels: Index
    inputs: ir.Value
    """[point, block of channels, tile, lane], points input_point elements apart."""
    factors: ir.Value
    """[factor, channel, vectors * lanes]"""
    factor_stride: Index
    """Elements between two factors."""
    follows: ir.Value | None = None
    """An i1: products are added to those of earlier sections. None, or false: they begin with zero."""
    next_taps: ir.Value | None = None
    """What to prefetch meanwhile: `prefetch_bytes` for each channel, register block and point."""
    prefetch_bytes: int = 0
    ahead: int = 0
    """How many bytes behind the factors that a turn reads it prefetches as many; 0: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSizes:
    """The arguments of a kernel that its products need."""

    group_tiles: Index
    """Tiles of a group."""
    input_point: Index
    """Elements between the inputs of two points."""
    product_point: Index
    """Elements between the products of two points."""
    groups: Index
    """Groups of `vectors` vectors of output channels."""
    groups_per_chunk: Index
    counts: tuple[Index, ...]
    """Register blocks of each of the spec's `heights`."""


class Product:
    """Emits products of one kernel: register blocks of a few tiles times `vectors` vectors of output channels.

    `factors`: how many matrices of weights there are, and the number of that of each point; None: each has its own.
    `ahead`: as in Section, for kernels without sections.
    """

    def __init__(
        self,
        k: Kernel,
        spec: TileProductSpec,
        sizes: ProductSizes,
        channels: Index,
        points: int,
        *,
        factors: tuple[int, Callable[[Index], Index]] | None,
        ahead: int,
    ) -> None:
        self.k = k
        self.sizes = sizes
        self.channels = channels
        self.points = points
        self.factors, self.factor_of = factors or (points, lambda point: point)
        self.dtype, self.lanes, self.vectors = spec.dtype, spec.lanes, spec.vectors
        self.heights, self.unroll = spec.heights, spec.unroll
        self.ahead = ahead
        self.block_stride = k.mul(sizes.group_tiles, self.lanes)

    @contextmanager
    def of_groups(
        self,
        chunk: Index,
        out_vectors: Index,
        inputs: ir.Value,
        products: ir.Value,
        sections: Callable[[Index], AbstractContextManager[Section]] | None = None,
    ) -> Iterator[tuple[Index, Index]]:
        """A loop over the groups of output channels of `chunk`: in its body, `products` holds those of one group.

        Yields the group's first of `out_vectors` vectors and how many it has. `inputs` is [point, block of channels,
        tile, lane], `products` [point, tile, vectors * lanes]. `sections` loops over the sections of a group; without
        it there is one, and pointer 2 are the weights [group, factor, channel, vectors * lanes].
        """
        k, sizes = self.k, self.sizes
        first = k.mul(chunk, sizes.groups_per_chunk)
        with loop(k, first, k.min(k.add(first, sizes.groups_per_chunk), sizes.groups), name="group") as group:
            with (sections or self._whole(inputs))(group.index) as section:
                self._emit(section, products)
            first_vector = k.mul(group.index, self.vectors)
            yield first_vector, k.min(k.sub(out_vectors, first_vector), self.vectors)

    def _whole(self, inputs: ir.Value) -> Callable[[Index], AbstractContextManager[Section]]:
        """Returns a loop over one section, of all channels."""
        k, width = self.k, self.vectors * self.lanes

        def section(group: Index) -> AbstractContextManager[Section]:
            panel = k.mul(group, k.mul(self.channels, self.factors * width))
            factors = k.at(k.pointer(2), panel, self.dtype)
            stride = k.mul(self.channels, width)
            return nullcontext(Section(self.channels, inputs, factors, stride, ahead=self.ahead))

        return section

    def _emit(self, section: Section, products: ir.Value) -> None:
        """products[point] = inputs[point] times its weights, plus products[point] if the section `follows`."""
        k, width = self.k, self.vectors * self.lanes
        with loop(k, 0, self.points, name="point") as point:
            rows_of = k.at(section.inputs, k.mul(point.index, self.sizes.input_point), self.dtype)
            factor = k.mul(self.factor_of(point.index), section.factor_stride)
            factors = k.at(section.factors, factor, self.dtype)
            results = k.at(products, k.mul(point.index, self.sizes.product_point), self.dtype)
            first: Index = 0
            before = k.mul(point.index, self._blocks()) if section.prefetch_bytes else 0
            for height, count in zip(self.heights, self.sizes.counts, strict=True):
                with loop(k, 0, count, name=f"tiles{height}") as turn:
                    tile = k.add(first, k.mul(turn.index, height))
                    rows = k.at(rows_of, k.mul(tile, self.lanes), self.dtype)
                    offsets = [
                        k.add(k.mul(tile, width), r * width + v * self.lanes)
                        for r in range(height)
                        for v in range(self.vectors)
                    ]
                    start = [self._begun(section, results, offset) for offset in offsets]
                    sums = self._sums(section, rows, factors, start, k.add(before, turn.index))
                    for offset, value in zip(offsets, sums, strict=True):
                        store(k, value, results, offset, self.dtype)
                first = k.add(first, k.mul(count, height))
                before = k.add(before, count)

    def _blocks(self) -> Index:
        """Returns the register blocks of a point."""
        total: Index = 0
        for count in self.sizes.counts:
            total = self.k.add(total, count)
        return total

    def _begun(self, section: Section, results: ir.Value, offset: Index) -> ir.Value:
        """Returns what a sum begins with."""
        nothing = constant(self.dtype, 0.0, self.lanes)
        if section.follows is None:
            return nothing
        return self.k.b.select(section.follows, load(self.k, results, offset, self.dtype, self.lanes), nothing)

    def _sums(
        self, section: Section, rows: ir.Value, weights: ir.Value, start: list[ir.Value], turn: Index
    ) -> list[ir.Value]:
        """Returns `start` plus the products of neighbouring tiles, tile by tile; `turn` numbers the register blocks."""
        k, lanes, width = self.k, self.lanes, self.vectors * self.lanes
        count = k.div(k.add(section.channels, lanes - 1), lanes)
        with loop(k, 0, count, carry=start, name="block") as block:
            first = k.mul(block.index, lanes)
            panel = k.at(weights, k.mul(first, width), self.dtype)
            base = k.at(rows, k.mul(block.index, self.block_stride), self.dtype)
            here = k.min(k.sub(section.channels, first), lanes)
            past = k.add(k.mul(turn, section.channels), first)
            with loop(k, 0, here, self.unroll, carry=block.carry, name="channel") as channel:
                sums = list(channel.carry)
                for line in range(0, section.prefetch_bytes * self.unroll, LINE):
                    assert section.next_taps is not None, "what is prefetched has an address"
                    at = k.mul(k.add(past, channel.index), section.prefetch_bytes)
                    prefetch(k, section.next_taps, k.add(at, line))
                for line in range(0, self.unroll * width * self.dtype.size if section.ahead else 0, LINE):
                    at = k.mul(channel.index, width * self.dtype.size)
                    prefetch(k, panel, k.add(at, section.ahead + line))
                for u in range(self.unroll):
                    at = k.at(panel, k.mul(k.add(channel.index, u), width), self.dtype)
                    factors = [load(k, at, v * lanes, self.dtype, lanes) for v in range(self.vectors)]
                    pixel = k.at(base, k.add(channel.index, u), self.dtype)
                    for r in range(len(start) // self.vectors):
                        value = splat(k, load(k, pixel, r * lanes, self.dtype), lanes)
                        for v, factor in enumerate(factors):
                            number = r * self.vectors + v
                            sums[number] = multiply_add(k, value, factor, sums[number])
                channel.next(*sums)
            block.next(*channel.carry)
        return block.carry
