"""The register blocks that cover the rows of a matrix product: of one height, or of two that differ by one."""

from __future__ import annotations

from collections.abc import Callable

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, switch
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """The first `large` blocks have `height` rows, the others one row less.

    `heights`: one or two where the generator knows them, the larger one being `height`; else all that blocks may have,
    and `height` is an argument of the kernel. `large` is unused if there is one height.
    """

    k: Kernel
    heights: tuple[int, ...]
    large: Index
    height: Index

    def first_row(self, block: Index) -> Index:
        """The number of the first row of a block."""
        k = self.k
        if len(self.heights) == 1:
            return k.mul(block, self.heights[0])
        return k.add(k.mul(block, k.sub(self.height, 1)), k.min(block, self.large))

    def rows_of(self, block: Index) -> Index:
        """How many rows a block has."""
        k = self.k
        if len(self.heights) == 1:
            return self.heights[0]
        return k.b.select(k.less(block, self.large), as_i64(self.height), as_i64(k.sub(self.height, 1)))

    def emit(self, block: Index, body: Callable[[int], None]) -> None:
        """Emits `body` once for each height, and a branch to the one that the block has."""
        heights = self.heights
        if len(heights) == 1:
            body(heights[0])
        elif len(heights) == 2:
            with either(self.k, self.k.less(block, self.large)) as (large, small):
                with large:
                    body(heights[0])
                with small:
                    body(heights[1])
        else:
            switch(self.k, as_i64(self.rows_of(block)), heights, body)
