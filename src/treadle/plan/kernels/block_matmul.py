"""block_matmul: products with packed numbers of 2, 4 or 8 bits; block_left: their left factor made ready.

The weights lie in panels of `PANEL_VECTORS` vectors of columns. A lane is a word of 32 bits: 32 / bits consecutive
numbers of a column, of which number t is at bit 8 (t % 4) + bits (t // 4). So the same bits of all bytes are four
consecutive numbers, as byte products take them, and each number can be cleared of the others by one instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from treadle.dtypes import DType, f32, i8, i16
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.plan.kernels.epilogue import EpilogueSpec

WIDTHS = (2, 4, 8)
"""Bits of a number."""

BLOCK_MULTIPLE = 16
"""Blocks hold a multiple of this many numbers."""

LARGEST = 127
"""What the largest number of a block of the left factor is rounded to where that is rounded."""

PANEL_VECTORS = 2
"""Vectors of columns in a panel."""

Left: TypeAlias = Literal["real", "bytes", "words"]
"""What the left factor is multiplied as: f32, each number divided by the power of two that clearing the bits of its
weight in place multiplies that with; or rounded numbers, of 8 bits, or of 16 bits as pairs of every other one."""

Unpacks: TypeAlias = Literal["never", "always", "by_rows"]
"""Whether panels are unpacked to scratch before real numbers are multiplied, instead of in registers by each register
block: `by_rows` is if there are UNPACKED_BLOCKS register blocks or more."""

UNPACKED_BLOCKS = 4
"""Register blocks of rows from which on unpacking a panel to memory takes less time than unpacking it for each of them
(a vector of weights takes twice the instructions to unpack to memory)."""

LEFT_DTYPES: dict[str, DType] = {"real": f32, "bytes": i8, "words": i16}


def word_numbers(bits: int) -> int:
    """Numbers in a word of 32 bits."""
    return 32 // bits


def bit_of(number: int, bits: int) -> int:
    """The lowest bit of number `number` of a word."""
    return 8 * (number % 4) + bits * (number // 4)


def left_factor(number: int, bits: int) -> float:
    """What undoes the place of number `number` of a word, which is cleared of the others in place; the one at the top,
    whose bits include the sign, is shifted instead."""
    bit = bit_of(number, bits)
    return 1.0 if bit + bits == 32 else 2.0**-bit


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMatmulSpec(EpilogueSpec):
    """Parameters. Pointers: out, left, left scales f32[rows, 2, blocks] as `BlockLeftSpec` makes them, weights [panels,
    blocks, words of a block, columns of a panel], scales f32[panels, blocks, columns of a panel], zeros likewise unless
    absent, operands of the epilogue. Scratch: one register block, then an unpacked panel if there may be one."""

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
    sums: int
    """Independent sums that one row times a panel has at least: more hide the latency of a multiplication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMatmulArgs(KernelArgs[T]):
    """Arguments. A unit is a register block; units go down the rows of a panel, then to the next panel."""

    columns: T
    depth_blocks: T
    """Blocks that cover the depth."""
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
