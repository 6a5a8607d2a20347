"""Interpolation tables of resized axes: constants, or written by a kernel where sizes are known at binding."""

from __future__ import annotations

import numpy as np

from treadle.dtypes import i64
from treadle.graph.dim import RealExpr, floor_int, is_expression, maximum, minimum, real_minimum
from treadle.graph.node import Node
from treadle.graph.reals import bits_of_number, bits_of_real
from treadle.graph.value import Value
from treadle.ops.resize import Resizing, table
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.kernels.interpolation import InterpolationArgs, InterpolationSpec
from treadle.records import dataclass

_POSITION_NS = 10.0


@dataclass(frozen=True, slots=True)
class Taps:
    """The tables of one axis, `indices` (i64) and `weights`, both of shape (out, taps); `calls` write them."""

    indices: Value
    weights: Value
    out: int
    taps: int
    calls: tuple[Call, ...] = ()


def taps_of(node: Node, ctx: LowerContext, found: Resizing, axis: int, name: str) -> Taps | None:
    """The tables of one axis of a linear or cubic resize; None if positions are extrapolated.

    They are constants where the sizes are numbers. A kernel writes them for expressions.
    """
    dtype, size, out = node.output.known_dtype, node.operand(0).static_shape[axis], found.sizes[axis]
    scale = found.scales[axis]
    is_open = any(map(is_expression, (size, out, scale)))
    crops = node.attrs["coordinate_mode"] == "tf_crop_and_resize"
    if not is_open or crops:
        known = table(node.attrs, node.operand(0).static_shape, found, axis)
        if known.outside.any():
            return None
        return Taps(
            ctx.constant(known.indices.astype(np.int64), f"{name}.indices"),
            ctx.constant(known.weights.astype(dtype.numpy), f"{name}.weights"),
            *known.indices.shape,
        )
    spec = InterpolationSpec(
        dtype=dtype,
        cubic=node.attrs["mode"] == "cubic",
        coordinate_mode=node.attrs["coordinate_mode"],
        exclude_outside=bool(node.attrs.get("exclude_outside", False)),
        antialias=bool(node.attrs.get("antialias", False)),
    )
    taps = _most_taps(spec, scale)
    if isinstance(scale, RealExpr):  # an axis that keeps its size is copied
        change = -floor_int(real_minimum(scale - 1, 1 - scale))
        changes = maximum(size - out, out - size) if _is_ratio(scale) else change
        taps = 1 + (taps - 1) * minimum(1, maximum(0, changes))
    indices = ctx.temporary(f"{name}.indices", i64, (out, taps))
    weights = ctx.temporary(f"{name}.weights", dtype, (out, taps))
    chunks, per_chunk = ctx.partition(out, _POSITION_NS)
    args = InterpolationArgs(
        units=out,
        units_per_chunk=per_chunk,
        size=size,
        scale=bits_of_real(scale),
        taps=taps,
        coefficient=bits_of_number(node.attrs.get("cubic_coeff", -0.75)),
    )
    call = ctx.call(
        node, spec, (indices, weights), (), args=args, chunks=chunks, cost=ctx.machine.call_ns + out * _POSITION_NS
    )
    return Taps(indices, weights, out, taps, (call,))


def _most_taps(spec: InterpolationSpec, scale: float) -> int:
    """The taps of an axis that changes by `scale`; see `ops.interpolation.axis_weights`."""
    reach = 2 if spec.cubic else 1
    if not spec.antialias:
        return 2 * reach
    return maximum(2 * reach, -2 * floor_int(-reach / real_minimum(scale, 1.0)))


def _is_ratio(scale: RealExpr) -> bool:
    """Whether `scale` is the ratio of the sizes of an axis: the sizes of the result are given, not the scales."""
    return scale.op == "div" and not any(type(arg) is RealExpr for arg in scale.args)
