"""The register blocks that cover the rows of a matrix product: of one height, or of two that differ by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import either
from treadle.codegen.emit.types import I64


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """The first `large` blocks have heights[0] rows, the others heights[-1]; `large` is unused if there is one
    height."""

    k: Kernel
    heights: tuple[int, ...]
    large: Index

    def first_row(self, block: Index) -> Index:
        """The number of the first row of a block."""
        row = self.k.mul(block, self.heights[-1])
        return row if len(self.heights) == 1 else self.k.add(row, self.k.min(block, self.large))

    def height(self, block: Index) -> Index:
        """How many rows a block has."""
        if len(self.heights) == 1:
            return self.heights[0]
        return self.k.b.select(self.k.less(block, self.large), I64(self.heights[0]), I64(self.heights[1]))

    def emit(self, block: Index, body: Callable[[int], None]) -> None:
        """Emits `body` once for each height, and a branch to the one that the block has."""
        if len(self.heights) == 1:
            body(self.heights[0])
            return
        with either(self.k, self.k.less(block, self.large)) as (large, small):
            with large:
                body(self.heights[0])
            with small:
                body(self.heights[1])
