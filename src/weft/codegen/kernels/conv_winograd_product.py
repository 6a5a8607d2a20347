"""The batched product in the middle of Winograd convolution: one small matrix product for each point."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from weft.codegen.emit.kernel import Index, Kernel
from weft.codegen.emit.loops import loop
from weft.codegen.emit.memory import load, store
from weft.codegen.emit.vectors import constant, multiply_add, splat
from weft.plan.kernel_spec import KernelSpec


@dataclass(frozen=True, slots=True)
class Operands:
    """The three arrays of a product. Strides in elements.

    `inputs` [point, block of channels, tile, lane], points `input_point` and blocks `input_block` apart;
    `weights` [point, channel, vectors * lanes]; `products` [point, tile, vectors * lanes], points `product_point` apart.
    """

    inputs: ir.Value
    input_point: Index
    input_block: Index
    weights: ir.Value
    products: ir.Value
    product_point: Index


class Product:
    """Emits products of one kernel: register blocks of a few tiles times `vectors` vectors of output channels."""

    def __init__(self, k: Kernel, spec: KernelSpec, channels: Index, points: int) -> None:
        self.k = k
        self.channels = channels
        self.points = points
        self.dtype, self.lanes, self.vectors = spec["dtype"], spec["lanes"], spec["vectors"]
        self.heights, self.unroll = spec["heights"], spec["unroll"]

    def emit(self, operands: Operands, counts: list[ir.Value]) -> None:
        """products[point] = inputs[point] times weights[point], for counts[i] blocks of heights[i] tiles each."""
        k, width = self.k, self.vectors * self.lanes
        with loop(k, 0, self.points, name="point") as point:
            inputs = k.at(operands.inputs, k.mul(point.index, operands.input_point), self.dtype)
            weights = k.at(operands.weights, k.mul(point.index, k.mul(self.channels, width)), self.dtype)
            products = k.at(operands.products, k.mul(point.index, operands.product_point), self.dtype)
            first: Index = 0
            for height, count in zip(self.heights, counts, strict=True):
                with loop(k, 0, count, name=f"tiles{height}") as turn:
                    tile = k.add(first, k.mul(turn.index, height))
                    rows = k.at(inputs, k.mul(tile, self.lanes), self.dtype)
                    sums = self._sums(rows, operands.input_block, weights, height)
                    for number, value in enumerate(sums):
                        r, v = divmod(number, self.vectors)
                        at = k.add(k.mul(tile, width), r * width + v * self.lanes)
                        store(k, value, products, at, self.dtype)
                first = k.add(first, k.mul(count, height))

    def _sums(self, rows: ir.Value, block_stride: Index, weights: ir.Value, height: int) -> list[ir.Value]:
        """The products of `height` neighbouring tiles, tile by tile."""
        k, lanes, width = self.k, self.lanes, self.vectors * self.lanes
        start = [constant(self.dtype, 0.0, lanes)] * (height * self.vectors)
        count = k.div(k.add(self.channels, lanes - 1), lanes)
        with loop(k, 0, count, carry=start, name="block") as block:
            first = k.mul(block.index, lanes)
            panel = k.at(weights, k.mul(first, width), self.dtype)
            base = k.at(rows, k.mul(block.index, block_stride), self.dtype)
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
