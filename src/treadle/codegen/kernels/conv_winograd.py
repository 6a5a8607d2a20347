"""Convolution by Winograd's algorithm: tiles of input are transformed, multiplied point by point, and transformed back.

An m x m tile of output of a 3x3 kernel takes (m + 2)^2 multiplications a pair of channels instead of 9 m^2, with
stride 2 (2 m + 1)^2. Tiles are taken in groups: the transformed input of a group stays in the cache while the weights
of one group of output channels after another are multiplied with it. The input is transformed by the kernel itself
into its scratch, or, where groups of output channels are shared out among chunks, by a kernel of its own into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.kernels.conv_epilogue import Epilogue
from treadle.codegen.kernels.conv_tile_product import Product
from treadle.codegen.kernels.conv_winograd_sections import Sections
from treadle.codegen.kernels.conv_winograd_tiles import Tiles
from treadle.plan.kernel_spec import KernelSpec

SHAPE_ARGS = (
    "tiles",  # of all images
    "tiles_down",  # of one image
    "tiles_across",
    "group_tiles",  # tiles of a group
    "channels",  # input channels
    "input_point",  # elements between two points of a group's transformed input
    "x_image",  # strides, in elements
    "x_block",
    "x_height",
    "x_width",
    "pad_top",
    "pad_left",
)
"""The first int64 arguments of both kernels."""

INPUT_ARGS = (*SHAPE_ARGS, "block_chunks", "blocks_per_chunk")
"""Arguments of the input's kernel: chunk number = tile group * block_chunks + chunk of channel blocks."""

PRODUCT_ARGS = (
    *SHAPE_ARGS,
    "tile_groups",  # chunk number = chunk of output groups * tile_groups + tile group
    "groups",  # of vectors x lanes output channels
    "groups_per_chunk",
    "out_image",
    "out_block",
    "out_height",
    "out_width",
    "outputs",  # real output channels
    "product_point",  # elements between two points of the products
)
"""Arguments of the product's kernel; then the number of blocks of each of `heights`."""


def emit_winograd_input(k: Kernel, spec: KernelSpec) -> None:
    """Transformed tiles of a blocked input: [tile group, point, channel block, tile of the group, lane].

    Params: dtype, source (the dtype of x), lanes, strides, points (down and across), reach and side (pixels of the input
    and of the output along both sides of a tile; there are as many points as reach). Pointers: out, x. See INPUT_ARGS.
    Scratch: one tile.
    """
    arg = {name: k.arg(number) for number, name in enumerate(INPUT_ARGS)}
    group = k.div(k.chunk, arg["block_chunks"])
    part = k.sub(k.chunk, k.mul(group, arg["block_chunks"]))
    first = k.mul(part, arg["blocks_per_chunk"])
    last = k.min(k.add(first, arg["blocks_per_chunk"]), _blocks(k, spec, arg["channels"]))
    target = k.at(k.pointer(0), k.mul(group, k.mul(arg["input_point"], prod(spec["reach"]))), spec["dtype"])
    _transform_group(k, spec, arg, group, (first, last), target)


def emit_conv_winograd(k: Kernel, spec: KernelSpec) -> None:
    """out = epilogue(bias + convolution of x), out and x being Blocked(lanes).

    Params: dtype, source, lanes, vectors, strides, points, reach, side, factors (points down and across at which the kernel has
    values of its own: further ones have those of the last), heights (tiles of the kinds of register blocks), unroll (input
    channels a turn), fused (whether x is read itself, or else what emit_winograd_input made of it), bias, epilogue, kinds.
    section (input channels whose weights are transformed at a time, or 0: all are transformed before); for sections: asked (see
    Sections), matrices (those that transform kernels, down and across), factor_stride (elements between two points' weights).
    Pointers: out, x, weights, bias (if `bias`), then the epilogue's operands. Weights are [group, factor, channel, vectors * lanes]
    if transformed before, else [group, channel, tap, vectors * lanes]. See PRODUCT_ARGS. Scratch: one tile, the products,
    then the input if `fused`, or the weights of a section.
    """
    arg = {name: k.arg(number) for number, name in enumerate(PRODUCT_ARGS)}
    dtype, lanes, vectors = spec["dtype"], spec["lanes"], spec["vectors"]
    tiles = Tiles(k, spec, arg)
    product = Product(
        k, spec, arg, arg["channels"], prod(spec["reach"]), first_count=len(PRODUCT_ARGS), factors=_factors(k, spec)
    )
    epilogue = Epilogue(k, spec, first_pointer=4 if spec["bias"] else 3, outputs=arg["outputs"])
    products = k.at(k.scratch, product.points * lanes, dtype)

    group_chunk = k.div(k.chunk, arg["tile_groups"])
    tile_group = k.sub(k.chunk, k.mul(group_chunk, arg["tile_groups"]))
    if spec["fused"]:
        inputs = k.at(products, k.mul(arg["product_point"], product.points), dtype)
        _transform_group(k, spec, arg, tile_group, (0, _blocks(k, spec, arg["channels"])), inputs)
    else:
        inputs = k.at(k.pointer(1), k.mul(tile_group, k.mul(arg["input_point"], product.points)), dtype)
    sections = None
    if spec["section"]:
        assert not spec["fused"], "the weights of a section lie where a fused kernel has its input"
        panel = k.at(products, k.mul(arg["product_point"], product.points), dtype)
        sections = Sections(k, spec, arg["channels"], inputs, product.block_stride, panel).of_group
    first_tile = k.mul(tile_group, arg["group_tiles"])
    count = k.min(arg["group_tiles"], k.sub(arg["tiles"], first_tile))
    out_blocks = _blocks(k, spec, arg["outputs"])
    with (
        product.of_groups(group_chunk, out_blocks, inputs, products, sections) as (first_block, here),
        loop(k, 0, count, name="tile") as tile,
    ):
        place = tiles.place(k.add(first_tile, tile.index))
        with loop(k, 0, here, name="vector") as vector:
            channel = k.mul(k.add(first_block, vector.index), lanes)
            at = k.add(k.mul(tile.index, vectors * lanes), k.mul(vector.index, lanes))
            bias = k.pointer(3) if spec["bias"] else None
            tiles.write(k.at(products, at, dtype), arg["product_point"], place, channel, epilogue, bias)


def _transform_group(
    k: Kernel, spec: KernelSpec, arg: dict[str, ir.Value], group: Index, blocks: tuple[Index, Index], target: ir.Value
) -> None:
    """Transform channel blocks `blocks` of the tiles of `group` into `target`; missing last tiles repeat the last one."""
    dtype, lanes = spec["dtype"], spec["lanes"]
    tiles = Tiles(k, spec, arg)
    first = k.mul(group, arg["group_tiles"])
    with loop(k, *blocks, name="block") as block, loop(k, 0, arg["group_tiles"], name="tile") as tile:
        place = tiles.place(k.min(k.add(first, tile.index), k.sub(arg["tiles"], 1)))
        at = k.mul(k.add(k.mul(block.index, arg["group_tiles"]), tile.index), lanes)
        tiles.read(k.pointer(1), place, block.index, k.at(target, at, dtype), arg["input_point"])


def _factors(k: Kernel, spec: KernelSpec) -> tuple[int, Callable[[Index], Index]] | None:
    """How many matrices of transformed weights there are, and which one belongs to a point; None if each has its own."""
    (_, across), (rows, columns) = spec["reach"], spec["factors"]
    if spec["factors"] == spec["reach"]:
        return None

    def of(point: Index) -> Index:
        row = k.div(point, across)
        column = k.sub(point, k.mul(row, across))
        return k.add(k.mul(k.min(row, rows - 1), columns), k.min(column, columns - 1))

    return rows * columns, of


def _blocks(k: Kernel, spec: KernelSpec, channels: Index) -> Index:
    return k.div(k.add(channels, spec["lanes"] - 1), spec["lanes"])
