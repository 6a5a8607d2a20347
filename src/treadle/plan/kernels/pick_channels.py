"""pick_channels: blocks of channels joined from lanes of others."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from treadle.dtypes import DType
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, T
from treadle.records import dataclass

Picks: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each channel of the result, the number of an operand and a channel of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickChannelsSpec(KernelSpec):
    """Parameters. Pointers: out, operands; all are Blocked(lanes)."""

    family: ClassVar[str] = "pick_channels"

    dtype: DType
    lanes: int
    picks: Picks
    operands: int
    """How many operands there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickChannelsArgs(KernelArgs[T]):
    """Arguments."""

    units: T
    """Pixels of all images."""
    units_per_chunk: T
    pixels: T
    """Pixels of an image."""
    blocks: tuple[T, ...]
    """Blocks of channels of each operand."""

    @classmethod
    def tuple_lengths(cls, spec: PickChannelsSpec) -> Lengths:
        return {"blocks": spec.operands}
