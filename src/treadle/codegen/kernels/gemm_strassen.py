"""Matrix products by Strassen's algorithm in Winograd's form, whose right factor is constant.

Two panels of columns, a part of the depth and a tile of rows, each of these halved, are matrices of 2 x 2 blocks, whose
product takes 7 products of blocks instead of 8. Sums of the left factor are made by a call before. Of the right one, four
blocks are kept: b11, b21, t2 = b22 - b12 + b11, and b22. Each right factor is one of these or the difference of two, which
is made anew where it is read: additions have units of their own. See conv_strassen_sums.py for the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I8, I64
from treadle.codegen.emit.vectors import constant
from treadle.codegen.kernels.conv_strassen_sums import left_sums, results
from treadle.codegen.kernels.gemm_block import Ahead, Factors, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.target import LINE

SUM_ARGS = (
    "rows",
    "tile_rows",
    "half",
    "depth",
    "part",
    "sums_row",
    "a_row",  # elements between rows of a
    "parts",
    "units",  # rows of the halves of all tiles, in each part of the depth
    "units_per_chunk",
)
"""The int64 arguments of `strassen_left`; see ARGS."""

ARGS = (
    "rows",
    "tile_rows",
    "half",  # rows of the upper half of a tile; the lower one has as many, or one less
    "depth",
    "part",  # of the depth that is taken at once
    "sums_row",  # elements between rows of the sums of a
    "parts",
    "blocks",  # register blocks of a half
    "large_blocks",  # the first ones have rows[0] rows, the others rows[-1]
    "pairs",  # of panels
    "pairs_per_chunk",
    "pair_chunks",  # chunk = tile * pair chunks + pair chunk
    "result_step",  # elements between the results of two pairs; 0 where there is one part, so that each is done at once
    "c_row",  # elements between rows of out
)
"""The int64 arguments in order; then the row stride of each epilogue operand."""

_PRODUCTS = 7
_DIFFERENCES = 0b1011000
"""The products (bits) whose right factor is a difference: t3, t1, t4."""
_FIRST, _SECOND = 0x2332210, 0x1020000
"""For each product (hexadecimal digits, the first one last) the block that is its right factor, and what is taken from it."""


def emit_strassen_left(k: Kernel, spec: KernelSpec) -> None:
    """sums[tile, part, product, row, t] = the left factors of all products. Rows that are missing repeat the last one.

    Params: dtype. Pointers: sums, a.
    """
    dtype = spec["dtype"]
    lanes = k.target.lanes(dtype)
    arg = {name: k.arg(number) for number, name in enumerate(SUM_ARGS)}
    size = k.mul(arg["half"], arg["sums_row"])
    with loop(k, *k.chunk_range(arg["units"], arg["units_per_chunk"]), name="unit") as unit:
        group, row = k.div(unit.index, arg["half"]), k.rem(unit.index, arg["half"])
        tile, part = k.div(group, arg["parts"]), k.rem(group, arg["parts"])
        begin, first = k.mul(part, arg["part"]), k.mul(tile, arg["tile_rows"])
        depth = k.div(k.min(arg["part"], k.sub(arg["depth"], begin)), 2)
        last = k.sub(k.min(k.add(first, arg["tile_rows"]), arg["rows"]), 1)
        lines = []
        for number in (row, k.add(row, arg["half"])):
            at = k.add(k.mul(k.min(k.add(first, number), last), arg["a_row"]), begin)
            line = k.at(k.pointer(1), at, dtype)
            lines.append((line, k.at(line, depth, dtype)))
        start = k.add(k.mul(group, k.mul(size, _PRODUCTS)), k.mul(row, arg["sums_row"]))
        with loop(k, 0, depth, lanes, name="vector") as vector:
            matrix = [[load(k, place, vector.index, dtype, lanes) for place in line] for line in lines]
            for number, value in enumerate(left_sums(k, matrix)):
                at = k.add(k.add(start, k.mul(size, number)), vector.index)
                store(k, value, k.pointer(0), at, dtype)


def emit_gemm_strassen(k: Kernel, spec: KernelSpec) -> None:
    """out[r, c] = epilogue(sum over t of a[r, t] * b[t, c], operands).

    Params: dtype, rows (the one or two heights of register blocks), vectors, lines (of what is multiplied next that each turn
    of a register block asks for), epilogue, kinds (of its operands). Depth and its parts are multiples of 2 * lanes, columns of
    2 * vectors * lanes. Pointers: out, the sums of a, b [pair, part, block, depth, vectors * lanes], then the epilogue's operands.
    Scratch: the products of one register block, the results of pairs.
    """
    product = _Product(k, spec)
    arg = product.arg
    tile = k.div(k.chunk, arg["pair_chunks"])
    first = k.mul(k.sub(k.chunk, k.mul(tile, arg["pair_chunks"])), arg["pairs_per_chunk"])
    end = k.min(k.add(first, arg["pairs_per_chunk"]), arg["pairs"])
    with loop(k, 0, arg["parts"], name="part") as part, loop(k, first, end, name="pair") as pair:
        product.multiply(_Place(tile, part.index, pair.index, first, end))


@dataclass(frozen=True, slots=True)
class _Place:
    """A tile of rows, a part of the depth, a pair of panels, and the half-open range of pairs of the chunk."""

    tile: Index
    part: Index
    pair: Index
    first: Index
    end: Index


class _Product:
    """Emits one kernel."""

    def __init__(self, k: Kernel, spec: KernelSpec) -> None:
        self.k = k
        self.spec = spec
        self.arg: dict[str, Index] = {name: k.arg(number) for number, name in enumerate(ARGS)}
        self.dtype = spec["dtype"]
        self.blocks = RowBlocks(k, spec["rows"], self.arg["large_blocks"])
        self.epilogue = Epilogue(k, spec)
        self.lanes, self.width = self.epilogue.lanes, self.epilogue.width
        self.block_size = spec["rows"][0] * self.width
        self.quarter_size = k.mul(self.arg["half"], self.width)

    def multiply(self, here: _Place) -> None:
        """Add the products of a pair and a part of the depth to its result, and finish it after the last part."""
        k, arg, dtype = self.k, self.arg, self.dtype
        begin = k.mul(here.part, arg["part"])
        depth = k.div(k.min(arg["part"], k.sub(arg["depth"], begin)), 2)
        size = k.mul(arg["half"], arg["sums_row"])
        group = k.add(k.mul(here.tile, arg["parts"]), here.part)
        left = k.at(k.pointer(1), k.mul(group, k.mul(size, _PRODUCTS)), dtype)
        right, later = self._right(here.pair, begin), self._later(here, begin)
        results_at = k.at(k.scratch, _PRODUCTS * self.block_size, dtype)
        result = k.at(results_at, k.mul(k.sub(here.pair, here.first), arg["result_step"]), dtype)
        with loop(k, 0, arg["blocks"], name="block") as block:
            row = self.blocks.first_row(block.index)
            with loop(k, 0, _PRODUCTS, name="product") as product:
                number = product.index
                at = k.add(k.mul(number, size), k.mul(row, arg["sums_row"]))
                turn = k.add(k.mul(block.index, _PRODUCTS), number)
                target = k.at(k.scratch, k.mul(number, self.block_size), dtype)

                def block_of(height: int, is_difference: bool) -> None:
                    place, make = self._factor(right, number, depth, is_difference)
                    ahead = self._ahead(place, later, turn, depth)
                    factors = Factors(k.at(left, at, dtype), arg["sums_row"], 1, place, self.width, ahead, make)
                    vectors = self.spec["vectors"]
                    sums = RegisterBlock(k, dtype, height, vectors).product(factors, depth, whole_turns=True)
                    self.epilogue.spill(sums, vectors, target)

                with either(k, self._digit(_DIFFERENCES, number, 1)) as (difference, plain):
                    with difference:
                        self.blocks.emit(block.index, lambda height: block_of(height, True))
                    with plain:
                        self.blocks.emit(block.index, lambda height: block_of(height, False))
            place = k.at(result, k.mul(row, self.width), dtype)
            self.blocks.emit(block.index, lambda height: self._add_up(height, place, k.less(here.part, 1)))
            with when(k, k.less(k.sub(arg["parts"], 2), here.part)):
                self._finish(here, place, row, block.index)

    def _right(self, pair: Index, begin: Index) -> ir.Value:
        """Where the part of the depth from `begin` on of a pair of panels lies."""
        k = self.k
        return k.at(k.pointer(2), k.mul(k.add(k.mul(pair, self.arg["depth"]), begin), 2 * self.width), self.dtype)

    def _later(self, here: _Place, begin: Index) -> ir.Value:
        """What is multiplied later and asked for now: another pair, or the next part of the first one.

        After the last one it is a pair of the chunk behind the next one, which another worker may have begun.
        """
        k, arg = self.k, self.arg
        following = k.add(here.pair, 1)
        again = self._right(here.first, k.add(begin, arg["part"]))
        beyond = k.min(k.add(here.end, arg["pairs_per_chunk"]), k.sub(arg["pairs"], 1))
        has_part = k.less(k.add(here.part, 1), arg["parts"])
        after = k.b.select(has_part, again, self._right(beyond, 0))
        return k.b.select(k.less(following, here.end), self._right(following, begin), after)

    def _digit(self, numbers: int, place: Index, bits: int) -> ir.Value:
        """Digit `place` of `numbers`, of `bits` bits; one of a single bit is a condition."""
        k = self.k
        shifted = k.b.lshr(I64(numbers), as_i64(k.mul(place, bits)))
        return k.b.trunc(shifted, ir.IntType(1)) if bits == 1 else k.b.and_(shifted, I64((1 << bits) - 1))

    def _factor(
        self, right: ir.Value, product: Index, depth: Index, is_difference: bool
    ) -> tuple[ir.Value, Callable[[ir.Value], list[ir.Value]] | None]:
        """The place of the right factor of a product, and what makes its rows where it is a difference."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        size = k.mul(depth, self.width)
        place = k.at(right, k.mul(self._digit(_FIRST, product, 4), size), dtype)
        if not is_difference:
            return place, None
        away = self._away(place, k.at(right, k.mul(self._digit(_SECOND, product, 4), size), dtype))

        def row(at: ir.Value) -> list[ir.Value]:
            other = k.b.gep(at, [away], source_etype=I8)
            starts = range(0, self.width, lanes)
            return [k.b.fsub(load(k, at, v, dtype, lanes), load(k, other, v, dtype, lanes)) for v in starts]

        return place, row

    def _away(self, place: ir.Value, other: ir.Value) -> ir.Value:
        """The bytes from `place` to `other`."""
        return self.k.b.sub(self.k.b.ptrtoint(other, I64), self.k.b.ptrtoint(place, I64))

    def _ahead(self, place: ir.Value, later: ir.Value, number: Index, depth: Index) -> Ahead:
        """What product `number` of a pair, which reads from `place` on, asks for: a share of each turn's lines of a block."""
        k, lines = self.k, self.spec["lines"]
        turn = UNROLL * self.width * self.dtype.size // LINE
        share = k.mul(number, lines)
        block = k.at(later, k.mul(k.min(k.div(share, turn), 3), k.mul(depth, self.width)), self.dtype)
        return Ahead(lines, k.add(self._away(place, block), k.mul(k.rem(share, turn), LINE)))

    def _add_up(self, height: int, result: ir.Value, is_first: ir.Value) -> None:
        """Add the products of a register block to its rows of the result: [panel, half, row, width]."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        zero = constant(dtype, 0.0, lanes)
        with loop(k, 0, height * self.width, lanes, name="sum") as turn:
            place = k.at(k.scratch, turn.index, dtype)

            def following() -> ir.Value:
                nonlocal place
                value = load(k, place, 0, dtype, lanes)
                place = k.at(place, self.block_size, dtype)
                return value

            for down, line in enumerate(results(k, following, 2)):
                for across, value in enumerate(line):
                    at = k.add(k.mul(self.quarter_size, 2 * across + down), turn.index)
                    before = k.b.select(is_first, zero, load(k, result, at, dtype, lanes))
                    store(k, k.b.fadd(before, value), result, at, dtype)

    def _finish(self, here: _Place, result: ir.Value, row: Index, block: Index) -> None:
        """Store the rows of a register block of both halves of the tile, for both panels."""
        k, arg = self.k, self.arg
        operands = [
            Operand(k.pointer(3 + number), k.arg(len(ARGS) + number), kind)
            for number, kind in enumerate(self.spec["kinds"])
        ]
        height = self.blocks.height(block)
        start = k.mul(here.tile, arg["tile_rows"])
        end = k.min(k.add(start, arg["tile_rows"]), arg["rows"])
        with loop(k, 0, 4, name="quarter") as quarter:
            across, down = k.div(quarter.index, 2), k.rem(quarter.index, 2)
            first = k.add(k.add(start, row), k.mul(down, arg["half"]))
            column = k.mul(k.add(k.mul(here.pair, 2), across), self.width)
            target = k.at(k.pointer(0), k.add(k.mul(first, arg["c_row"]), column), self.epilogue.result)
            part = k.at(result, k.mul(quarter.index, self.quarter_size), self.dtype)
            rows = k.min(height, k.sub(end, first))
            self.epilogue.store_spilled(part, rows, self.width, target, arg["c_row"], operands, first, column, True)
