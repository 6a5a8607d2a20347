"""Convolution by Winograd's algorithm: tiles of input are transformed, multiplied point by point, and transformed back.

An m x m tile of output of a 3x3 kernel takes (m + 2)^2 multiplications for an input and an output channel instead of
9 m^2, with stride 2 (2 m + 1)^2. Tiles are processed in groups: the transformed input of a group stays in the cache
while the weights of one group of output channels after another are multiplied with it. The kernel transforms the input
into its scratch, or, if several chunks read the same tiles, a separate kernel transforms it into memory.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.kernels.conv.epilogue import Epilogue
from treadle.codegen.kernels.conv.tile_product import Product, ProductSizes
from treadle.codegen.kernels.conv.winograd.sections import Sections
from treadle.codegen.kernels.conv.winograd.tiles import Tiles
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.winograd import (
    WinogradConvArgs,
    WinogradConvSpec,
    WinogradInputArgs,
    WinogradInputSpec,
    WinogradTileArgs,
)


def emit_winograd_input(k: Kernel, spec: WinogradInputSpec) -> None:
    """out = the transformed tiles of x. Tiles beyond the last one repeat it."""
    args = k.args(WinogradInputArgs[ir.Value], spec)
    tiles = args.tiles
    group = k.div(k.chunk, args.block_chunks)
    part = k.sub(k.chunk, k.mul(group, args.block_chunks))
    first = k.mul(part, args.blocks_per_chunk)
    last = k.min(k.add(first, args.blocks_per_chunk), _blocks(k, spec.lanes, tiles.channels))
    target = k.at(k.pointer(0), k.mul(group, k.mul(tiles.input_point, spec.tile.point_count)), spec.dtype)
    _transform_group(k, spec, tiles, group, (first, last), target)


def emit_conv_winograd(k: Kernel, spec: WinogradConvSpec) -> None:
    """out = epilogue(bias + convolution of x)."""
    args = k.args(WinogradConvArgs[ir.Value], spec)
    tile_args = args.tiles
    dtype, lanes, vectors = spec.dtype, spec.lanes, spec.vectors
    tiles = Tiles(k, spec, tile_args)
    sizes = ProductSizes(
        group_tiles=tile_args.group_tiles,
        input_point=tile_args.input_point,
        product_point=args.product_point,
        groups=args.groups,
        groups_per_chunk=args.groups_per_chunk,
        counts=args.counts,
    )
    points = spec.tile.point_count
    product = Product(k, spec, sizes, tile_args.channels, points, factors=_factors(k, spec), ahead=spec.ahead)
    epilogue = Epilogue(k, spec, args.outputs)
    products = k.at(k.scratch, product.points * lanes, dtype)

    group_chunk = k.div(k.chunk, args.tile_groups)
    tile_group = k.sub(k.chunk, k.mul(group_chunk, args.tile_groups))
    if spec.fused:
        inputs = k.at(products, k.mul(args.product_point, product.points), dtype)
        _transform_group(k, spec, tile_args, tile_group, (0, _blocks(k, lanes, tile_args.channels)), inputs)
    else:
        inputs = k.at(k.pointer(1), k.mul(tile_group, k.mul(tile_args.input_point, product.points)), dtype)
    sections = None
    if spec.section is not None:
        assert not spec.fused, "the weights of a section lie where a fused kernel has its input"
        panel = k.at(products, k.mul(args.product_point, product.points), dtype)
        sections = Sections(k, spec, spec.section, tile_args.channels, inputs, product.block_stride, panel).of_group
    first_tile = k.mul(tile_group, tile_args.group_tiles)
    count = k.min(tile_args.group_tiles, k.sub(tile_args.count, first_tile))
    out_blocks = _blocks(k, lanes, args.outputs)
    with (
        product.of_groups(group_chunk, out_blocks, inputs, products, sections) as (first_block, here),
        loop(k, 0, count, name="tile") as tile,
    ):
        position = tiles.position(k.add(first_tile, tile.index))
        with loop(k, 0, here, name="vector") as vector:
            channel = k.mul(k.add(first_block, vector.index), lanes)
            at = k.add(k.mul(tile.index, vectors * lanes), k.mul(vector.index, lanes))
            bias = k.pointer(BIAS_POINTER) if spec.bias else None
            tiles.write(args, k.at(products, at, dtype), position, channel, epilogue, bias)


def _transform_group(
    k: Kernel,
    spec: WinogradInputSpec | WinogradConvSpec,
    args: WinogradTileArgs[ir.Value],
    group: Index,
    blocks: tuple[Index, Index],
    target: ir.Value,
) -> None:
    """Transforms channel blocks `blocks` of the tiles of `group` into `target`; tiles beyond the last one repeat it."""
    dtype, lanes = spec.dtype, spec.lanes
    tiles = Tiles(k, spec, args)
    first = k.mul(group, args.group_tiles)
    with loop(k, *blocks, name="block") as block, loop(k, 0, args.group_tiles, name="tile") as tile:
        position = tiles.position(k.min(k.add(first, tile.index), k.sub(args.count, 1)))
        at = k.mul(k.add(k.mul(block.index, args.group_tiles), tile.index), lanes)
        tiles.read(k.pointer(1), position, block.index, k.at(target, at, dtype), args.input_point)


def _factors(k: Kernel, spec: WinogradConvSpec) -> tuple[int, Callable[[Index], Index]] | None:
    """Returns the number of matrices of transformed weights, and that of each point; None if each has its own."""
    (down, across), (rows, columns) = spec.tile.reach, spec.factors
    if spec.factors == spec.tile.reach:
        return None

    def along(axis: Index, points: int, factors: int) -> Index:
        spare = factors - points  # they come after the point 0
        return k.add(axis, k.mul(k.min(axis, 1), spare)) if spare > 0 else k.min(axis, factors - 1)

    def of(point: Index) -> Index:
        row = k.div(point, across)
        column = k.sub(point, k.mul(row, across))
        return k.add(k.mul(along(row, down, rows), columns), along(column, across, columns))

    return rows * columns, of


def _blocks(k: Kernel, lanes: int, channels: Index) -> Index:
    """Returns the blocks that `channels` fill, the last one partly."""
    return k.div(k.add(channels, lanes - 1), lanes)
