"""Pointwise convolution by Strassen's algorithm: a product of matrices, [pixels, channels] by [channels, outputs].

A tile is `side` neighbouring pixels; `side` neighbouring blocks of input channels, and of output channels, are a part.
Each tile and part of the input becomes one vector for each product (7 for side 2, 49 for side 4). These are products of
smaller matrices; sums of their results are the output. As in Winograd convolution, tiles are processed in groups: the
sums of a group's input stay in the cache while the weights of one group of outputs after another are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.vectors import constant
from treadle.codegen.kernels.conv.epilogue import Epilogue
from treadle.codegen.kernels.conv.tile_product import Product, ProductSizes
from treadle.codegen.kernels.strassen_sums import left_sums, results
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.strassen import PRODUCTS, StrassenConvArgs, StrassenConvSpec


def emit_conv_strassen(k: Kernel, spec: StrassenConvSpec) -> None:
    """out = epilogue(bias + 1x1 convolution of x)."""
    args = k.args(StrassenConvArgs[ir.Value], spec)
    dtype, lanes, side, vectors = spec.dtype, spec.lanes, spec.side, spec.vectors
    count = PRODUCTS[side]
    sizes = ProductSizes(
        group_tiles=args.group_tiles,
        input_point=args.input_point,
        product_point=args.product_point,
        groups=args.groups,
        groups_per_chunk=args.groups_per_chunk,
        counts=args.counts,
    )
    product = Product(k, spec, sizes, k.mul(args.parts, lanes), count)
    products = k.at(k.scratch, side * side * lanes, dtype)
    inputs = k.at(products, k.mul(args.product_point, count), dtype)

    group_chunk = k.div(k.chunk, args.units)
    unit = k.sub(k.chunk, k.mul(group_chunk, args.units))
    image = k.div(unit, args.tile_groups)
    first_tile = k.mul(k.sub(unit, k.mul(image, args.tile_groups)), args.group_tiles)
    _sum_inputs(k, spec, args, (image, first_tile), inputs)
    here = k.min(args.group_tiles, k.sub(k.div(k.add(args.pixels, side - 1), side), first_tile))
    out_blocks = k.div(k.add(args.outputs, lanes - 1), lanes)
    out_parts = k.div(k.add(out_blocks, side - 1), side)
    results_of = _Results(k, spec, args, out_blocks)
    with (
        product.of_groups(group_chunk, out_parts, inputs, products) as (first_part, parts),
        loop(k, 0, parts, name="part") as part,
        loop(k, 0, here, name="tile") as tile,
    ):
        at = k.add(k.mul(tile.index, vectors * lanes), k.mul(part.index, lanes))
        pixel = k.mul(k.add(first_tile, tile.index), side)
        block = k.mul(k.add(first_part, part.index), side)
        results_of.store(k.at(products, at, dtype), image, pixel, block)


@dataclass(frozen=True, slots=True)
class _Results:
    """Stores tiles of the output."""

    k: Kernel
    spec: StrassenConvSpec
    args: StrassenConvArgs[ir.Value]
    blocks: Index
    """Real blocks of output channels."""

    def store(self, products: ir.Value, image: Index, pixel: Index, block: Index) -> None:
        """Adds up the products that begin at `products`, and stores the tile at `pixel` of the part at `block`.

        A tile or part that reaches beyond the output is stored at the start of scratch first.
        """
        k, args = self.k, self.args
        dtype, lanes, side = self.spec.dtype, self.spec.lanes, self.spec.side
        epilogue = Epilogue(k, self.spec, args.outputs)
        address = products

        def next_product() -> ir.Value:
            nonlocal address
            value = load(k, address, 0, dtype, lanes)
            address = k.at(address, args.product_point, dtype)
            return value

        sums = results(k, next_product, side)
        channel = k.mul(block, lanes)
        if self.spec.bias:
            first = [load(k, k.pointer(BIAS_POINTER), k.add(channel, j * lanes), dtype, lanes) for j in range(side)]
        else:
            first = [constant(dtype, 0.0, lanes)] * side
        values = [k.b.fadd(value, start) for row in sums for value, start in zip(row, first, strict=True)]
        plane = k.add(k.mul(image, args.out_image), k.mul(block, args.out_block))
        out = k.add(plane, k.mul(pixel, lanes))
        rows, columns = k.sub(args.pixels, pixel), k.sub(self.blocks, block)
        whole = k.b.and_(k.less(side - 1, rows), k.less(side - 1, columns))
        with either(k, whole) as (then, otherwise):
            with then:
                epilogue.store_block(
                    values, image, channel, [k.add(out, k.mul(args.out_block, j)) for j in range(side)]
                )
            with otherwise:
                inside = k.min(rows, side), k.min(columns, side)
                with epilogue.partial(values, side, inside) as (row, column, value):
                    to = k.add(out, k.add(k.mul(row, lanes), k.mul(column, args.out_block)))
                    epilogue.store_block([value], image, k.add(channel, k.mul(column, lanes)), [to])


def _sum_inputs(
    k: Kernel, spec: StrassenConvSpec, args: StrassenConvArgs[ir.Value], origin: tuple[Index, Index], target: ir.Value
) -> None:
    """Writes the sums of the input of a group of tiles to `target`: [product, part, tile, lane].

    `origin` is the image and the group's first tile. Pixels beyond the last one repeat it.
    """
    dtype, lanes, side = spec.dtype, spec.lanes, spec.side
    image, first = origin
    with loop(k, 0, args.parts, name="part") as part, loop(k, 0, args.group_tiles, name="tile") as tile:
        block = k.mul(part.index, side)
        blocks = [k.mul(k.add(block, j), args.x_block) for j in range(side)]
        matrix = []
        for i in range(side):
            number = k.add(k.mul(k.add(first, tile.index), side), i)
            at = _input_of(k, spec, args, k.min(number, k.sub(args.pixels, 1)))
            pixel = k.at(k.pointer(1), k.add(k.mul(image, args.x_image), at), dtype)
            matrix.append([load(k, pixel, start, dtype, lanes) for start in blocks])
        to = k.at(target, k.mul(k.add(k.mul(part.index, args.group_tiles), tile.index), lanes), dtype)
        for value in left_sums(k, matrix):
            store(k, value, to, 0, dtype)
            to = k.at(to, args.input_point, dtype)


def _input_of(k: Kernel, spec: StrassenConvSpec, args: StrassenConvArgs[ir.Value], pixel: Index) -> Index:
    """Returns the offset in a plane of x of the pixel that output pixel `pixel` reads."""
    if spec.strides == (1, 1):
        return k.mul(pixel, spec.lanes)
    row = k.div(pixel, args.row_pixels)
    column = k.sub(pixel, k.mul(row, args.row_pixels))
    down, across = spec.strides
    return k.add(k.mul(row, k.mul(args.x_row, down)), k.mul(column, across * spec.lanes))
