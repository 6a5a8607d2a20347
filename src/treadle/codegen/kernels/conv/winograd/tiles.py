"""Tiles of Winograd convolution: read from a blocked input and transformed, transformed back and stored blocked."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import scalar
from treadle.codegen.emit.vectors import constant, zeros
from treadle.codegen.kernels.conv.epilogue import Epilogue
from treadle.codegen.kernels.conv.winograd.transforms import input_transform, input_transform_row, output_transform
from treadle.plan.kernels.conv.winograd import WinogradConvArgs, WinogradConvSpec, WinogradInputSpec, WinogradTileArgs
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class TilePosition:
    """The position of a tile: its image, and its first output row and column."""

    image: Index
    row: Index
    column: Index


class Tiles:
    """Transforms the tiles of one convolution."""

    def __init__(self, k: Kernel, spec: WinogradInputSpec | WinogradConvSpec, args: WinogradTileArgs[ir.Value]) -> None:
        self.k = k
        self.args = args
        self.dtype, self.lanes, self.source = spec.dtype, spec.lanes, spec.source
        self.points, self.strides = spec.tile.points, spec.tile.strides
        self.reach, self.side, self.spare = spec.tile.reach, spec.tile.side, spec.tile.spare

    def position(self, tile: Index) -> TilePosition:
        """Returns the position of tile number `tile`, counted over images, rows and columns of tiles."""
        k = self.k
        line = k.div(tile, self.args.across)
        column = k.sub(tile, k.mul(line, self.args.across))
        image = k.div(line, self.args.down)
        row = k.sub(line, k.mul(image, self.args.down))
        return TilePosition(image, k.mul(row, self.side[0]), k.mul(column, self.side[1]))

    def read(self, x: ir.Value, position: TilePosition, block: Index, target: ir.Value, stride: Index) -> None:
        """Transforms channel block `block` of the input of the tile at `position` into target[point].

        Points are `stride` apart. A tile that reaches beyond the input is copied to the start of scratch first, with
        zeros around it.
        """
        k, args, lanes = self.k, self.args, self.lanes
        down, across = self.reach
        top = k.sub(k.mul(position.row, self.strides[0]), args.pad_top)
        left = k.sub(k.mul(position.column, self.strides[1]), args.pad_left)
        corner = k.mul(k.add(k.mul(top, args.x_width), left), lanes)
        plane = k.add(k.mul(position.image, args.x_image), k.mul(block, args.x_block))
        here = k.b.gep(x, [as_i64(k.add(plane, corner))], source_etype=scalar(self.source))
        line = k.mul(args.x_width, lanes)
        rows = k.max(k.sub(0, top), 0), k.min(k.sub(args.x_height, top), down)
        columns = k.max(k.sub(0, left), 0), k.min(k.sub(args.x_width, left), across)
        missing = k.less(k.add(k.sub(rows[1], rows[0]), k.sub(columns[1], columns[0])), down + across)
        with when(k, missing):
            zero = zeros(self.source, lanes)
            for i in range(down * across):
                store(k, zero, k.scratch, i * lanes, self.source)
            with loop(k, *rows, name="row") as row, loop(k, *columns, name="column") as column:
                at = k.add(k.mul(row.index, line), k.mul(column.index, lanes))
                pixel = k.b.gep(here, [as_i64(at)], source_etype=scalar(self.source))
                to = k.mul(k.add(k.mul(row.index, across), column.index), lanes)
                store(k, load(k, pixel, 0, self.source, lanes), k.scratch, to, self.source)
        source = k.b.select(missing, k.scratch, here)
        step = k.b.select(missing, as_i64(across * lanes), as_i64(line))

        def pixels(i: int) -> list[ir.Value]:
            start = k.at(source, k.mul(step, i), self.source)
            loaded = [load(k, start, j * lanes, self.source, lanes) for j in range(across)]
            return [convert(k, value, self.source, self.dtype) for value in loaded]

        for first, halves in input_transform(k, pixels, self.points[0], self.strides[0], self.spare[0]):
            for i, half in enumerate(halves, start=first):
                values = input_transform_row(k, half, self.points[1], self.strides[1], self.spare[1])
                for j, value in enumerate(values):
                    store(k, value, target, k.mul(stride, i * across + j), self.dtype)

    def write(
        self,
        args: WinogradConvArgs[ir.Value],
        products: ir.Value,
        position: TilePosition,
        channel: Index,
        epilogue: Epilogue,
        bias: ir.Value | None,
    ) -> None:
        """Transforms the products, one vector a point, back and stores the output tile at `position`.

        `channel` is the output channel of lane 0. A tile that reaches beyond the output is stored in scratch first.
        """
        k, stride = self.k, args.product_point
        (height, width), (down, across) = self.side, self.reach
        halves = []
        for j in range(across):
            points = [load(k, products, k.mul(stride, i * across + j), self.dtype, self.lanes) for i in range(down)]
            halves.append(output_transform(k, points, self.points[0], height, self.strides[0]))
        plane = k.add(k.mul(position.image, args.out_image), k.mul(k.div(channel, self.lanes), args.out_block))
        out = k.add(plane, k.mul(k.add(k.mul(position.row, args.out_width), position.column), self.lanes))
        line = k.mul(args.out_width, self.lanes)
        first = (
            constant(self.dtype, 0.0, self.lanes) if bias is None else load(k, bias, channel, self.dtype, self.lanes)
        )
        rows, columns = k.sub(args.out_height, position.row), k.sub(args.out_width, position.column)
        whole = k.b.and_(k.less(height - 1, rows), k.less(width - 1, columns))

        def pixels(i: int) -> list[ir.Value]:
            values = output_transform(k, [half[i] for half in halves], self.points[1], width, self.strides[1])
            return values if bias is None else [k.b.fadd(value, first) for value in values]

        with either(k, whole) as (then, otherwise):
            with then:
                for i in range(height):
                    epilogue.store_block(pixels(i), position.image, channel, [k.add(out, k.mul(line, i))])
            with otherwise:
                vectors = (value for i in range(height) for value in pixels(i))
                inside = k.min(rows, height), k.min(columns, width)
                with epilogue.partial(vectors, width, inside) as (row, column, value):
                    to = k.add(out, k.add(k.mul(row, line), k.mul(column, self.lanes)))
                    epilogue.store_block([value], position.image, channel, [to])
