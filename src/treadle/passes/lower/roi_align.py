"""roi_align."""

from __future__ import annotations

from treadle.dtypes import f32, f64, i64
from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.gather import INDEX_DTYPES
from treadle.plan.call import Call
from treadle.plan.kernels.roi_align import RoiAlignArgs, RoiAlignSpec

_USUAL_SAMPLES = 2
"""Samples along an axis of a bin where regions decide."""

_SAMPLE_NS = 10.0
"""Estimated time of finding the pixels of a sample."""


def lower_roi_align(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for other dtypes."""
    x, regions, images, y = (*(node.operand(index) for index in range(3)), node.output)
    if x.known_dtype not in (f32, f64) or images.known_dtype not in INDEX_DTYPES:
        return None
    number, height, width, channels = x.static_shape
    count, rows, columns, _ = y.static_shape
    samples = node.attrs["samples"] or _USUAL_SAMPLES
    units = count * rows if not equals(channels, 0) else 0
    pixels = 4.0 * samples * samples * channels * x.known_dtype.size
    unit_ns = columns * (samples * samples * _SAMPLE_NS + ctx.moved_ns(pixels))
    chunks, per_chunk = ctx.partition(units, unit_ns)
    spec = RoiAlignSpec(
        dtype=x.known_dtype,
        wide=images.known_dtype == i64,
        largest=node.attrs["largest"],
        half_pixel=node.attrs["half_pixel"],
        samples=node.attrs["samples"],
        scale=float(node.attrs["scale"]),
    )
    args = RoiAlignArgs(
        units=units,
        units_per_chunk=per_chunk,
        images=number,
        height=height,
        width=width,
        channels=channels,
        rows=rows,
        columns=columns,
    )
    traffic = nbytes(y) + nbytes(x)
    reads = (x, regions, images)
    return [
        ctx.call(
            node,
            spec,
            (y,),
            reads,
            args=args,
            chunks=chunks,
            traffic=traffic,
            cost=ctx.machine.call_ns + units * unit_ns,
        )
    ]
