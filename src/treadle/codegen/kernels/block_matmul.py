"""block_matmul: matrix products with packed numbers of 2, 4 or 8 bits, which are unpacked in registers.

Sums of a block are multiplied with its scale once. Zero points are not subtracted from each weight: a block's sum less
its zero point times the sum of the left factor is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.ranges import segments
from treadle.codegen.emit.types import I8, I16, I32, vector, vector_of
from treadle.codegen.emit.vectors import constant, like, multiply_add, splat, take
from treadle.codegen.kernels.gemm_block import Factors, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_parts import Part, finish_or_wait, parts_of, sums_before
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.dtypes import f32, i8, i16, i32, u8
from treadle.plan.kernels.block_matmul import (
    LEFT_DTYPES,
    UNPACKED_BLOCKS,
    BlockMatmulArgs,
    BlockMatmulSpec,
    bit_of,
    left_factor,
    word_numbers,
)

_GROUP = 4
"""Consecutive numbers that a byte product multiplies in one lane."""

_SUMMED_BYTES = 8
"""Products of bytes with numbers of up to 4 bits that 16 bits hold the sum of: 8 * 2 * 15 * 127 < 2 ** 15."""

_MADD_BYTES = {64: "avx512.pmaddubs.w.512", 32: "avx2.pmadd.ub.sw"}
"""Bytes of a vector -> the instruction that multiplies unsigned with signed bytes and adds neighbouring products."""

_MADD_WORDS = {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"}
"""The same for 16-bit numbers."""


def emit_block_matmul(k: Kernel, spec: BlockMatmulSpec) -> None:
    """out[r, c] = epilogue(sum over t of a[r, t] (weights[c, t] - zeros[c, block of t]) scales[c, block of t])."""
    args = k.args(BlockMatmulArgs[ir.Value], spec)
    product = _BlockProduct(k, spec, args)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    blocks = RowBlocks(k, spec.rows, args.large_blocks, args.height)
    with segments(k, begin, end, args.blocks, "panel") as (panel, first, last):
        if spec.unpacks == "never":
            product.packed(panel, (first, last), blocks)
        elif spec.unpacks == "always":
            product.unpacked(panel, (first, last), blocks)
        else:
            with either(k, k.less(UNPACKED_BLOCKS - 1, args.blocks)) as (unpacked, packed):
                with unpacked:
                    product.unpacked(panel, (first, last), blocks)
                with packed:
                    product.packed(panel, (first, last), blocks)


class _BlockProduct:
    """The code of one kernel: register blocks of some rows times a panel."""

    def __init__(self, k: Kernel, spec: BlockMatmulSpec, args: BlockMatmulArgs[ir.Value]) -> None:
        self.k, self.spec, self.args = k, spec, args
        self.epilogue = Epilogue(k, spec)
        self.lanes = k.target.lanes(f32)
        self.vectors = spec.vectors
        self.words = spec.block // word_numbers(spec.bits)
        """Words of a block."""

        self.groups = word_numbers(spec.bits) // _GROUP
        """Groups of numbers in a word."""

        self.depth = k.mul(args.depth_blocks, spec.block)
        """Numbers of a row of the left factor, which is filled up to whole blocks."""

    def _panel(self, panel: Index) -> tuple[ir.Value, ir.Value, ir.Value | None]:
        """The weights, scales and zeros of a panel."""
        k, spec = self.k, self.spec
        past = k.mul(k.mul(panel, self.args.depth_blocks), self.epilogue.width)
        first = spec.weights_pointer
        weights = k.at(k.pointer(first), k.mul(past, self.words), i32)
        zeros = k.at(k.pointer(first + 2), past, u8 if spec.zeros == "u8" else f32) if spec.zeros else None
        return weights, k.at(k.pointer(first + 1), past, f32), zeros

    def packed(self, panel: Index, here: tuple[Index, Index], blocks: RowBlocks) -> None:
        """The blocks `here` of rows times a panel that each of them unpacks in registers."""
        with loop(self.k, *here, name="block") as block:
            row = blocks.first_row(block.index)

            def emit(height: int) -> None:
                self._finish(self._packed_product(panel, row, height), panel, row, height)

            blocks.emit(block.index, emit)

    def unpacked(self, panel: Index, here: tuple[Index, Index], blocks: RowBlocks) -> None:
        """The same with a panel that is unpacked to scratch: parts of the depth, by turns."""
        k, args, spec, width = self.k, self.args, self.spec, self.epilogue.width
        tile = spec.rows[0] * width
        right = k.at(k.scratch, tile, f32)
        waiting = k.at(right, k.mul(args.part_blocks, spec.block * width), f32)
        row_length = args.depth if spec.left_in_place else self.depth
        with parts_of(k, args.depth_blocks, args.part_blocks) as part:
            self._unpack(panel, part, right)
            begin = k.mul(part.begin, spec.block)
            length = k.min(k.mul(part.length, spec.block), k.sub(row_length, begin))
            with loop(k, *here, name="block") as block:
                row = blocks.first_row(block.index)
                left = k.at(k.pointer(1), k.add(k.mul(row, row_length), begin), f32)
                factors = Factors(left, row_length, 1, right, width)
                ours = k.at(waiting, k.mul(k.sub(block.index, here[0]), tile), f32)

                def emit(height: int, factors: Factors = factors, row: Index = row, ours: ir.Value = ours) -> None:
                    product = RegisterBlock(k, f32, height, self.vectors)
                    sums = product.product(
                        factors, length, spec.whole_turns, sums_before(k, self.epilogue, product, part, ours)
                    )

                    def finish(totals: list[ir.Value]) -> None:
                        self._finish(totals, panel, row, height)

                    finish_or_wait(k, self.epilogue, sums, self.vectors, part, ours, finish)

                blocks.emit(block.index, emit)

    def _unpack(self, panel: Index, part: Part, target: ir.Value) -> None:
        """Stores the real weights of a part of a panel, times the powers of two that the left factor undoes."""
        k, spec, width = self.k, self.spec, self.epilogue.width
        weights, scales, zeros = self._panel(panel)
        each = word_numbers(spec.bits)
        with loop(k, 0, part.length, name="unpacked") as turn:
            block = k.add(part.begin, turn.index)
            begin = k.mul(block, width)
            places = [k.add(begin, v * self.lanes) for v in range(self.vectors)]
            steps = [load(k, scales, at, f32, self.lanes) for at in places]
            offsets = [k.b.fneg(k.b.fmul(step, self._zero(zeros, at))) for step, at in zip(steps, places, strict=True)]
            with loop(k, 0, self.words, name="word") as word:
                words = self._words(weights, k.add(k.mul(block, self.words), word.index))
                row = k.at(target, k.mul(k.add(k.mul(turn.index, self.words), word.index), each * width), f32)
                for number in range(each):
                    power = left_factor(number, spec.bits)
                    for v, value in enumerate(words):
                        step, offset = steps[v], offsets[v]
                        if spec.left_in_place:
                            step = k.b.fmul(step, like(step, power))
                        else:
                            offset = k.b.fmul(offset, like(offset, 1 / power))
                        real = multiply_add(k, self._real(value, number), step, offset)
                        store(k, real, row, number * width + v * self.lanes, f32)

    def _packed_product(self, panel: Index, row: Index, height: int) -> list[ir.Value]:
        k, args, spec, epilogue = self.k, self.args, self.spec, self.epilogue
        weights, scales, zeros = self._panel(panel)
        lefts = [k.at(k.pointer(1), k.mul(k.add(row, r), self.depth), LEFT_DTYPES[spec.left]) for r in range(height)]
        sides = [k.at(k.pointer(2), k.mul(k.mul(k.add(row, r), args.depth_blocks), 2), f32) for r in range(height)]
        nothing = constant(f32, 0.0, self.lanes)
        with loop(k, 0, args.depth_blocks, carry=[nothing] * (height * self.vectors), name="depth") as block:
            begin = k.mul(block.index, epilogue.width)
            here = k.at(weights, k.mul(begin, self.words), i32)
            ours = [k.at(left, k.mul(block.index, spec.block), LEFT_DTYPES[spec.left]) for left in lefts]
            sums = self._sums(here, ours)
            totals = list(block.carry)
            for v in range(self.vectors):
                at = k.add(begin, v * self.lanes)
                scale = load(k, scales, at, f32, self.lanes)
                zero = self._zero(zeros, at)
                for r in range(height):
                    side = splat(k, load(k, sides[r], k.add(args.depth_blocks, block.index), f32), self.lanes)
                    number = r * self.vectors + v
                    value = multiply_add(k, k.b.fneg(side), zero, sums[number])
                    factor = scale
                    if spec.left != "real":
                        factor = k.b.fmul(scale, splat(k, load(k, sides[r], block.index, f32), self.lanes))
                    totals[number] = multiply_add(k, value, factor, totals[number])
            block.next(*totals)
        return block.carry

    def _finish(self, totals: Sequence[ir.Value], panel: Index, row: Index, height: int) -> None:
        """Applies the epilogue to the totals of a register block, and stores them."""
        k, args, spec, epilogue = self.k, self.args, self.spec, self.epilogue
        epilogue.spill(totals, self.vectors, k.scratch)
        column = k.mul(panel, epilogue.width)
        first = spec.weights_pointer + 2 + bool(spec.zeros)
        operands = [
            Operand(k.pointer(first + i), step, kind)
            for i, (step, kind) in enumerate(zip(args.epilogue_rows, spec.kinds, strict=True))
        ]
        c = k.at(k.pointer(0), k.add(k.mul(row, args.columns), column), epilogue.result)
        columns = k.min(k.sub(args.columns, column), epilogue.width)
        epilogue.store_spilled(k.scratch, height, columns, c, args.columns, operands, row, column, may_be_whole=True)

    def _zero(self, zeros: ir.Value | None, at: Index) -> ir.Value:
        k = self.k
        if zeros is None:
            return constant(f32, 1 << (self.spec.bits - 1), self.lanes)
        if self.spec.zeros == "f32":
            return load(k, zeros, at, f32, self.lanes)
        return k.b.uitofp(load(k, zeros, at, u8, self.lanes), vector(f32, self.lanes))

    def _sums(self, weights: ir.Value, lefts: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums f32 of one block: rows of `lefts` times the words of `weights`."""
        if self.spec.left == "real":
            return self._real_sums(weights, lefts)
        return [self.k.b.sitofp(each, vector(f32, self.lanes)) for each in self._integer_sums(weights, lefts)]

    def _parts(self, height: int) -> int:
        """Sums that each sum of a register block is the sum of."""
        return max(1, self.spec.sums // (height * self.vectors))

    def _real_sums(self, weights: ir.Value, lefts: Sequence[ir.Value]) -> list[ir.Value]:
        k, bits, lanes = self.k, self.spec.bits, self.lanes
        each, count = word_numbers(bits), len(lefts) * self.vectors
        parts = self._parts(len(lefts))
        start = [constant(f32, 0.0, lanes)] * (count * parts)
        with loop(k, 0, self.words, carry=start, name="word") as word:
            sums = list(word.carry)
            words = self._words(weights, word.index)
            for number in range(each):
                reals = [self._real(value, number) for value in words]
                part = number % parts * count
                for r, left in enumerate(lefts):
                    factor = splat(k, load(k, left, k.add(k.mul(word.index, each), number), f32), lanes)
                    for v, real in enumerate(reals):
                        at = part + r * self.vectors + v
                        sums[at] = multiply_add(k, factor, real, sums[at])
            word.next(*sums)
        return _added(word.carry, count, k.b.fadd)

    def _words(self, weights: ir.Value, word: Index) -> list[ir.Value]:
        """One word of each column."""
        at = self.k.mul(word, self.epilogue.width)
        return [load(self.k, weights, self.k.add(at, v * self.lanes), i32, self.lanes) for v in range(self.vectors)]

    def _real(self, words: ir.Value, number: int) -> ir.Value:
        """Number `number` of each word as f32, times the power of two that `left_factor` undoes."""
        k, bits = self.k, self.spec.bits
        bit = bit_of(number, bits)
        kept = (
            k.b.lshr(words, like(words, bit))
            if bit + bits == 32
            else k.b.and_(words, like(words, ((1 << bits) - 1) << bit))
        )
        return k.b.sitofp(kept, vector(f32, self.lanes))

    def _integer_sums(self, weights: ir.Value, lefts: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums i32 of one block."""
        k, spec = self.k, self.spec
        narrow = spec.left == "bytes" and not k.target.has_vnni
        turn = gcd(self.words, max(1, _SUMMED_BYTES // self.groups)) if narrow else 1
        count, parts = len(lefts) * self.vectors, 1 if narrow else self._parts(len(lefts))
        start = [ir.Constant(vector_of(I32, self.lanes), None)] * (count * parts)
        with loop(k, 0, self.words, turn, carry=start, name="word") as word:
            sums = list(word.carry)
            short: list[ir.Value | None] = [None] * count
            for step in range(turn):
                for group, number, factor, others in self._pairs(weights, lefts, k.add(word.index, step)):
                    if narrow:
                        product = self._madd(_MADD_BYTES, I8, factor[0], others[0])
                        held = short[number]
                        short[number] = product if held is None else k.b.add(held, product)
                    else:
                        index = group % parts * count + number
                        sums[index] = self._dot(factor, others, sums[index])
            for number, value in enumerate(short):
                if value is not None:
                    ones = ir.Constant(value.type, [1] * (2 * self.lanes))
                    sums[number] = k.b.add(sums[number], self._madd(_MADD_WORDS, I16, value, ones))
            word.next(*sums)
        return _added(word.carry, count, k.b.add)

    def _pairs(
        self, weights: ir.Value, lefts: Sequence[ir.Value], word: Index
    ) -> Iterator[tuple[int, int, tuple[ir.Value, ...], tuple[ir.Value, ...]]]:
        """Yields what one word of each column is multiplied by: the group, the number of the sum, and both factors."""
        k = self.k
        words = self._words(weights, word)
        for group in range(self.groups):
            factors = [self._factor(value, group) for value in words]
            for r, left in enumerate(lefts):
                place = k.mul(k.add(k.mul(word, self.groups), group), _GROUP)
                others = self._left(left, place)
                for v, factor in enumerate(factors):
                    yield group, r * self.vectors + v, factor, others

    def _factor(self, words: ir.Value, group: int) -> tuple[ir.Value, ...]:
        """Four consecutive numbers of each word: as unsigned bytes, or every other one as pairs of 16 bits."""
        k, bits = self.k, self.spec.bits
        mask = (1 << bits) - 1
        if self.spec.left == "bytes":
            shifted = k.b.lshr(words, like(words, bits * group)) if group else words
            return (shifted if bits == 8 else k.b.and_(shifted, like(words, 0x01010101 * mask)),)
        return tuple(
            k.b.and_(k.b.lshr(words, like(words, bits * group + 8 * half)), like(words, 0x00010001 * mask))
            for half in range(2)
        )

    def _left(self, left: ir.Value, place: Index) -> tuple[ir.Value, ...]:
        """Four consecutive numbers of the left factor in every lane, as `_factor` has those of weights."""
        k = self.k
        each = 1 if self.spec.left == "bytes" else 2
        base = k.at(left, place, i8 if each == 1 else i16)
        return tuple(splat(k, load(k, base, half, i32), self.lanes) for half in range(each))

    def _dot(self, factor: tuple[ir.Value, ...], others: tuple[ir.Value, ...], addend: ir.Value) -> ir.Value:
        """addend + the products, lane by lane."""
        k = self.k
        if self.spec.left == "bytes":
            name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
            type_ = addend.type
            return k.b.call(k.intrinsic(name, type_, type_, type_, type_), [addend, factor[0], others[0]])
        for one, other in zip(factor, others, strict=True):
            addend = k.b.add(addend, self._madd(_MADD_WORDS, I16, one, other))
        return addend

    def _madd(self, names: dict[int, str], element: ir.Type, left: ir.Value, right: ir.Value) -> ir.Value:
        """The products of neighbouring numbers of `element` in lanes that are twice as wide, added."""
        k = self.k
        size = k.target.vector_bytes
        narrow = vector_of(element, 8 * size // element.width)
        wide = vector_of(I16 if element is I8 else I32, narrow.count // 2)
        left, right = k.b.bitcast(left, narrow), k.b.bitcast(right, narrow)
        if k.target.triple.startswith("x86_64"):
            return k.b.call(k.intrinsic(f"llvm.x86.{names[size]}", wide, narrow, narrow), [left, right])
        even, odd = (
            k.b.mul(*(k.b.sext(_every_other(k, side, half), wide) for side in (left, right))) for half in range(2)
        )
        return k.b.add(even, odd)


def _every_other(k: Kernel, value: ir.Value, first: int) -> ir.Value:
    return take(k, value, range(first, value.type.count, 2))


def _added(values: Sequence[ir.Value], count: int, add: Callable[[ir.Value, ir.Value], ir.Value]) -> list[ir.Value]:
    """The sums of every `count`-th of `values`, in order."""
    sums = list(values[:count])
    for part in range(count, len(values), count):
        sums = [add(one, other) for one, other in zip(sums, values[part : part + count], strict=True)]
    return sums
