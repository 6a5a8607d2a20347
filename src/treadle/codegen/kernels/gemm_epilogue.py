"""The end of a matrix product: the epilogue is applied to finished sums, then they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import load, loaded_lane_mask, prefetch, store
from treadle.codegen.emit.scalar_ops import LONG_OPS
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.expr import emit_expr, given_values, load_value, store_value
from treadle.dtypes import DType
from treadle.plan.kernels.epilogue import EpilogueSpec
from treadle.plan.target import LINE
from treadle.records import dataclass

_SHORT_STEPS = 8


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of the epilogue, for one matrix of the batch: element (row, column) is at base + row * row_stride +
    column.

    `kind` is as in `EpilogueSpec.kinds`: the row counts in `row` and `full`, the column in `column` and `full`.
    """

    base: ir.Value
    row_stride: Index
    kind: str


class Epilogue:
    """Finishes blocks of one product kernel."""

    def __init__(self, k: Kernel, spec: EpilogueSpec, given: Sequence[ir.Value] = ()) -> None:
        """Make the epilogue of `spec`, whose `given` steps take the numbers with these bits."""
        self.k = k
        self.dtype = spec.dtype
        self.expr = spec.epilogue
        self.lanes = k.target.lanes(self.dtype)
        self.vectors = spec.vectors
        self.width = self.vectors * self.lanes
        self.given = [] if self.expr is None else given_values(k, self.expr, given, self.lanes)
        steps = () if self.expr is None else self.expr.steps
        self.is_long = len(steps) > _SHORT_STEPS or any(step.op in LONG_OPS for step in steps)
        """The epilogue is emitted once and applied in a loop, instead of being emitted for each vector of the block."""

    @property
    def result(self) -> DType:
        """The dtype that is stored."""
        return self.dtype if self.expr is None else self.expr.dtype(self.expr.results[0])

    def operand_dtype(self, number: int) -> DType:
        """The dtype of operand `number` of the epilogue, sums not counted."""
        assert self.expr is not None, "only an epilogue has operands"
        return self.expr.operands[1 + number]

    def prefetch(self, operands: list[Operand], rows: Index, row: Index, column: Index) -> None:
        """Prefetches what `apply` will read of whole matrices for `rows` rows of a block from (row, column) on."""
        k = self.k
        for number, operand in enumerate(operands):
            if operand.kind != "full":
                continue
            size = self.operand_dtype(number).size

            def fetch(r: Index, operand: Operand = operand, size: int = size) -> None:
                element = k.add(k.mul(operand.row_stride, k.add(row, r)), column)
                for byte in range(0, self.width * size, LINE):
                    prefetch(k, operand.base, k.add(k.mul(element, size), byte), near=True)

            self._for_rows(rows, fetch)

    def prefetch_result(self, c: ir.Value, c_row: Index, rows: Index) -> None:
        """Prefetches what `rows` rows of a block at `c` are stored to.

        Blocks that are finished together store a line for each of their rows at once: stores wait for each other.
        """
        k, size = self.k, self.result.size

        def fetch(r: Index) -> None:
            for byte in range(0, self.width * size, LINE):
                prefetch(k, c, k.add(k.mul(k.mul(c_row, r), size), byte), stored=True)

        self._for_rows(rows, fetch)

    def _for_rows(self, rows: Index, body: Callable[[Index], None]) -> None:
        """Emits `body` for each of `rows` rows: side by side if the generator knows how many there are."""
        if isinstance(rows, int):
            for row in range(rows):
                body(row)
            return
        with loop(self.k, 0, rows, name="row") as turn:
            body(turn.index)

    def store_sums(
        self, sums: Sequence[ir.Value], c: ir.Value, c_row: Index, operands: list[Operand], row: Index, column: Index
    ) -> None:
        """Finish a whole block that is in registers; its first element is (row, column), to be stored at `c`."""
        k = self.k
        for r in range(len(sums) // self.vectors):
            here = self.operands_at(operands, k.add(row, r), column)
            target = k.at(c, k.mul(c_row, r), self.result)
            for v in range(self.vectors):
                result = self.apply(sums[r * self.vectors + v], here, 0, v * self.lanes, None)
                store_value(k, result, target, v * self.lanes, self.result)

    def operands_at(self, operands: list[Operand], row: Index, column: Index) -> list[Operand]:
        """The operands of a matrix that begins at (`row`, `column`) of this one."""
        k, found = self.k, []
        for number, operand in enumerate(operands):
            past = k.mul(operand.row_stride, row) if operand.kind in ("row", "full") else 0
            place = k.add(past, column) if operand.kind in ("column", "full") else past
            found.append(replace(operand, base=k.at(operand.base, place, self.operand_dtype(number))))
        return found

    def spill(self, sums: Sequence[ir.Value], vectors: int, tile: ir.Value) -> None:
        """Store raw sums, rows of `vectors` vectors, as a matrix of `width` columns at `tile`."""
        for number, value in enumerate(sums):
            row, v = divmod(number, vectors)
            store(self.k, value, tile, row * self.width + v * self.lanes, self.dtype)

    def store_spilled(
        self,
        tile: ir.Value,
        rows: Index,
        columns: Index,
        c: ir.Value,
        c_row: Index,
        operands: list[Operand],
        row: Index,
        column: Index,
        may_be_whole: bool,
    ) -> None:
        """Finish the block that `spill` left at `tile`: its first `rows` rows and `columns` columns."""
        k = self.k

        def finish(r: Index, at: Index, mask: ir.Value | None) -> None:
            value = load(k, tile, k.add(k.mul(r, self.width), at), self.dtype, self.lanes)
            result = self.apply(value, operands, k.add(row, r), k.add(column, at), mask)
            store_value(k, result, c, k.add(k.mul(c_row, r), at), self.result, mask)

        def edge() -> None:
            with loop(k, 0, columns, self.lanes, name="vector") as vector:
                mask = loaded_lane_mask(k, k.sub(columns, vector.index), self.lanes)
                with loop(k, 0, rows, name="row") as turn:
                    finish(turn.index, vector.index, mask)

        if not may_be_whole:
            edge()
            return
        with either(k, k.less(self.width - 1, columns)) as (whole, partial):
            with whole, loop(k, 0, rows, name="row") as turn:
                for v in range(self.vectors):
                    finish(turn.index, v * self.lanes, None)
            with partial:
                edge()

    def apply(
        self, value: ir.Value, operands: list[Operand], row: Index, column: Index, mask: ir.Value | None
    ) -> ir.Value:
        """The epilogue of one vector of the product, whose first element is (row, column)."""
        if self.expr is None:
            return value
        k = self.k
        loaded = []
        for operand, dtype in zip(operands, self.expr.operands[1:], strict=True):
            past = k.mul(operand.row_stride, row) if operand.kind in ("row", "full") else 0
            if operand.kind in ("column", "full"):
                loaded.append(load_value(k, operand.base, k.add(past, column), dtype, self.lanes, mask))
            else:
                loaded.append(splat(k, load_value(k, operand.base, past, dtype), self.lanes))
        (result,) = emit_expr(k, self.expr, [value, *loaded], mask, self.lanes, self.given)
        return result
