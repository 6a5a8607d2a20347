"""Weights that a Winograd kernel transforms itself, those of some input channels at a time.

There are up to four times as many transformed weights as taps. If weights are streamed, it is faster to read the taps
and transform them in the cache than to read transformed weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.kernels.conv.tile_product import Section
from treadle.codegen.kernels.conv.winograd.transforms import weight_transform
from treadle.plan.kernels.conv.winograd import WinogradConvSpec, WinogradSection


class Sections:
    """The sections of a kernel's input channels; the last one may be short.

    While one is multiplied, the taps of the next are prefetched.
    """

    def __init__(
        self,
        k: Kernel,
        spec: WinogradConvSpec,
        section: WinogradSection,
        channels: Index,
        inputs: ir.Value,
        block_stride: Index,
        panel: ir.Value,
    ) -> None:
        """`inputs`: [point, channel block, tile, lane], blocks `block_stride` apart; `panel`: room for weights."""
        self.k = k
        self.channels, self.inputs, self.block_stride, self.panel = channels, inputs, block_stride, panel
        self.dtype, self.lanes, self.vectors = spec.dtype, spec.lanes, spec.vectors
        self.section = section

    @contextmanager
    def of_group(self, group: Index) -> Iterator[Section]:
        """A loop over the sections of output group `group`; in its body the section's weights are transformed."""
        k = self.k
        down, across = (len(matrix[0]) for matrix in self.section.matrices)
        row = down * across * self.vectors * self.lanes
        count = k.div(k.add(self.channels, self.section.channels - 1), self.section.channels)
        with loop(k, 0, count, name="section") as section:
            first = k.mul(section.index, self.section.channels)
            channels = k.min(k.sub(self.channels, first), self.section.channels)
            taps = k.at(k.pointer(2), k.mul(k.add(k.mul(group, self.channels), first), row), self.dtype)
            with loop(k, 0, channels, name="channel") as channel, loop(k, 0, self.vectors, name="vector") as vector:
                at = k.mul(vector.index, self.lanes)
                source = k.at(taps, k.add(k.mul(channel.index, row), at), self.dtype)
                to = k.add(k.mul(channel.index, self.vectors * self.lanes), at)
                self._transform(source, k.at(self.panel, to, self.dtype))
            yield Section(
                channels,
                k.at(self.inputs, k.mul(k.div(first, self.lanes), self.block_stride), self.dtype),
                self.panel,
                self.section.factor_stride,
                k.b.icmp_signed("!=", as_i64(section.index), as_i64(0)),
                k.at(taps, k.mul(channels, row), self.dtype),
                self.section.prefetch_bytes,
            )

    def _transform(self, taps: ir.Value, target: ir.Value) -> None:
        """Writes the values at all points of one vector of kernels, whose taps are `vectors` vectors apart."""
        k = self.k
        down, across = self.section.matrices
        columns = len(across[0])
        halves = []
        for j in range(columns):
            offsets = [(i * columns + j) * self.vectors * self.lanes for i in range(len(down[0]))]
            column = [load(k, taps, offset, self.dtype, self.lanes) for offset in offsets]
            halves.append(weight_transform(k, column, down))
        for i in range(len(down)):
            for j, value in enumerate(weight_transform(k, [half[i] for half in halves], across)):
                store(k, value, target, (i * len(across) + j) * self.section.factor_stride, self.dtype)
