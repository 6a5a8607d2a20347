"""What kernels that run along one axis need of their operand."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.node import Node
from treadle.graph.shape import around, normalize_axis
from treadle.passes.lower.copy import is_movable


def parts_around_axis(node: Node) -> tuple[int, int, int] | None:
    """Returns the shape of operand 0 as (elements before the axis, its size, elements behind it).

    None for 16-bit floats and for operands that kernels cannot read.
    """
    x = node.operand(0)
    if not is_movable(x, node.output) or x.known_dtype in (dtypes.f16, dtypes.bf16):
        return None
    shape = x.static_shape
    return around(shape, normalize_axis(node.attrs["axis"], len(shape)))
