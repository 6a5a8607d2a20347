"""Matrix products: panels of columns times blocks of rows, every batch, epilogue included.

The right factor is cut into panels as wide as a register block. A panel comes packed (constants), is read
where it lies, or is first copied into scratch; the left factor is always read in place by broadcasts. A
block's sums stay in registers over the whole depth, or over each of its parts (gemm_parts.py).

Pointers: out, a, b, then the epilogue's operands. Args: see ARGS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop, when
from treadle.codegen.emit.ranges import coordinates
from treadle.codegen.emit.types import I64
from treadle.codegen.kernels.gemm_block import Ahead, Factors, RegisterBlock
from treadle.codegen.kernels.gemm_epilogue import Epilogue, Operand
from treadle.codegen.kernels.gemm_panel import copy_panel
from treadle.codegen.kernels.gemm_parts import Finish, Part, add_up, parts_of
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import LINE

ARGS = (
    "columns",  # of the product
    "depth",
    "blocks",  # of rows
    "large_blocks",  # the first ones have rows[0] rows, the others rows[-1]
    "panels",
    "a_row",  # strides, in elements
    "a_depth",
    "b_depth",
    "b_column",
    "b_panel",
    "c_row",
    "batches",
    "batches_per_chunk",
    "blocks_per_chunk",
    "panels_per_chunk",
    "block_chunks",  # chunk = (batch chunk * block chunks + block chunk) * panel chunks + panel chunk
    "panel_chunks",
    "part",  # of the depth that is taken at once
)
"""The int64 arguments in order; then the row stride of each epilogue operand; then the sizes of the batch
dimensions, and for a, b, out and each epilogue operand its strides along them."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a chunk does: half-open ranges of blocks of rows and of panels."""

    blocks: tuple[Index, Index]
    panels: tuple[Index, Index]


def emit_gemm(k: Kernel, spec: KernelSpec) -> None:
    """out[.., r, c] = epilogue(sum over t of a[.., r, t] * b[.., t, c], operands).

    Params: dtype, pairs (an element of a and b is two of the depth, as bf16; dtype is f32), quads (`unsigned` or `signed`
    bytes of a: an element of a and b is four of the depth, dtype is i32, and panels of b begin with a row of what is
    added to the sums; or empty), rows (the one or two
    heights of blocks), vectors, source (of b: see _panel), unit_row / unit_depth (which stride of a is 1),
    whole_turns, edge (the vectors of the last panel if it is not full, else 0), grid (more than one chunk),
    batch_rank, ahead (the lines of a later panel that each turn of a block asks for, and how many panels later),
    parts (the depth is taken in parts), epilogue, kinds (of its operands).
    Scratch: one block of sums; then a copied panel if b is not packed; then the sums of a chunk if there are parts.
    """
    product = Product(k, spec)
    arg = product.arg
    if not spec["grid"]:
        product.matrix([0] * (3 + len(spec["kinds"])), Range((0, arg["blocks"]), (0, arg["panels"])))
        return
    panel_chunk, rest = k.rem(k.chunk, arg["panel_chunks"]), k.div(k.chunk, arg["panel_chunks"])
    block_chunk, batch_chunk = k.rem(rest, arg["block_chunks"]), k.div(rest, arg["block_chunks"])

    def part(number: Index, size: str, total: str) -> tuple[Index, Index]:
        begin = k.mul(number, arg[size])
        return begin, k.min(k.add(begin, arg[size]), arg[total])

    here = Range(part(block_chunk, "blocks_per_chunk", "blocks"), part(panel_chunk, "panels_per_chunk", "panels"))
    if not spec["batch_rank"]:
        product.matrix([0] * (3 + len(spec["kinds"])), here)
        return
    with loop(k, *part(batch_chunk, "batches_per_chunk", "batches"), name="batch") as batch:
        product.matrix(product.batch_offsets(batch.index), here)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the right factor: where blocks read it, its stride along the depth and the steps of it; its first column
    and how many it has. If these steps are a part of the depth: which, and where sums of the chunk's first block wait."""

    right: ir.Value
    b_depth: Index
    length: Index
    column: Index
    columns: Index
    part: Part | None
    waiting: ir.Value | None


class Product:
    """Emits one product kernel."""

    def __init__(self, k: Kernel, spec: KernelSpec) -> None:
        self.k = k
        self.spec = spec
        self.arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
        self.dtype = spec["dtype"]
        self.blocks = RowBlocks(k, spec["rows"], self.arg["large_blocks"])
        self.epilogue = Epilogue(k, spec)
        self.width = self.epilogue.width

    def batch_offsets(self, batch: Index) -> list[Index]:
        """Where matrix `batch` begins in a, b, out and each epilogue operand, in elements."""
        k, rank, kinds = self.k, self.spec["batch_rank"], self.spec["kinds"]
        first = len(ARGS) + len(kinds)
        places = coordinates(k, batch, [k.arg(first + axis) for axis in range(rank)])
        offsets = []
        for number in range(1, 4 + len(kinds)):
            offset: Index = 0
            for axis, place in enumerate(places):
                offset = k.add(offset, k.mul(place, k.arg(first + number * rank + axis)))
            offsets.append(offset)
        return offsets

    def matrix(self, offsets: list[Index], here: Range) -> None:
        """The blocks and panels `here` of the matrix that begins at `offsets` (of a, b, out, epilogue operands)."""
        k, arg, dtype = self.k, self.arg, self.dtype
        a, b = (k.at(k.pointer(number), offset, dtype) for number, offset in enumerate(offsets[:2], start=1))
        c = k.at(k.pointer(0), offsets[2], self.epilogue.result)
        operands = [
            Operand(
                k.at(k.pointer(3 + number), offsets[3 + number], self.epilogue.expr.operands[1 + number]),
                k.arg(len(ARGS) + number),
                kind,
            )
            for number, kind in enumerate(self.spec["kinds"])
        ]
        if not self.spec["parts"]:
            self._panels((a, b, c), operands, here, None)
            return
        with parts_of(k, arg["depth"], arg["part"]) as part:
            a_depth = 1 if self.spec["unit_depth"] else arg["a_depth"]
            b_depth = self.width if self.spec["source"] == "packed" else arg["b_depth"]
            a_part = k.at(a, k.mul(part.begin, a_depth), dtype)
            b_part = k.at(b, k.mul(part.begin, b_depth), dtype)
            self._panels((a_part, b_part, c), operands, here, part)

    def _panels(
        self, places: tuple[ir.Value, ir.Value, ir.Value], operands: list[Operand], here: Range, part: Part | None
    ) -> None:
        """The blocks and panels `here` of a, b and out, which begin at `places`, for a part of the depth or all of it."""
        k, arg, dtype = self.k, self.arg, self.dtype
        a, b, c = places
        length = arg["depth"] if part is None else part.length
        with loop(k, *here.panels, name="panel") as turn:
            column = k.mul(turn.index, self.width)
            columns = k.min(k.sub(arg["columns"], column), self.width) if self.spec["edge"] else self.width
            right, b_depth = self._panel(k.at(b, k.mul(turn.index, arg["b_panel"]), dtype), columns, length)
            waiting = None if part is None else self._waiting(k.sub(turn.index, here.panels[0]))
            panel = Panel(right, b_depth, length, column, columns, part, waiting)
            with loop(k, *here.blocks, name="block") as block:
                self._block(a, panel, c, operands, block.index, k.sub(block.index, here.blocks[0]))

    def _waiting(self, panel: Index) -> ir.Value:
        """Where the sums of the first block of the chunk's panel number `panel` wait."""
        k, block = self.k, self.spec["rows"][0] * self.width
        reads = self.spec["source"] == "packed" or (self.spec["source"] == "rows" and not self.spec["edge"])
        copied = 0 if reads else k.mul(self.arg["part"], self.width)
        blocks = k.mul(panel, self.arg["blocks_per_chunk"])
        return k.at(k.scratch, k.add(k.add(copied, block), k.mul(blocks, block)), self.dtype)

    def _panel(self, b: ir.Value, columns: Index, depth: Index) -> tuple[ir.Value, Index]:
        """Where blocks shall read the panel of `depth` rows that begins at `b`, and its stride along the depth.

        `source`: `packed`; `rows` (read in place, unless not full); `copied` (from rows) and what
        copy_panel calls `columns`, `column_tiles` and `strided`: copied into scratch.
        """
        k, arg, dtype, width = self.k, self.arg, self.dtype, self.width
        source = self.spec["source"]
        if source == "packed":
            return b, width
        copied = k.at(k.scratch, self.spec["rows"][0] * width, dtype)
        copy = "rows" if source in ("rows", "copied") else source
        strides, sizes = (arg["b_depth"], arg["b_column"]), (depth, columns)
        if source != "rows":
            copy_panel(k, copy, copied, b, strides, sizes, dtype, width)
            return copied, width
        if not self.spec["edge"]:
            return b, arg["b_depth"]
        copies = k.less(columns, width)
        with when(k, copies):
            copy_panel(k, copy, copied, b, strides, sizes, dtype, width)
        return k.b.select(copies, copied, b), k.b.select(copies, I64(width), arg["b_depth"])

    def _block(
        self, a: ir.Value, panel: Panel, c: ir.Value, operands: list[Operand], number: Index, place: Index
    ) -> None:
        """Block `number` of `panel`, the chunk's block `place`."""
        k, arg, dtype = self.k, self.arg, self.dtype
        row = self.blocks.first_row(number)
        a_row: Index = 1 if self.spec["unit_row"] else arg["a_row"]
        a_depth: Index = 1 if self.spec["unit_depth"] else arg["a_depth"]
        lines, later = self.spec["ahead"]
        ahead = Ahead(lines, k.add(k.mul(arg["b_panel"], later * dtype.size), k.mul(place, lines * LINE)))
        factors = Factors(k.at(a, k.mul(row, a_row), dtype), a_row, a_depth, panel.right, panel.b_depth, ahead)
        target = k.at(c, k.add(k.mul(row, arg["c_row"]), panel.column), self.epilogue.result)
        if panel.waiting is not None:
            waiting = k.at(panel.waiting, k.mul(place, self.spec["rows"][0] * self.width), dtype)
            panel = replace(panel, waiting=waiting)
        self.blocks.emit(number, lambda height: self._sums(height, factors, panel, target, operands, row))
        if self.epilogue.is_long or self.spec["edge"]:
            spilled = ir.Constant(ir.IntType(1), 1) if self.epilogue.is_long else k.less(panel.columns, self.width)
            if panel.part is not None:
                spilled = k.b.and_(spilled, panel.part.last)
            with when(k, spilled):
                span = row, panel.column
                rows = self.blocks.height(number)
                self.epilogue.store_spilled(
                    k.scratch, rows, panel.columns, target, arg["c_row"], operands, *span, self.epilogue.is_long
                )

    def _sums(
        self, height: int, factors: Factors, panel: Panel, c: ir.Value, operands: list[Operand], row: Index
    ) -> None:
        """A block of `height` rows: stored at once, or spilled where its epilogue is long or its panel not full."""
        k, edge, vectors = self.k, self.spec["edge"], self.spec["vectors"]

        def spill(sums: list[ir.Value], vectors: int = vectors) -> None:
            self.epilogue.spill(sums, vectors, k.scratch)

        def store(sums: list[ir.Value]) -> None:
            self.epilogue.store_sums(sums, c, self.arg["c_row"], operands, row, panel.column)

        finish = spill if self.epilogue.is_long else store
        if not edge:
            self._once_whole(self._product(height, vectors, factors, panel), vectors, panel, finish)
            return
        is_edge = k.less(panel.columns, self.width)
        if edge < vectors:
            with either(k, is_edge) as (partial, whole):
                with partial:
                    sums = self._product(height, edge, factors, panel)
                    self._once_whole(sums, edge, panel, lambda sums: spill(sums, edge))
                with whole:
                    self._once_whole(self._product(height, vectors, factors, panel), vectors, panel, finish)
            return

        def either_way(sums: list[ir.Value]) -> None:
            with either(k, is_edge) as (partial, whole):
                with partial:
                    spill(sums)
                with whole:
                    finish(sums)

        self._once_whole(self._product(height, vectors, factors, panel), vectors, panel, either_way)

    def _once_whole(self, sums: list[ir.Value], vectors: int, panel: Panel, finish: Finish) -> None:
        """`finish` for sums over the whole depth: at once, or after its last part."""
        if panel.part is None or panel.waiting is None:
            finish(sums)
        else:
            add_up(self.k, self.epilogue, sums, vectors, panel.part, panel.waiting, finish)

    def _product(self, height: int, vectors: int, factors: Factors, panel: Panel) -> list[ir.Value]:
        block = RegisterBlock(self.k, self.dtype, height, vectors, pairs=self.spec["pairs"], quads=self.spec["quads"])
        return block.product(factors, panel.length, self.spec["whole_turns"])
