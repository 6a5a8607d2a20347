"""pad: a lookup with a table an axis, in every mode."""

from __future__ import annotations

import numpy as np

from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import numbers
from treadle.ops.pad import pad, resolved
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.lookup import Table, lookup_call
from treadle.plan.call import Call
from treadle.plan.kernels.lookup import OUTSIDE


def lower_pad(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None unless pads and axes are constants, or if padded channels are blocked."""
    x, y = node.operand(0), node.output
    pads, axes = node.operand(1), node.inputs[3] if len(node.inputs) > 3 else None
    shape = x.static_shape
    if not pads.is_constant or (axes is not None and not axes.is_constant) or x.layout != y.layout or not shape:
        return None
    assert pads.data is not None
    over = None if axes is None or axes.data is None else numbers(axes.data)
    widths = resolved(shape, numbers(pads.data), over)
    if x.known_dtype.kind == "string" or (x.layout is not None and widths[1] != (0, 0)):
        return None
    tables = [_table(dim, *width, node.attrs["mode"]) for dim, width in zip(shape, widths, strict=True)]
    if x.layout is not None:
        tables[1] = np.arange(x.layout.physical(shape)[1])
    return [lookup_call(node, ctx, _fill(node, ctx), tables, 1 if x.layout is None else x.layout.block)]


def _table(size: int, begin: int, end: int, mode: str) -> Table:
    """For each index of a padded axis the index in x that it copies."""
    return pad(np.arange(size, dtype=np.int64), [(begin, end)], mode, OUTSIDE)


def _fill(node: Node, ctx: LowerContext) -> Value:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is not None:
        return value
    return ctx.constant(np.zeros(1, node.output.known_dtype.numpy), f"{node.output.name}.fill")
