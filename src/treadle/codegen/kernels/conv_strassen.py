"""Pointwise convolution by Strassen's algorithm: a product of matrices, [pixels, channels] by [channels, outputs].

A tile is `side` neighbouring pixels; `side` neighbouring blocks of input channels, and of output channels, are a part. Each
tile and part of the input becomes one vector for each of the products (7 for side 2, 49 for side 4), which are
products of smaller matrices; sums of their results are the output. As in Winograd convolution, tiles are taken in
groups, the sums of whose input stay in the cache while the weights of one group of outputs after another are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.vectors import constant
from treadle.codegen.kernels.conv_epilogue import Epilogue
from treadle.codegen.kernels.conv_strassen_sums import left_sums, results
from treadle.codegen.kernels.conv_tile_product import Product
from treadle.plan.kernel_spec import KernelSpec

ARGS = (
    "pixels",  # output pixels of an image
    "row_pixels",  # of them in a row
    "group_tiles",  # tiles of a group
    "tile_groups",  # of an image
    "units",  # tile groups of all images; chunk number = chunk of output groups * units + unit
    "parts",  # of input channels
    "input_point",  # elements between two products' inputs
    "product_point",  # and between their results
    "x_image",  # strides, in elements
    "x_block",
    "x_row",
    "out_image",
    "out_block",
    "outputs",  # real output channels
    "groups",  # of vectors x side x lanes output channels
    "groups_per_chunk",
)
"""The int64 arguments in order; then the number of blocks of each of `heights`."""


def emit_conv_strassen(k: Kernel, spec: KernelSpec) -> None:
    """out = epilogue(bias + 1x1 convolution of x), out and x being Blocked(lanes), x of whole parts of channels.

    Params: dtype, lanes, strides, side, vectors, heights (tiles of the kinds of register blocks), unroll (input channels a
    turn), bias, epilogue, kinds. Pointers: out, x, sums of the weights [group, product, channel, vectors * lanes], bias (if
    `bias`), then the epilogue's operands. Scratch: one tile, the products, the sums of the input.
    """
    arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
    dtype, lanes, side, vectors = spec["dtype"], spec["lanes"], spec["side"], spec["vectors"]
    count = 7 ** (side.bit_length() - 1)
    product = Product(k, spec, arg, k.mul(arg["parts"], lanes), count, first_count=len(ARGS))
    products = k.at(k.scratch, side * side * lanes, dtype)
    inputs = k.at(products, k.mul(arg["product_point"], count), dtype)

    group_chunk = k.div(k.chunk, arg["units"])
    unit = k.sub(k.chunk, k.mul(group_chunk, arg["units"]))
    image = k.div(unit, arg["tile_groups"])
    first_tile = k.mul(k.sub(unit, k.mul(image, arg["tile_groups"])), arg["group_tiles"])
    _sum_inputs(k, spec, arg, (image, first_tile), inputs)
    here = k.min(arg["group_tiles"], k.sub(k.div(k.add(arg["pixels"], side - 1), side), first_tile))
    out_blocks = k.div(k.add(arg["outputs"], lanes - 1), lanes)
    out_parts = k.div(k.add(out_blocks, side - 1), side)
    results_of = _Results(k, spec, arg, out_blocks)
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
    spec: KernelSpec
    arg: dict[str, ir.Value]
    blocks: Index
    """Real blocks of output channels."""

    def store(self, products: ir.Value, image: Index, pixel: Index, block: Index) -> None:
        """Add up the products that begin at `products` to the tile at `pixel` and the part at `block`, and store it.

        A tile or part that reaches beyond the output goes through the start of scratch.
        """
        k, arg = self.k, self.arg
        dtype, lanes, side = self.spec["dtype"], self.spec["lanes"], self.spec["side"]
        epilogue = Epilogue(k, self.spec, first_pointer=4 if self.spec["bias"] else 3, outputs=arg["outputs"])
        place = products

        def following() -> ir.Value:
            nonlocal place
            value = load(k, place, 0, dtype, lanes)
            place = k.at(place, arg["product_point"], dtype)
            return value

        sums = results(k, following, side)
        channel = k.mul(block, lanes)
        if self.spec["bias"]:
            first = [load(k, k.pointer(3), k.add(channel, j * lanes), dtype, lanes) for j in range(side)]
        else:
            first = [constant(dtype, 0.0, lanes)] * side
        values = [k.b.fadd(value, start) for row in sums for value, start in zip(row, first, strict=True)]
        plane = k.add(k.mul(image, arg["out_image"]), k.mul(block, arg["out_block"]))
        out = k.add(plane, k.mul(pixel, lanes))
        rows, columns = k.sub(arg["pixels"], pixel), k.sub(self.blocks, block)
        whole = k.b.and_(k.less(side - 1, rows), k.less(side - 1, columns))
        with either(k, whole) as (then, otherwise):
            with then:
                epilogue.store_block(
                    values, image, channel, [k.add(out, k.mul(arg["out_block"], j)) for j in range(side)]
                )
            with otherwise:
                inside = k.min(rows, side), k.min(columns, side)
                with epilogue.partial(values, side, inside) as (row, column, value):
                    to = k.add(out, k.add(k.mul(row, lanes), k.mul(column, arg["out_block"])))
                    epilogue.store_block([value], image, k.add(channel, k.mul(column, lanes)), [to])


def _sum_inputs(
    k: Kernel, spec: KernelSpec, arg: dict[str, ir.Value], place: tuple[Index, Index], target: ir.Value
) -> None:
    """Write the sums of the input of a group of tiles to `target`: [product, part, tile, lane].

    `place` is the image and its first tile. Pixels that are missing repeat the last one.
    """
    dtype, lanes, side = spec["dtype"], spec["lanes"], spec["side"]
    image, first = place
    with loop(k, 0, arg["parts"], name="part") as part, loop(k, 0, arg["group_tiles"], name="tile") as tile:
        block = k.mul(part.index, side)
        blocks = [k.mul(k.add(block, j), arg["x_block"]) for j in range(side)]
        matrix = []
        for i in range(side):
            number = k.add(k.mul(k.add(first, tile.index), side), i)
            at = _input_of(k, spec, arg, k.min(number, k.sub(arg["pixels"], 1)))
            pixel = k.at(k.pointer(1), k.add(k.mul(image, arg["x_image"]), at), dtype)
            matrix.append([load(k, pixel, start, dtype, lanes) for start in blocks])
        to = k.at(target, k.mul(k.add(k.mul(part.index, arg["group_tiles"]), tile.index), lanes), dtype)
        for value in left_sums(k, matrix):
            store(k, value, to, 0, dtype)
            to = k.at(to, arg["input_point"], dtype)


def _input_of(k: Kernel, spec: KernelSpec, arg: dict[str, ir.Value], pixel: Index) -> Index:
    """Where in a plane of x the input of output pixel `pixel` lies."""
    if spec["strides"] == (1, 1):
        return k.mul(pixel, spec["lanes"])
    row = k.div(pixel, arg["row_pixels"])
    column = k.sub(pixel, k.mul(row, arg["row_pixels"]))
    down, across = spec["strides"]
    return k.add(k.mul(row, k.mul(arg["x_row"], down)), k.mul(column, across * spec["lanes"]))
