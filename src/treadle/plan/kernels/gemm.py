"""gemm: matrix products, out[.., r, c] = epilogue(sum over t of a[.., r, t] * b[.., t, c], operands)."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import Lengths, T
from treadle.plan.kernels.epilogue import BatchArgs, BatchedSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSpec(BatchedSpec):
    """Parameters. Pointers: out, a, b, operands of the epilogue.

    Scratch: one register block of sums; then a copied panel if b is not packed, or the rows of a that a chunk reads, as
    16-bit numbers, with `words`; then the sums of a chunk if `parts`.
    """

    family: ClassVar[str] = "gemm"

    bf16_dot: bool
    """An element of a and b is two bf16, neighbours along the depth; `dtype` is f32."""
    vnni: str
    """An element of a and b is four bytes, those of a `unsigned` or `signed`; `dtype` is i32. Else empty."""
    words: bool
    """Bytes of a and b are widened, and multiplied in pairs of 16-bit numbers."""
    remainders: bool
    """Some weights were split; their second terms are a list behind the last panel, as REMAINDER_HEAD says. An entry
    multiplies an element of the depth, whose number it begins with."""
    rows: tuple[int, ...]
    """The heights of register blocks, the largest first: one, or two that differ by one; or more, down to 1, where the
    number of rows is open and the argument `height` says which two there are."""
    source: str
    """How panels of b are read: `packed`; `rows`, in place unless not full; `copied`, from rows; or as `copy_panel`
    says."""
    unit_row: bool
    """The row stride of a is 1."""
    unit_depth: bool
    """The depth stride of a is 1."""
    whole_turns: bool
    """The depth is a multiple of UNROLL."""
    edge: int
    """Vectors of the last panel if it is not full, else 0."""
    grid: bool
    """There is more than one chunk."""
    prefetch_lines: int
    """The most cache lines that each turn of a register block prefetches of b."""
    parts: bool
    """The depth may be taken in parts."""

    @property
    def open_rows(self) -> bool:
        """Whether the kernel serves any number of rows."""
        return len(self.rows) > 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmArgs(BatchArgs[T]):
    """Arguments. Strides are in elements.

    Chunk number = (batch chunk * `block_chunks` + block chunk) * `panel_chunks` + panel chunk.
    """

    columns: T
    """Columns of the product."""
    depth: T
    """Elements of a row of a."""
    blocks: T
    """Register blocks that cover the rows."""
    height: T
    """Rows of a large block; the others have one less."""
    large_blocks: T
    """The first ones, which are large."""
    panels: T
    """Panels that cover the columns."""
    a_row: T
    a_depth: T
    b_depth: T
    b_column: T
    b_panel: T
    out_row: T
    batches: T
    """Products."""
    batches_per_chunk: T
    blocks_per_chunk: T
    panels_per_chunk: T
    block_chunks: T
    panel_chunks: T
    part: T
    """Elements of the depth that are taken at once."""
    panels_at_once: T
    """Panels of a chunk that are multiplied part by part, before the next ones are."""
    prefetch_lines: T
    """Cache lines that each turn prefetches, one of `shared_lines`. A kernel for a known number of rows always
    prefetches the most."""
    prefetch_ahead: T
    """Bytes from what a turn of a chunk's first block reads of b to what it prefetches."""
    epilogue_rows: tuple[T, ...]
    """Row strides of the epilogue's operands."""
    given: tuple[T, ...]
    """Bits of the numbers of the epilogue's `given` steps."""

    @classmethod
    def tuple_lengths(cls, spec: BatchedSpec) -> Lengths:
        return {**BatchArgs.tuple_lengths(spec), "epilogue_rows": len(spec.kinds), "given": spec.given}
