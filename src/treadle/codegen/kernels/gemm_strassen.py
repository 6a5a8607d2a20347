"""Matrix products by Strassen's algorithm in Winograd's form, whose right factor is constant.

Two panels of columns, a part of the depth and a tile of rows, each halved, make matrices of 2 x 2 blocks, whose product
takes 7 products of blocks instead of 8. An earlier call makes the sums of the left factor. Four blocks of the right one
are stored: b11, b21, t2 = b22 - b12 + b11, and b22. Each right factor is one of these or the difference of two, which
is computed again wherever it is read: additions have execution units of their own. See strassen_sums.py for the sums.
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
from treadle.codegen.kernels.gemm_block import Factors, Prefetch, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.codegen.kernels.strassen_sums import left_sums, results
from treadle.plan.kernels.gemm_strassen import (
    PRODUCTS,
    GemmStrassenArgs,
    GemmStrassenSpec,
    StrassenLeftArgs,
    StrassenLeftSpec,
)
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.target import LINE

_DIFFERENCES = 0b1011000
"""The products (bits) whose right factor is a difference: t3, t1, t4."""
_FIRST, _SECOND = 0x2332210, 0x1020000
"""For each product (a hexadecimal digit, the first product last) the block that is its right factor, and the block that
is subtracted from it."""


def emit_strassen_left(k: Kernel, spec: StrassenLeftSpec) -> None:
    """sums[tile, part, product, row, t] = the left factors of all products. Rows that are missing repeat the last
    one."""
    dtype = spec.dtype
    lanes = k.target.lanes(dtype)
    args = k.args(StrassenLeftArgs[ir.Value], spec)
    size = k.mul(args.half, args.sums_row)
    with loop(k, *k.chunk_range(args.units, args.units_per_chunk), name="unit") as unit:
        group, row = k.div(unit.index, args.half), k.rem(unit.index, args.half)
        tile, part = k.div(group, args.parts), k.rem(group, args.parts)
        begin, first = k.mul(part, args.part), k.mul(tile, args.tile_rows)
        depth = k.div(k.min(args.part, k.sub(args.depth, begin)), 2)
        last = k.sub(k.min(k.add(first, args.tile_rows), args.rows), 1)
        lines = []
        for number in (row, k.add(row, args.half)):
            at = k.add(k.mul(k.min(k.add(first, number), last), args.a_row), begin)
            line = k.at(k.pointer(1), at, dtype)
            lines.append((line, k.at(line, depth, dtype)))
        start = k.add(k.mul(group, k.mul(size, PRODUCTS)), k.mul(row, args.sums_row))
        with loop(k, 0, depth, lanes, name="vector") as vector:
            matrix = [[load(k, half, vector.index, dtype, lanes) for half in line] for line in lines]
            for number, value in enumerate(left_sums(k, matrix)):
                at = k.add(k.add(start, k.mul(size, number)), vector.index)
                store(k, value, k.pointer(0), at, dtype)


def emit_gemm_strassen(k: Kernel, spec: GemmStrassenSpec) -> None:
    """out[r, c] = epilogue(sum over t of a[r, t] * b[t, c], operands)."""
    product = _Product(k, spec)
    args = product.args
    tile = k.div(k.chunk, args.pair_chunks)
    first = k.mul(k.sub(k.chunk, k.mul(tile, args.pair_chunks)), args.pairs_per_chunk)
    end = k.min(k.add(first, args.pairs_per_chunk), args.pairs)
    with loop(k, 0, args.parts, name="part") as part, loop(k, first, end, name="pair") as pair:
        product.multiply(_Position(tile, part.index, pair.index, first, end))


@dataclass(frozen=True, slots=True)
class _Position:
    """A tile of rows, a part of the depth, a pair of panels, and the half-open range of pairs of the chunk."""

    tile: Index
    part: Index
    pair: Index
    first: Index
    end: Index


class _Product:
    """Emits one kernel."""

    def __init__(self, k: Kernel, spec: GemmStrassenSpec) -> None:
        self.k = k
        self.spec = spec
        self.args = k.args(GemmStrassenArgs[ir.Value], spec)
        self.dtype = spec.dtype
        self.blocks = RowBlocks(k, spec.rows, self.args.large_blocks, spec.rows[0])
        self.epilogue = Epilogue(k, spec)
        self.lanes, self.width = self.epilogue.lanes, self.epilogue.width
        self.block_size = spec.rows[0] * self.width
        self.quarter_size = k.mul(self.args.half, self.width)

    def multiply(self, here: _Position) -> None:
        """Add the products of a pair and a part of the depth to its result, and finish it after the last part."""
        k, args, dtype = self.k, self.args, self.dtype
        begin = k.mul(here.part, args.part)
        depth = k.div(k.min(args.part, k.sub(args.depth, begin)), 2)
        size = k.mul(args.half, args.sums_row)
        group = k.add(k.mul(here.tile, args.parts), here.part)
        left = k.at(k.pointer(1), k.mul(group, k.mul(size, PRODUCTS)), dtype)
        right, later = self._right(here.pair, begin), self._later(here, begin)
        results_at = k.at(k.scratch, PRODUCTS * self.block_size, dtype)
        result = k.at(results_at, k.mul(k.sub(here.pair, here.first), args.result_step), dtype)
        with loop(k, 0, args.blocks, name="block") as block:
            row = self.blocks.first_row(block.index)
            with loop(k, 0, PRODUCTS, name="product") as product:
                number = product.index
                at = k.add(k.mul(number, size), k.mul(row, args.sums_row))
                turn = k.add(k.mul(block.index, PRODUCTS), number)
                target = k.at(k.scratch, k.mul(number, self.block_size), dtype)

                def block_of(height: int, is_difference: bool) -> None:
                    right_at, make = self._factor(right, number, depth, is_difference)
                    prefetch = self._prefetch(right_at, later, turn, depth)
                    factors = Factors(k.at(left, at, dtype), args.sums_row, 1, right_at, self.width, prefetch, make)
                    vectors = self.spec.vectors
                    sums = RegisterBlock(k, dtype, height, vectors).product(factors, depth, whole_turns=True)
                    self.epilogue.spill(sums, vectors, target)

                with either(k, self._digit(_DIFFERENCES, number, 1)) as (difference, plain):
                    with difference:
                        self.blocks.emit(block.index, lambda height: block_of(height, True))
                    with plain:
                        self.blocks.emit(block.index, lambda height: block_of(height, False))
            rows = k.at(result, k.mul(row, self.width), dtype)
            self.blocks.emit(block.index, lambda height: self._add_up(height, rows, k.less(here.part, 1)))
            with when(k, k.less(k.sub(args.parts, 2), here.part)):
                self._finish(here, rows, row, block.index)

    def _right(self, pair: Index, begin: Index) -> ir.Value:
        """The address of a pair of panels, from step `begin` of the depth on."""
        k = self.k
        return k.at(k.pointer(2), k.mul(k.add(k.mul(pair, self.args.depth), begin), 2 * self.width), self.dtype)

    def _later(self, here: _Position, begin: Index) -> ir.Value:
        """The address of what is multiplied later and prefetched now: another pair, or the next part of the first one.

        After the last pair it is one of the chunk after the next: another worker may have begun the next chunk.
        """
        k, args = self.k, self.args
        following = k.add(here.pair, 1)
        again = self._right(here.first, k.add(begin, args.part))
        beyond = k.min(k.add(here.end, args.pairs_per_chunk), k.sub(args.pairs, 1))
        has_part = k.less(k.add(here.part, 1), args.parts)
        after = k.b.select(has_part, again, self._right(beyond, 0))
        return k.b.select(k.less(following, here.end), self._right(following, begin), after)

    def _digit(self, numbers: int, position: Index, bits: int) -> ir.Value:
        """The digit of `numbers` at `position`, of `bits` bits; one of a single bit is a condition."""
        k = self.k
        shifted = k.b.lshr(I64(numbers), as_i64(k.mul(position, bits)))
        return k.b.trunc(shifted, ir.IntType(1)) if bits == 1 else k.b.and_(shifted, I64((1 << bits) - 1))

    def _factor(
        self, right: ir.Value, product: Index, depth: Index, is_difference: bool
    ) -> tuple[ir.Value, Callable[[ir.Value], list[ir.Value]] | None]:
        """The address of the right factor of a product, and what makes its rows if it is a difference."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        size = k.mul(depth, self.width)
        first = k.at(right, k.mul(self._digit(_FIRST, product, 4), size), dtype)
        if not is_difference:
            return first, None
        distance = self._distance(first, k.at(right, k.mul(self._digit(_SECOND, product, 4), size), dtype))

        def row(at: ir.Value) -> list[ir.Value]:
            other = k.b.gep(at, [distance], source_etype=I8)
            starts = range(0, self.width, lanes)
            return [k.b.fsub(load(k, at, v, dtype, lanes), load(k, other, v, dtype, lanes)) for v in starts]

        return first, row

    def _distance(self, here: ir.Value, there: ir.Value) -> ir.Value:
        """The bytes from `here` to `there`."""
        return self.k.b.sub(self.k.b.ptrtoint(there, I64), self.k.b.ptrtoint(here, I64))

    def _prefetch(self, right: ir.Value, later: ir.Value, number: Index, depth: Index) -> Prefetch:
        """What product `number` of a pair, whose right factor is at `right`, prefetches: a share of a block at
        `later`."""
        k, lines = self.k, self.spec.prefetch_lines
        turn = UNROLL * self.width * self.dtype.size // LINE
        share = k.mul(number, lines)
        block = k.at(later, k.mul(k.min(k.div(share, turn), 3), k.mul(depth, self.width)), self.dtype)
        return Prefetch(lines, k.add(self._distance(right, block), k.mul(k.rem(share, turn), LINE)))

    def _add_up(self, height: int, result: ir.Value, is_first: ir.Value) -> None:
        """Add the products of a register block to its rows of the result: [panel, half, row, width]."""
        k, dtype, lanes = self.k, self.dtype, self.lanes
        zero = constant(dtype, 0.0, lanes)
        with loop(k, 0, height * self.width, lanes, name="sum") as turn:
            product = k.at(k.scratch, turn.index, dtype)

            def following() -> ir.Value:
                nonlocal product
                value = load(k, product, 0, dtype, lanes)
                product = k.at(product, self.block_size, dtype)
                return value

            for down, line in enumerate(results(k, following, 2)):
                for across, value in enumerate(line):
                    at = k.add(k.mul(self.quarter_size, 2 * across + down), turn.index)
                    before = k.b.select(is_first, zero, load(k, result, at, dtype, lanes))
                    store(k, k.b.fadd(before, value), result, at, dtype)

    def _finish(self, here: _Position, result: ir.Value, row: Index, block: Index) -> None:
        """Store the rows of a register block of both halves of the tile, for both panels."""
        k, args = self.k, self.args
        operands = [
            Operand(k.pointer(3 + number), args.epilogue_rows[number], kind)
            for number, kind in enumerate(self.spec.kinds)
        ]
        height = self.blocks.rows_of(block)
        start = k.mul(here.tile, args.tile_rows)
        end = k.min(k.add(start, args.tile_rows), args.rows)
        with loop(k, 0, 4, name="quarter") as quarter:
            across, down = k.div(quarter.index, 2), k.rem(quarter.index, 2)
            first = k.add(k.add(start, row), k.mul(down, args.half))
            column = k.mul(k.add(k.mul(here.pair, 2), across), self.width)
            target = k.at(k.pointer(0), k.add(k.mul(first, args.out_row), column), self.epilogue.result)
            part = k.at(result, k.mul(quarter.index, self.quarter_size), self.dtype)
            rows = k.min(height, k.sub(end, first))
            self.epilogue.store_spilled(part, rows, self.width, target, args.out_row, operands, first, column, True)
