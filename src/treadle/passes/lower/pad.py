"""pad: a lookup with a table an axis, in every mode."""

from __future__ import annotations

import numpy as np

from treadle.graph.dim import equals
from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.ops.pad import pad, resolved
from treadle.ops.sizes import known_sizes
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.lookup import Table, lookup_call
from treadle.passes.lower.places import Places, open_lookup_calls
from treadle.plan.call import Call
from treadle.plan.kernels.lookup import OUTSIDE


def lower_pad(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel, and one for each table of open sizes; None unless pads and axes are constants or sizes, or if padded
    channels are blocked."""
    x, y = node.operand(0), node.output
    pads, axes = known_sizes(node.operand(1)), node.inputs[3] if len(node.inputs) > 3 else None
    over, shape, mode = known_sizes(axes), x.static_shape, node.attrs["mode"]
    if pads is None or (axes is not None and over is None) or x.layout != y.layout or not shape:
        return None
    widths = resolved(shape, pads, over)
    if x.known_dtype.kind == "string" or (x.layout is not None and not is_kept(*widths[1])):
        return None
    if is_open((*shape, *pads)):
        padded = zip(physical_shape(shape, x.layout), widths, strict=False)
        places = [None if is_kept(*width) else Places.padded(dim, *width, mode) for dim, width in padded]
        return open_lookup_calls(node, ctx, _fill(node, ctx), places)
    tables = [_table(dim, *width, mode) for dim, width in zip(shape, widths, strict=True)]
    if x.layout is not None:
        tables[1] = np.arange(x.layout.physical(shape)[1])
    return [lookup_call(node, ctx, _fill(node, ctx), tables, 1 if x.layout is None else x.layout.block)]


def is_kept(begin: int, end: int) -> bool:
    """Whether an axis with these pads is copied whole, whatever the sizes."""
    return equals(begin, 0) and equals(end, 0)


def _table(size: int, begin: int, end: int, mode: str) -> Table:
    """For each index of a padded axis the index in x that it copies."""
    return pad(np.arange(size, dtype=np.int64), [(begin, end)], mode, OUTSIDE)


def _fill(node: Node, ctx: LowerContext) -> Value:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is not None:
        return value
    return ctx.constant(np.zeros(1, node.output.known_dtype.numpy), f"{node.output.name}.fill")
