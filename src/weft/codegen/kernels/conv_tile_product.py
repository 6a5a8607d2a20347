"""The products in the middle of Winograd's and of Strassen's algorithm: a small one of matrices for each point.

Points are those at which Winograd's algorithm evaluates a tile and the kernel, or the products that Strassen's takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from weft.codegen.emit.kernel import Index, Kernel
from weft.codegen.emit.loops import loop
from weft.codegen.emit.memory import load, store
from weft.codegen.emit.vectors import constant, multiply_add, splat
from weft.plan.kernel_spec import KernelSpec


class Product:
    """Emits products of one kernel: register blocks of a few tiles times `vectors` vectors of output channels.

    `arg` has the numbers group_tiles, input_point, product_point (elements between two points), groups (of `vectors` vectors
    of output channels) and groups_per_chunk; how many blocks of each of `heights` are the arguments from `first_count` on.
    `factors`: how many matrices of weights there are, and with which one a point is multiplied; else each has its own.
    """

    def __init__(
        self,
        k: Kernel,
        spec: KernelSpec,
        arg: dict[str, ir.Value],
        channels: Index,
        points: int,
        *,
        first_count: int,
        factors: tuple[int, Callable[[Index], Index]] | None = None,
    ) -> None:
        self.k = k
        self.arg = arg
        self.channels = channels
        self.points = points
        self.factors, self.factor_of = factors or (points, lambda point: point)
        self.dtype, self.lanes, self.vectors = spec["dtype"], spec["lanes"], spec["vectors"]
        self.heights, self.unroll = spec["heights"], spec["unroll"]
        self.block_stride = k.mul(arg["group_tiles"], self.lanes)
        self.counts = [k.arg(first_count + number) for number in range(len(self.heights))]

    @contextmanager
    def of_groups(
        self, chunk: Index, out_vectors: Index, inputs: ir.Value, products: ir.Value
    ) -> Iterator[tuple[Index, Index]]:
        """A loop over the groups of output channels of `chunk`: in its body, `products` holds those of one with `inputs`.

        Gives the group's first of `out_vectors` vectors and how many it has. Pointer 2 are the weights [group, factor, channel,
        vectors * lanes], `inputs` is [point, block of channels, tile, lane], `products` [point, tile, vectors * lanes].
        """
        k, arg = self.k, self.arg
        panel = k.mul(self.channels, self.factors * self.vectors * self.lanes)
        first = k.mul(chunk, arg["groups_per_chunk"])
        with loop(k, first, k.min(k.add(first, arg["groups_per_chunk"]), arg["groups"]), name="group") as group:
            self._emit(inputs, k.at(k.pointer(2), k.mul(group.index, panel), self.dtype), products)
            first_vector = k.mul(group.index, self.vectors)
            yield first_vector, k.min(k.sub(out_vectors, first_vector), self.vectors)

    def _emit(self, inputs: ir.Value, weights: ir.Value, products: ir.Value) -> None:
        """products[point] = inputs[point] times the weights of the point, for counts[i] blocks of heights[i] tiles each."""
        k, width = self.k, self.vectors * self.lanes
        with loop(k, 0, self.points, name="point") as point:
            rows_of = k.at(inputs, k.mul(point.index, self.arg["input_point"]), self.dtype)
            factors = k.at(weights, k.mul(self.factor_of(point.index), k.mul(self.channels, width)), self.dtype)
            results = k.at(products, k.mul(point.index, self.arg["product_point"]), self.dtype)
            first: Index = 0
            for height, count in zip(self.heights, self.counts, strict=True):
                with loop(k, 0, count, name=f"tiles{height}") as turn:
                    tile = k.add(first, k.mul(turn.index, height))
                    rows = k.at(rows_of, k.mul(tile, self.lanes), self.dtype)
                    for number, value in enumerate(self._sums(rows, factors, height)):
                        r, v = divmod(number, self.vectors)
                        at = k.add(k.mul(tile, width), r * width + v * self.lanes)
                        store(k, value, results, at, self.dtype)
                first = k.add(first, k.mul(count, height))

    def _sums(self, rows: ir.Value, weights: ir.Value, height: int) -> list[ir.Value]:
        """The products of `height` neighbouring tiles, tile by tile."""
        k, lanes, width = self.k, self.lanes, self.vectors * self.lanes
        start = [constant(self.dtype, 0.0, lanes)] * (height * self.vectors)
        count = k.div(k.add(self.channels, lanes - 1), lanes)
        with loop(k, 0, count, carry=start, name="block") as block:
            first = k.mul(block.index, lanes)
            panel = k.at(weights, k.mul(first, width), self.dtype)
            base = k.at(rows, k.mul(block.index, self.block_stride), self.dtype)
            here = k.min(k.sub(self.channels, first), lanes)
            with loop(k, 0, here, self.unroll, carry=block.carry, name="channel") as channel:
                sums = list(channel.carry)
                for u in range(self.unroll):
                    at = k.at(panel, k.mul(k.add(channel.index, u), width), self.dtype)
                    factors = [load(k, at, v * lanes, self.dtype, lanes) for v in range(self.vectors)]
                    pixel = k.at(base, k.add(channel.index, u), self.dtype)
                    for r in range(height):
                        value = splat(k, load(k, pixel, r * lanes, self.dtype), lanes)
                        for v, factor in enumerate(factors):
                            number = r * self.vectors + v
                            sums[number] = multiply_add(k, value, factor, sums[number])
                channel.next(*sums)
            block.next(*channel.carry)
        return block.carry
