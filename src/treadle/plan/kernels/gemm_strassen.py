"""gemm_strassen and strassen_left: matrix products by Strassen's algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.plan.kernels.epilogue import EpilogueSpec

PRODUCTS = 7
"""Products of blocks that a product of matrices of 2 x 2 blocks takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrassenLeftSpec(KernelSpec):
    """Parameters. Pointers: sums [tile, part, product, row of a half, depth], a."""

    family: ClassVar[str] = "strassen_left"

    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmStrassenSpec(EpilogueSpec):
    """Parameters.

    Pointers: out, the sums of a, b [pair, part, block, depth, vectors * lanes], operands of the epilogue. The depth and
    its parts are multiples of 2 * lanes, the columns of 2 * vectors * lanes. Scratch: the products of one register
    block, then the results of pairs of panels.
    """

    family: ClassVar[str] = "gemm_strassen"

    rows: tuple[int, ...]
    """The one or two heights of register blocks, the larger first."""
    prefetch_lines: int
    """Cache lines of what is multiplied next that each turn of a register block prefetches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrassenTileArgs(KernelArgs[T]):
    """What the arguments of both kernels have in common, in elements."""

    rows: T
    """Rows of a."""
    tile_rows: T
    """Rows of a tile."""
    half: T
    """Rows of the upper half of a tile; the lower one has as many, or one less."""
    depth: T
    """Elements of a row of a."""
    part: T
    """Elements of the depth that are taken at once."""
    sums_row: T
    """Elements between rows of the sums of a."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrassenLeftArgs(StrassenTileArgs[T]):
    """Arguments, in elements. A unit is a row of both halves of a tile, in one part of the depth."""

    a_row: T
    """Elements between rows of a."""
    parts: T
    """Parts of the depth."""
    units: T
    units_per_chunk: T


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmStrassenArgs(StrassenTileArgs[T]):
    """Arguments, in elements. Chunk number = tile * `pair_chunks` + pair chunk."""

    parts: T
    """Parts of the depth."""
    blocks: T
    """Register blocks that cover a half."""
    large_blocks: T
    """The first ones, which have rows[0] rows; the others have rows[-1]."""
    pairs: T
    """Pairs of panels that cover the columns."""
    pairs_per_chunk: T
    pair_chunks: T
    result_step: T
    """Elements between the results of two pairs; 0 if there is one part, because each pair is then finished at once."""
    out_row: T
    """Elements between rows of out."""
    epilogue_rows: tuple[T, ...]
    """Row strides of the epilogue's operands."""

    @classmethod
    def tuple_lengths(cls, spec: GemmStrassenSpec) -> Lengths:
        return {"epilogue_rows": len(spec.kinds)}
