"""conv_pool: a direct convolution and the max pooling of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec
from treadle.plan.kernels.pool import BlockedPoolSpec, PoolArgs
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConvSpec(KernelSpec):
    """Parameters. Pointers: the result of `pool`, then those of `conv` from x on.

    No operand of the convolution's epilogue differs from row to row or from image to image.
    """

    family: ClassVar[str] = "conv_pool"

    conv: DirectConvSpec
    pool: BlockedPoolSpec
    """Reads what `conv` writes."""
    operands: int
    """How many pointers there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConvArgs(KernelArgs[T]):
    """Arguments. A chunk is a band of rows of the pooled image. Chunk number = image * `row_chunks` + band."""

    rows_per_chunk: T
    """Rows of the pooled image."""
    row_chunks: T
    """Chunks of an image."""
    planes: T
    """Blocks of output channels."""
    conv_scratch: T
    """Bytes from the start of scratch, where rows of the convolution wait, to the scratch of the convolution itself."""
    conv: DirectConvArgs[T]
    """For whole images."""
    pool: PoolArgs[T]
    """For whole images."""

    @classmethod
    def inner_kernels(cls, spec: PooledConvSpec) -> Mapping[str, tuple[type[KernelArgs[Any]], KernelSpec]]:
        return {"conv": (DirectConvArgs, spec.conv), "pool": (PoolArgs, spec.pool)}
