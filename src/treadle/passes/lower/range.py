"""Lowering of range: an arithmetic sequence."""

from __future__ import annotations

from treadle.dtypes import f32, f64, i16, i32, i64
from treadle.graph.node import Node
from treadle.ops.sizes import known_value
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.sizes import as_argument, is_argument
from treadle.plan.call import Call
from treadle.plan.kernels.range import RangeArgs, RangeSpec

_DTYPES = (i16, i32, i64, f32, f64)


def lower_range(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None unless start and delta are constants or sizes, and for dtypes that ONNX does not have."""
    y = node.output
    dtype = y.known_dtype
    known = [known_value(node.operand(index)) for index in (0, 2)]
    if dtype not in _DTYPES or known[0] is None or known[1] is None:
        return None
    numbers = [array.reshape(-1)[0] for array in known if array is not None]
    whole = all(map(is_argument, numbers))
    start, delta = (as_argument(number, whole=whole) for number in numbers)
    (units,) = y.static_shape
    ns = ctx.moved_ns(2.0 * dtype.size)
    chunks, per_chunk = ctx.partition(units, ns, ctx.target.lanes(dtype))
    args = RangeArgs(units=units, units_per_chunk=per_chunk, start=start, delta=delta)
    spec = RangeSpec(dtype=dtype, whole=whole)
    return [ctx.call(node, spec, (y,), (), args=args, chunks=chunks, cost=ctx.machine.call_ns + units * ns)]
