"""Matrix products: panels of columns times blocks of rows, every batch, tail included.

The right factor is cut into panels as wide as a register block. A panel comes packed (constants), is read
where it lies, or is first copied into scratch; the left factor is always read in place by broadcasts. A
block's sums stay in registers over the whole depth, so the order of summation never depends on the cut.

Pointers: out, a, b, then the tail's operands. Args: see ARGS.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from weft.codegen.emit.kernel import Index, Kernel
from weft.codegen.emit.loops import either, loop, when
from weft.codegen.emit.ranges import coordinates
from weft.codegen.emit.types import I64
from weft.codegen.kernels.gemm_block import Ahead, Factors, RegisterBlock
from weft.codegen.kernels.gemm_panel import copy_panel
from weft.codegen.kernels.gemm_rows import RowBlocks
from weft.codegen.kernels.gemm_tail import Operand, Tail
from weft.plan.kernel_spec import KernelSpec
from weft.plan.target import LINE

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
)
"""The int64 arguments in order; then the row stride of each tail operand; then the sizes of the batch
dimensions, and for a, b, out and each tail operand its strides along them."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a chunk does: half-open ranges of blocks of rows and of panels."""

    blocks: tuple[Index, Index]
    panels: tuple[Index, Index]


def emit_gemm(k: Kernel, spec: KernelSpec) -> None:
    """out[.., r, c] = tail(sum over t of a[.., r, t] * b[.., t, c], operands).

    Params: dtype, pairs (an element of a and b is two of the depth, as bf16; dtype is f32), quads (`unsigned` or `signed`
    bytes of a: an element of a and b is four of the depth, dtype is i32, and panels of b begin with a row of what is
    added to the sums; or empty), rows (the one or two
    heights of blocks), vectors, source (of b: see _panel), unit_row / unit_depth (which stride of a is 1),
    whole_turns, edge (the vectors of the last panel if it is not full, else 0), grid (more than one chunk),
    batch_rank, ahead (the lines of a later panel that each turn of a block asks for, and how many panels later),
    tail, kinds (of its operands).
    Scratch: one block of sums; then a copied panel if b is not packed.
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


class Product:
    """Emits one product kernel."""

    def __init__(self, k: Kernel, spec: KernelSpec) -> None:
        self.k = k
        self.spec = spec
        self.arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
        self.dtype = spec["dtype"]
        self.blocks = RowBlocks(k, spec["rows"], self.arg["large_blocks"])
        self.tail = Tail(k, spec)
        self.width = self.tail.width

    def batch_offsets(self, batch: Index) -> list[Index]:
        """Where matrix `batch` begins in a, b, out and each tail operand, in elements."""
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

    def matrix(self, offsets: list[Index], part: Range) -> None:
        """The blocks and panels `part` of the matrix that begins at `offsets` (of a, b, out, tail operands)."""
        k, arg, dtype = self.k, self.arg, self.dtype
        a, b = (k.at(k.pointer(number), offset, dtype) for number, offset in enumerate(offsets[:2], start=1))
        c = k.at(k.pointer(0), offsets[2], self.tail.result)
        operands = [
            Operand(
                k.at(k.pointer(3 + number), offsets[3 + number], self.tail.expr.operands[1 + number]),
                k.arg(len(ARGS) + number),
                kind,
            )
            for number, kind in enumerate(self.spec["kinds"])
        ]
        with loop(k, *part.panels, name="panel") as panel:
            column = k.mul(panel.index, self.width)
            columns = k.min(k.sub(arg["columns"], column), self.width) if self.spec["edge"] else self.width
            right, b_depth = self._panel(k.at(b, k.mul(panel.index, arg["b_panel"]), dtype), columns)
            with loop(k, *part.blocks, name="block") as block:
                lines, panels = self.spec["ahead"]
                share = k.mul(k.sub(block.index, part.blocks[0]), lines * LINE)
                ahead = Ahead(lines, k.add(k.mul(arg["b_panel"], panels * dtype.size), share))
                self._block(a, (right, b_depth, ahead), c, operands, block.index, (column, columns))

    def _panel(self, b: ir.Value, columns: Index) -> tuple[ir.Value, Index]:
        """Where blocks shall read the panel that begins at `b`, and its stride along the depth.

        `source`: `packed`; `rows` (read in place, unless not full); `copied` (from rows) and what
        copy_panel calls `columns`, `column_tiles` and `strided`: copied into scratch.
        """
        k, arg, dtype, width = self.k, self.arg, self.dtype, self.width
        source = self.spec["source"]
        if source == "packed":
            return b, width
        copied = k.at(k.scratch, self.spec["rows"][0] * width, dtype)
        copy = "rows" if source in ("rows", "copied") else source
        strides, sizes = (arg["b_depth"], arg["b_column"]), (arg["depth"], columns)
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
        self,
        a: ir.Value,
        right: tuple[ir.Value, Index, Ahead],
        c: ir.Value,
        operands: list[Operand],
        number: Index,
        span: tuple[Index, Index],
    ) -> None:
        """Block `number` of the panel `right`, whose (first column, columns) are `span`."""
        k, arg = self.k, self.arg
        column, columns = span
        row = self.blocks.first_row(number)
        a_row: Index = 1 if self.spec["unit_row"] else arg["a_row"]
        a_depth: Index = 1 if self.spec["unit_depth"] else arg["a_depth"]
        left = k.at(a, k.mul(row, a_row), self.dtype)
        target = k.at(c, k.add(k.mul(row, arg["c_row"]), column), self.tail.result)
        factors = Factors(left, a_row, a_depth, *right)
        self.blocks.emit(number, lambda height: self._sums(height, factors, target, operands, row, span))
        if self.tail.is_long or self.spec["edge"]:
            rows = self.blocks.height(number)
            spilled = ir.Constant(ir.IntType(1), 1) if self.tail.is_long else k.less(columns, self.width)
            with when(k, spilled):
                self.tail.store_spilled(
                    k.scratch, rows, columns, target, arg["c_row"], operands, row, column, self.tail.is_long
                )

    def _sums(
        self, height: int, factors: Factors, c: ir.Value, operands: list[Operand], row: Index, span: tuple[Index, Index]
    ) -> None:
        """A block of `height` rows: stored at once, or spilled where its tail is long or its panel not full."""
        k, edge, vectors = self.k, self.spec["edge"], self.spec["vectors"]

        def finish(sums: list[ir.Value]) -> None:
            if self.tail.is_long:
                self.tail.spill(sums, vectors, k.scratch)
            else:
                self.tail.store_sums(sums, c, self.arg["c_row"], operands, row, span[0])

        if not edge:
            finish(self._product(height, vectors, factors))
            return
        is_edge = k.less(span[1], self.width)
        if edge < vectors:
            with either(k, is_edge) as (partial, whole):
                with partial:
                    self.tail.spill(self._product(height, edge, factors), edge, k.scratch)
                with whole:
                    finish(self._product(height, vectors, factors))
            return
        sums = self._product(height, vectors, factors)
        with either(k, is_edge) as (partial, whole):
            with partial:
                self.tail.spill(sums, vectors, k.scratch)
            with whole:
                finish(sums)

    def _product(self, height: int, vectors: int, factors: Factors) -> list[ir.Value]:
        block = RegisterBlock(self.k, self.dtype, height, vectors, pairs=self.spec["pairs"], quads=self.spec["quads"])
        return block.product(factors, self.arg["depth"], self.spec["whole_turns"])
