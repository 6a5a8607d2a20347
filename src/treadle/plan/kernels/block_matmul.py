"""block_matmul: products with packed numbers of 2, 4 or 8 bits; block_left: their left factor made ready.

The weights lie in panels of `PANEL_VECTORS` vectors of columns. A lane is a word of 32 bits: 32 / bits consecutive
numbers of a column, of which number t is at bit 8 (t % 4) + bits (t // 4). So the same bits of all bytes are four
consecutive numbers, as byte products take them, and each number can be cleared of the others by one instruction.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from treadle.dtypes import DType, f32, i8, i16
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.plan.kernels.epilogue import EpilogueSpec
from treadle.records import dataclass

WIDTHS = (2, 4, 8)
"""Bits of a number."""

BLOCK_MULTIPLE = 16
"""Blocks hold a multiple of this many numbers."""

LARGEST = 127
"""What the largest number of a block of the left factor is rounded to where that is rounded."""

PANEL_VECTORS = 2
"""Vectors of columns in a panel."""

Left: TypeAlias = Literal["real", "bytes", "words"]
"""How the left factor is stored. `real`: as f32, times the `left_factor` of its weight, whose bits the kernel reads
where they lie in the word. `bytes`: rounded to 8 bits. `words`: rounded to 8 bits, stored as 16:
of every four numbers the pair 0 and 2, then the pair 1 and 3."""

Unpacks: TypeAlias = Literal["never", "always", "by_rows"]
"""Whether panels are unpacked to scratch before real numbers are multiplied, instead of in registers by each register
block: `by_rows` is if there are UNPACKED_BLOCKS register blocks or more."""

UNPACKED_BLOCKS = 4
"""From this many register blocks of rows on, a panel is unpacked once to memory, and not in registers by each block:
unpacking a vector of weights to memory takes twice the instructions."""

LEFT_DTYPES: dict[str, DType] = {"real": f32, "bytes": i8, "words": i16}


def word_numbers(bits: int) -> int:
    """Numbers in a word of 32 bits."""
    return 32 // bits


def bit_of(number: int, bits: int) -> int:
    """The lowest bit of number `number` of a word."""
    return 8 * (number % 4) + bits * (number // 4)


def left_factor(number: int, bits: int) -> float:
    """The factor that undoes the place of number `number` in its word.

    The kernel masks the number where it lies, so that it is a power of two too large. It shifts only the topmost one,
    whose bits include the sign.
    """
    bit = bit_of(number, bits)
    return 1.0 if bit + bits == 32 else 2.0**-bit


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMatmulSpec(EpilogueSpec):
    """Parameters. Pointers: out, left, left scales f32[rows, 2, blocks] as `BlockLeftSpec` makes them unless the left
    factor is read in place, weights [panels, blocks, words of a block, columns of a panel], scales f32[panels, blocks,
    columns of a panel], zeros likewise unless absent, operands of the epilogue. Scratch: one register block; if a panel
    may be unpacked, a part of it, then the sums of a chunk's blocks between parts of the depth."""

    family: ClassVar[str] = "block_matmul"

    bits: int
    block: int
    """Numbers that share a scale."""
    left: Left
    zeros: str
    """Dtype of zeros: `u8`, `f32`; empty for 2 ** (bits - 1)."""
    rows: tuple[int, ...]
    """The heights of register blocks, as in `GemmSpec`."""
    unpacks: Unpacks
    whole_turns: bool
    """Unpacked parts of panels are a multiple of `UNROLL` rows deep."""
    sums: int
    """Independent sums that one row times a panel has at least: more hide the latency of a multiplication."""

    @property
    def left_in_place(self) -> bool:
        """The left factor is f32[rows, depth] as it is given: no weight is read where it lies in its word."""
        return self.unpacks == "always"

    @property
    def weights_pointer(self) -> int:
        """Number of the pointer of the weights."""
        return 2 if self.left_in_place else 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMatmulArgs(KernelArgs[T]):
    """Arguments. A unit is a register block; units go down the rows of a panel, then to the next panel."""

    columns: T
    depth: T
    """Numbers of a row of the left factor as it is given."""
    depth_blocks: T
    """Blocks that cover the depth."""
    part_blocks: T
    """Blocks of the depth that are unpacked at once."""
    blocks: T
    """Register blocks that cover the rows."""
    height: T
    large_blocks: T
    units: T
    units_per_chunk: T
    epilogue_rows: tuple[T, ...]
    """Row strides of the epilogue's operands."""

    @classmethod
    def tuple_lengths(cls, spec: BlockMatmulSpec) -> dict[str, int | tuple[int, int]]:
        return {"epilogue_rows": len(spec.kinds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLeftSpec(KernelSpec):
    """Parameters. Pointers: left [rows, blocks * block], left scales f32[rows, 2, blocks] (the scale of each block,
    unused where left is real; then the sum of its numbers), a f32[rows, depth]."""

    family: ClassVar[str] = "block_left"

    bits: int
    block: int
    left: Left


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLeftArgs(KernelArgs[T]):
    """Arguments. A unit is a row."""

    units: T
    units_per_chunk: T
    depth: T
    depth_blocks: T
