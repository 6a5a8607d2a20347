"""max_pool and avg_pool over one or two spatial axes, in row-major and blocked memory."""

from __future__ import annotations

from dataclasses import replace

from treadle.dtypes import bf16, f32, f64
from treadle.graph.dim import at_most, ceil_div, is_expression, maximum, minimum, real_maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.pool import BlockedPoolSpec, PlainPoolSpec, PoolArgs, PoolSpec
from treadle.records import dataclass

MAX_UNROLLED_WIDTH = 8
"""A window up to this wide is unrolled; the width of a wider one is an argument."""

MOST_UNCROPPED = 32
"""A window up to this wide is taken as it is, also where some of its taps are in pads for every output."""

_TAP_WORK, _PIXEL_WORK = 1.2, 3.0
"""How many multiply-adds take as long as an element of a window, and as the rest of a pixel, for a vector."""

SEGMENT = 1024
"""Outputs of a row-major row that are computed at once: the columns of their windows fit in L1."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of the windows of a pooling or a convolution."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def reach(self) -> int:
        """Elements from the first that a window reads to the last, both included."""
        return (self.kernel - 1) * self.dilation + 1

    def cropped(self) -> Axis:
        """Returns the axis without the taps that lie outside the input for every output. One tap is left at least.

        A window that is far larger than its input would spend its time on taps in pads. A window whose size is an
        expression is as large as its input, and is not cropped.
        """
        if is_expression(self.kernel) or self.kernel <= MOST_UNCROPPED:
            return self
        first = maximum(0, ceil_div(self.begin - (self.out - 1) * self.stride, self.dilation))
        first = minimum(first, self.kernel - 1)
        last = minimum(self.kernel - 1, (self.begin + self.size - 1) // self.dilation)
        return replace(self, kernel=maximum(1, last - first + 1), begin=self.begin - first * self.dilation)

    def interior(self) -> tuple[int, int]:
        """Returns the half-open range of outputs whose windows lie inside the input; it may be empty."""
        low = minimum(ceil_div(self.begin, self.stride), self.out)
        high = (self.size - self.reach + self.begin) // self.stride + 1
        return low, minimum(maximum(high, low), self.out)


_POINT = Axis(1, 1, 1, 1, 1, 0, 0)


def lower_max_pool(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call; None for dtypes other than f32, f64 and blocked bf16, and for three spatial axes."""
    return _lower(node, ctx, "max")


def lower_avg_pool(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call; None for dtypes other than f32, f64 and blocked bf16, and for three spatial axes."""
    return _lower(node, ctx, "avg")


def axes_of(node: Node) -> tuple[Axis, Axis]:
    """Returns the vertical and the horizontal axis of a pooling node. A single spatial axis is the horizontal one."""
    spatial, out = node.operand(0).static_shape[2:], node.output.static_shape[2:]
    attrs, rank = node.attrs, len(spatial)
    numbers = zip(
        spatial, out, attrs["kernel"], attrs["strides"], attrs["dilations"],
        attrs["pads"][:rank], attrs["pads"][rank:], strict=True,
    )  # fmt: skip
    axes = [Axis(*axis) for axis in numbers]
    return (axes[0], axes[1]) if rank == 2 else (_POINT, axes[0])


def _lower(node: Node, ctx: LowerContext, kind: str) -> list[Call] | None:
    x, y = node.operand(0), node.output
    shape = x.static_shape
    halves = bf16 in (x.dtype, y.dtype)
    dtype = f32 if halves else x.known_dtype
    if dtype not in (f32, f64) or len(shape) not in (3, 4) or x.layout != y.layout or (halves and x.layout is None):
        return None
    if kind == "max" and x.dtype == y.dtype == bf16:
        dtype = bf16
    counted = int(node.attrs.get("count_include_pad", False))
    vertical, across = axes_of(node)
    if not counted:
        vertical, across = vertical.cropped(), across.cropped()
    width = across.kernel if at_most(across.kernel, MAX_UNROLLED_WIDTH) else 0
    lanes = ctx.target.lanes(dtype)
    scratch = 0
    if x.layout is not None:
        planes, block = elements(x.layout.physical(shape)[:2]), x.layout.block
        tile = 4 if ctx.target.registers >= 32 and block <= lanes else 2
        spec: PoolSpec = BlockedPoolSpec(
            kind=kind,
            dtype=dtype,
            kernel_width=width,
            stride_width=across.stride,
            dilation_width=across.dilation,
            source=x.known_dtype,
            result=y.known_dtype,
            block=block,
            tile=tile,
        )
        units, segment = planes * vertical.out, across.out
        vectors = across.out * maximum(1, block // lanes)
    else:
        spec = PlainPoolSpec(
            kind=kind,
            dtype=dtype,
            kernel_width=width,
            stride_width=across.stride,
            dilation_width=across.dilation,
        )
        segment = maximum(minimum(across.out, SEGMENT), 1)
        units = elements(shape[:2]) * vertical.out * ceil_div(across.out, segment)
        scratch = (ceil_div(segment, lanes) * lanes * across.stride + across.reach - 1 + 2 * lanes) * dtype.size
        vectors = 2 * ceil_div(segment, lanes)
    taps = 1.0 * vertical.kernel * across.kernel
    unit_ns = vectors * ctx.machine.fma_ns * (_TAP_WORK * taps + _PIXEL_WORK)
    chunks, per_chunk = ctx.partition(units, unit_ns)
    low, high = across.interior()
    args = PoolArgs(
        units=units,
        units_per_chunk=per_chunk,
        out_height=maximum(vertical.out, 1),
        out_width=maximum(across.out, 1),
        height=vertical.size,
        width=across.size,
        kernel_height=vertical.kernel,
        stride_height=vertical.stride,
        dilation_height=vertical.dilation,
        pad_top=vertical.begin,
        pad_left=across.begin,
        low=low,
        high=high,
        kernel_width=across.kernel,
        segment=maximum(segment, 1),
        counted_height=vertical.size + counted * (vertical.begin + vertical.end),
        counted_width=across.size + counted * (across.begin + across.end),
        counted_top=counted * vertical.begin,
        counted_left=counted * across.begin,
    )
    flops = elements(y.static_shape) * taps
    traffic = nbytes(x) + nbytes(y)
    cost = ctx.machine.call_ns + real_maximum(units * unit_ns, ctx.moved_ns(traffic))
    return [
        ctx.call(
            node, spec, (y,), (x,), args=args, chunks=chunks, flops=flops, traffic=traffic, cost=cost, scratch=scratch
        )
    ]
