"""Matrix products: panels of columns times blocks of rows, for every batch, with the epilogue.

The right factor is cut into panels as wide as a register block. A panel comes packed (constants), is read in place, or
is first copied into scratch; the left factor is read in place by broadcasts, unless its bytes are first widened
(gemm_left.py). The sums of a block stay in registers over the whole depth, or over each of its parts (gemm_parts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.ranges import coordinates, offset_at
from treadle.codegen.emit.types import I64
from treadle.codegen.kernels.gemm_block import Factors, Prefetch, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_left import widen_rows
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.codegen.kernels.gemm_parts import Part, finish_or_wait, parts_of, sums_before
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.codegen.kernels.remainders import Remainders
from treadle.plan.kernels.gemm import GemmArgs, GemmSpec
from treadle.plan.kernels.register_block import FINISHED_TOGETHER
from treadle.plan.target import LINE
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """The work of a chunk: half-open ranges of blocks of rows and of panels."""

    blocks: tuple[Index, Index]
    panels: tuple[Index, Index]


def emit_gemm(k: Kernel, spec: GemmSpec) -> None:
    """out[.., r, c] = epilogue(sum over t of a[.., r, t] * b[.., t, c], operands).

    With `vnni`, panels of b begin with a row of what is added to the sums.
    """
    product = Product(k, spec)
    args = product.args
    if not spec.grid:
        product.matrix([0] * (3 + len(spec.kinds)), Range((0, args.blocks), (0, args.panels)))
        return
    panel_chunk, rest = k.rem(k.chunk, args.panel_chunks), k.div(k.chunk, args.panel_chunks)
    block_chunk, batch_chunk = k.rem(rest, args.block_chunks), k.div(rest, args.block_chunks)

    def part(number: Index, size: Index, total: Index) -> tuple[Index, Index]:
        begin = k.mul(number, size)
        return begin, k.min(k.add(begin, size), total)

    blocks = part(block_chunk, args.blocks_per_chunk, args.blocks)
    here = Range(blocks, part(panel_chunk, args.panels_per_chunk, args.panels))
    if not spec.batch_rank:
        product.matrix([0] * (3 + len(spec.kinds)), here)
        return
    with loop(k, *part(batch_chunk, args.batches_per_chunk, args.batches), name="batch") as batch:
        product.matrix(product.batch_offsets(batch.index), here)


@dataclass(frozen=True, slots=True)
class Left:
    """Rows of the left factor: the address of row number `first`, and the strides of rows and along the depth."""

    address: ir.Value
    first: Index
    row: Index
    depth: Index


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the right factor: its address, its stride along the depth and the steps of it; its first column and
    the number of columns. If the steps are a part of the depth: which part, and the address of the sums of the chunk's
    first block."""

    right: ir.Value
    b_depth: Index
    length: Index
    column: Index
    columns: Index
    part: Part | None
    waiting: ir.Value | None


class Product:
    """Emits one product kernel."""

    def __init__(self, k: Kernel, spec: GemmSpec) -> None:
        self.k = k
        self.spec = spec
        self.args = k.args(GemmArgs[ir.Value], spec)
        self.dtype = spec.dtype
        height = self.args.height if spec.open_rows else spec.rows[0]
        self.blocks = RowBlocks(k, spec.rows, self.args.large_blocks, height)
        self.epilogue = Epilogue(k, spec, self.args.given)
        self.width = self.epilogue.width
        self.together = FINISHED_TOGETHER if self.epilogue.is_long else 1
        """Blocks whose sums may be spilled at a time."""
        self.spilled = self.together * spec.rows[0] * self.width
        """Elements of scratch for them."""

    def batch_offsets(self, batch: Index) -> list[Index]:
        """The offsets of matrix `batch` in a, b, out and each operand of the epilogue, in elements."""
        k, args = self.k, self.args
        position = coordinates(k, batch, args.sizes)
        return [
            offset_at(k, position, strides)
            for strides in (args.a_batch, args.b_batch, args.out_batch, *args.epilogue_batch)
        ]

    def matrix(self, offsets: list[Index], here: Range) -> None:
        """The blocks and panels `here` of the matrix that begins at `offsets` (of a, b, out, epilogue operands)."""
        k, args, dtype = self.k, self.args, self.dtype
        a, b = (k.at(k.pointer(number), offset, dtype) for number, offset in enumerate(offsets[:2], start=1))
        c = k.at(k.pointer(0), offsets[2], self.epilogue.result)
        operands = [
            Operand(
                k.at(k.pointer(3 + number), offsets[3 + number], self.epilogue.operand_dtype(number)),
                args.epilogue_rows[number],
                kind,
            )
            for number, kind in enumerate(self.spec.kinds)
        ]
        left = self._left(a, here.blocks)
        if not self.spec.parts:
            self._panels((left, b, c), operands, here, None)
            return
        b_depth = self.width if self.spec.source == "packed" else args.b_depth
        first, end = here.panels
        groups = k.div(k.sub(k.add(k.sub(end, first), args.panels_at_once), 1), args.panels_at_once)
        with loop(k, 0, groups, name="group") as group:
            begin = k.add(first, k.mul(group.index, args.panels_at_once))
            panels = begin, k.min(k.add(begin, args.panels_at_once), end)
            with parts_of(k, args.depth, args.part) as part:
                left_part = replace(left, address=k.at(a, k.mul(part.begin, left.depth), dtype))
                b_part = k.at(b, k.mul(part.begin, b_depth), dtype)
                self._panels((left_part, b_part, c), operands, replace(here, panels=panels), part)

    def _left(self, a: ir.Value, blocks: tuple[Index, Index]) -> Left:
        """The left factor that begins at `a`, of which `blocks` are needed: in place, or widened into scratch."""
        k, args, spec = self.k, self.args, self.spec
        a_row: Index = 1 if spec.unit_row else args.a_row
        if not spec.words:
            return Left(a, 0, a_row, 1 if spec.unit_depth else args.a_depth)
        first, end = self.blocks.first_row(blocks[0]), self.blocks.first_row(blocks[1])
        widened = k.at(k.scratch, self.spilled, self.dtype)
        rows = k.at(a, k.mul(first, a_row), self.dtype)
        widen_rows(k, widened, rows, a_row, (k.sub(end, first), args.depth), signed=spec.vnni == "signed")
        return Left(widened, first, k.mul(args.depth, 2), 2)

    def _panels(
        self, arrays: tuple[Left, ir.Value, ir.Value], operands: list[Operand], here: Range, part: Part | None
    ) -> None:
        """The blocks and panels `here` of `arrays` (a, b and out), for a part of the depth or all of it."""
        k, args, dtype = self.k, self.args, self.dtype
        a, b, c = arrays
        length = args.depth if part is None else part.length
        with loop(k, *here.panels, name="panel") as turn:
            column = k.mul(turn.index, self.width)
            columns = k.min(k.sub(args.columns, column), self.width) if self.spec.edge else self.width
            right, b_depth = self._panel(k.at(b, k.mul(turn.index, args.b_panel), dtype), columns, length)
            waiting = None if part is None else self._waiting(k.sub(turn.index, here.panels[0]))
            panel = Panel(right, b_depth, length, column, columns, part, waiting)
            with loop(k, *here.blocks, self.together, name="group") as group:
                begin, end = group.index, k.add(group.index, 1)
                if self.together > 1:
                    end = k.min(k.add(begin, self.together), here.blocks[1])
                rows = self.blocks.first_row(begin), self.blocks.first_row(end)

                def emit(block: Index, first: Index = rows[0], panel: Panel = panel) -> None:
                    self._block(a, panel, c, operands, block, k.sub(block, here.blocks[0]), first)

                if self.together == 1:
                    emit(begin)
                else:
                    with loop(k, begin, end, name="block") as block:
                        emit(block.index)
                self._finish_spilled(panel, c, operands, rows)

    def _finish_spilled(self, panel: Panel, c: ir.Value, operands: list[Operand], rows: tuple[Index, Index]) -> None:
        """Finishes the sums of `rows` (half open) if they were spilled: those of long epilogues, and of a panel that is
        not full."""
        k, spec = self.k, self.spec
        if not self.epilogue.is_long and not spec.edge:
            return
        spilled = ir.Constant(ir.IntType(1), 1) if self.epilogue.is_long else k.less(panel.columns, self.width)
        if panel.part is not None:
            spilled = k.b.and_(spilled, panel.part.last)
        first, end = rows
        with when(k, spilled):
            self.epilogue.store_spilled(
                k.scratch,
                k.sub(end, first),
                panel.columns,
                k.at(c, k.add(k.mul(first, self.args.out_row), panel.column), self.epilogue.result),
                self.args.out_row,
                operands,
                first,
                panel.column,
                self.epilogue.is_long,
            )

    def _waiting(self, panel: Index) -> ir.Value:
        """The address in scratch of the sums of the first block of the chunk's panel number `panel`."""
        k, block = self.k, self.spec.rows[0] * self.width
        reads = self.spec.source == "packed" or (self.spec.source == "rows" and not self.spec.edge)
        copied = 0 if reads else k.mul(self.args.part, self.width)
        blocks = k.mul(panel, self.args.blocks_per_chunk)
        return k.at(k.scratch, k.add(k.add(copied, self.spilled), k.mul(blocks, block)), self.dtype)

    def _panel(self, b: ir.Value, columns: Index, depth: Index) -> tuple[ir.Value, Index]:
        """(the address at which blocks read the panel of `depth` rows at `b`, its stride along the depth).

        `source`: `packed`; `rows` (read in place, unless not full); `copied` (from rows) and what
        copy_panel calls `columns`, `column_tiles` and `strided`: copied into scratch.
        """
        k, args, dtype, width = self.k, self.args, self.dtype, self.width
        source = self.spec.source
        if source == "packed":
            return b, width
        copied = k.at(k.scratch, self.spilled, dtype)
        copy = "rows" if source in ("rows", "copied") else source
        strides, sizes = (args.b_depth, args.b_column), (depth, columns)
        if source != "rows":
            copy_panel(k, copy, copied, b, strides, sizes, dtype, width)
            return copied, width
        if not self.spec.edge:
            return b, args.b_depth
        copies = k.less(columns, width)
        with when(k, copies):
            copy_panel(k, copy, copied, b, strides, sizes, dtype, width)
        return k.b.select(copies, copied, b), k.b.select(copies, I64(width), args.b_depth)

    def _block(
        self,
        a: Left,
        panel: Panel,
        c: ir.Value,
        operands: list[Operand],
        number: Index,
        position: Index,
        first_spilled: Index,
    ) -> None:
        """Block `number` of `panel`, number `position` of the chunk's blocks. Spilled sums begin with those of row
        `first_spilled`."""
        k, args, dtype = self.k, self.args, self.dtype
        row = self.blocks.first_row(number)
        most = self.spec.prefetch_lines
        lines: Index = args.prefetch_lines if self.spec.open_rows else most
        prefetch = Prefetch(most, lines, k.add(args.prefetch_ahead, k.mul(k.mul(position, lines), LINE)))
        left = k.at(a.address, k.mul(k.sub(row, a.first), a.row), dtype)
        factors = Factors(left, a.row, a.depth, panel.right, panel.b_depth, prefetch)
        target = k.at(c, k.add(k.mul(row, args.out_row), panel.column), self.epilogue.result)
        if panel.waiting is not None:
            waiting = k.at(panel.waiting, k.mul(position, self.spec.rows[0] * self.width), dtype)
            panel = replace(panel, waiting=waiting)
        tile = k.at(k.scratch, k.mul(k.sub(row, first_spilled), self.width), dtype)
        if self.spec.open_rows:
            self._prefetch_for_epilogue(self.blocks.rows_of(number), panel, target, operands, row)
        self.blocks.emit(number, lambda height: self._sums(height, factors, panel, target, operands, row, tile))

    def _prefetch_for_epilogue(
        self, rows: Index, panel: Panel, c: ir.Value, operands: list[Operand], row: Index
    ) -> None:
        """Prefetches what the epilogue of a block of `rows` rows needs and waits for, before its last sums are made."""
        if "full" not in self.spec.kinds and not self.epilogue.is_long:
            return
        with nullcontext() if panel.part is None else when(self.k, panel.part.last):
            self.epilogue.prefetch(operands, rows, row, panel.column)
            if self.epilogue.is_long:
                self.epilogue.prefetch_result(c, self.args.out_row, rows)

    def _sums(
        self,
        height: int,
        factors: Factors,
        panel: Panel,
        c: ir.Value,
        operands: list[Operand],
        row: Index,
        tile: ir.Value,
    ) -> None:
        """A block of `height` rows: stored at once, or spilled to `tile` if its epilogue is long or its panel not
        full."""
        k, edge, vectors = self.k, self.spec.edge, self.spec.vectors
        if not self.spec.open_rows:
            self._prefetch_for_epilogue(height, panel, c, operands, row)

        def spill(sums: list[ir.Value], vectors: int = vectors) -> None:
            self.epilogue.spill(sums, vectors, tile)

        def store(sums: list[ir.Value]) -> None:
            self.epilogue.store_sums(sums, c, self.args.out_row, operands, row, panel.column)

        finish = spill if self.epilogue.is_long else store
        if not edge:
            self._multiply(height, vectors, factors, panel, finish)
            return
        is_edge = k.less(panel.columns, self.width)
        if edge < vectors:
            with either(k, is_edge) as (partial, whole):
                with partial:
                    self._multiply(height, edge, factors, panel, lambda sums: spill(sums, edge))
                with whole:
                    self._multiply(height, vectors, factors, panel, finish)
            return

        def either_way(sums: list[ir.Value]) -> None:
            with either(k, is_edge) as (partial, whole):
                with partial:
                    spill(sums)
                with whole:
                    finish(sums)

        self._multiply(height, vectors, factors, panel, either_way)

    def _multiply(
        self,
        height: int,
        vectors: int,
        factors: Factors,
        panel: Panel,
        finish: Callable[[list[ir.Value]], None],
    ) -> None:
        """Passes the sums of a block over the whole depth to `finish`: at once, or after its last part."""
        k, spec, epilogue = self.k, self.spec, self.epilogue
        block = RegisterBlock(
            k, self.dtype, height, vectors, use_bf16_dot=spec.bf16_dot, vnni=spec.vnni, words=spec.words
        )
        if panel.part is None or panel.waiting is None:
            sums = block.product(factors, panel.length, spec.whole_turns)
            if spec.remainders:
                table = k.at(k.pointer(2), k.mul(self.args.panels, self.args.b_panel), self.dtype)
                remainders = Remainders(k, table, self.args.panels, self.width)
                sums = block.add_remainders(remainders, k.div(panel.column, self.width), factors, sums)
            finish(sums)
            return
        begin = sums_before(k, epilogue, block, panel.part, panel.waiting)
        sums = block.product(factors, panel.length, spec.whole_turns, begin)
        finish_or_wait(k, epilogue, sums, vectors, panel.part, panel.waiting, finish)
