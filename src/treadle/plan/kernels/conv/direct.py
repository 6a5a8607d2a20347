"""conv: direct convolution into the blocked layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from treadle.dtypes import DType, bf16
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, Lengths, NoArgs, T
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.rows import ConvRowsSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConvSpec(ConvRowsSpec):
    """Parameters. Pointers: out, x, packed weights, bias (if `bias`), padding (if `padded`), remainders of weights (if
    `remainders`), operands of the epilogue, the constant to prefetch (if `prefetches_constant`).

    An element of x and of the weights is one channel, two with `bf16_dot` (in a row-major x: two columns) and `words`,
    four with `vnni`. Numbers of channels and strides of x count elements; in a row-major x, where `bf16_dot` reads two
    columns at once, they count single bf16.
    """

    family: ClassVar[str] = "conv"

    bf16_dot: bool
    """x is bf16, multiplied by bf16 dot products; `dtype` is f32."""
    vnni: str
    """`unsigned` or `signed`, the bytes of x, multiplied by VNNI dot products; `dtype` is i32. Else empty."""
    words: bool
    """x is i16, multiplied in pairs; `dtype` is i32."""
    padded: bool
    """What lies outside the input is read from a row of padding instead of left out."""
    remainders: bool
    """Some weights were split; their second terms are a list, as REMAINDER_HEAD says. An entry multiplies an element
    of a block of input channels and a row and a column of the kernel, whose four numbers it begins with."""
    vectors: int
    """Vectors of output channels in a register block."""
    last_lanes: int
    """Lanes of the last vector that are computed; the others are 0."""
    in_runs: bool
    """Rows are divided at run time into runs of pixels with the same kernel columns inside the input. `segments` have
    the sizes of blocks, the last one is one pixel; there are no spans."""
    flat: bool
    """The kernel is 1x1 and reads every pixel: an image is one long row."""
    plain_input: bool
    """x is row-major."""
    unroll: int
    """Elements of channels in a turn of the innermost loop."""
    prefetch_lines: int
    """Cache lines of the next group's weights that each turn prefetches."""
    prefetches_constant: bool
    """Each turn of a flat convolution prefetches a part of a constant that a later call reads."""
    passes: bool
    """Sums over the first channels wait in `out` until the others are added."""

    @property
    def columns(self) -> int:
        """Products that a row of the kernel takes: one a column, or one for two columns."""
        width = self.kernel[1]
        return -(-width // 2) if self.bf16_dot and self.plain_input else width

    @property
    def input_dtype(self) -> DType:
        """The dtype that offsets in x count."""
        return bf16 if self.bf16_dot and self.plain_input else self.dtype

    @property
    def padding_pointer(self) -> int:
        """Number of the padding's pointer."""
        return BIAS_POINTER + self.bias

    @property
    def remainders_pointer(self) -> int:
        """Number of the pointer of the remainders."""
        return self.padding_pointer + self.padded

    @property
    def epilogue_pointer(self) -> int:
        """Number of the pointer of the epilogue's first operand."""
        return self.remainders_pointer + self.remainders

    @property
    def prefetch_pointer(self) -> int:
        """Number of the pointer of the constant to prefetch."""
        return self.epilogue_pointer + len(self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchArgs(KernelArgs[T]):
    """How much of a constant is prefetched meanwhile."""

    channel_bytes: T
    """Bytes for each element of channels of each block."""
    turn_lines: T
    """Cache lines in each turn of the innermost loop, which is `unroll` elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConvArgs(KernelArgs[T]):
    """Arguments. Chunk number = group chunk * `unit_chunks` + unit chunk. Strides are in elements."""

    images: T
    units: T
    """Rows of an image; of a flat convolution, its register blocks."""
    units_per_chunk: T
    """Counted over all images."""
    unit_chunks: T
    groups: T
    """Groups of `vectors` vectors of output channels."""
    groups_per_chunk: T
    channels: T
    """Input channels that one output reads."""
    channels_per_pass: T
    """A multiple of the channels of a block of x."""
    groups_per_set: T
    """Groups that read the same input channels."""
    x_set: T
    """From the channels that one set of groups reads to those of the next."""
    x_image: T
    x_channel: T
    """From one block of channels to the next; in a row-major x from one channel to the next."""
    x_row: T
    x_height: T
    """Rows."""
    pad_top: T
    """Rows."""
    out_image: T
    out_block: T
    out_row: T
    outputs: T
    """Output channels without those that fill up the last vector."""
    spans: tuple[tuple[T, T], ...]
    """The first pixel of each segment, and its number of register blocks."""
    prefetch: PrefetchArgs[T] | NoArgs[T]
    """`NoArgs` unless the spec has `prefetches_constant`."""

    @classmethod
    def tuple_lengths(cls, spec: DirectConvSpec) -> Lengths:
        return spec.span_lengths

    @classmethod
    def inner_kernels(cls, spec: DirectConvSpec) -> Mapping[str, tuple[type[KernelArgs[Any]], KernelSpec]]:
        return {"prefetch": (PrefetchArgs if spec.prefetches_constant else NoArgs, spec)}
