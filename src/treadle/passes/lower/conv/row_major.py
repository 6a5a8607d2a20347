"""The epilogue of a convolution with a row-major result: its operands, and how the kernels read them."""

from __future__ import annotations

from treadle.graph.dim import equals
from treadle.graph.expr import Expr
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.passes.lower.expr import is_native
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class RowEpilogue:
    """The epilogue `expr`, None for none; of each of its operands after the first the `kind` (`row` if it varies along
    a row, else `one`), the value, and the elements from one image, channel and row to the next."""

    expr: Expr | None
    kinds: tuple[str, ...]
    values: tuple[Value, ...]
    strides: tuple[tuple[int, int, int], ...]


def row_epilogue(node: Node) -> RowEpilogue | None:
    """Returns the epilogue of the `conv` node; None if an operand is blocked, or has another dtype than the result."""
    out, expr = node.output, node.attrs.get("epilogue")
    dtype = out.known_dtype
    if expr is not None and (len(expr.results) != 1 or expr.dtype(expr.results[0]) != dtype or not is_native(expr)):
        return None
    values = [value for value in node.inputs[3:] if value is not None]
    if len(values) < len(node.inputs[3:]) or any(value.dtype != dtype or value.layout is not None for value in values):
        return None
    strides = [_strides(_operand_shape(value.static_shape, len(out.static_shape))) for value in values]
    return RowEpilogue(
        expr,
        tuple("row" if stride[3] else "one" for stride in strides),
        tuple(values),
        tuple((image, channel, row) for image, channel, row, _ in strides),
    )


def _operand_shape(shape: StaticShape, rank: int) -> StaticShape:
    """Returns `shape`, which broadcasts to an output of `rank` axes, with four axes; 1-D images get height 1."""
    aligned = (1,) * (rank - len(shape)) + shape
    return aligned if rank == 4 else (*aligned[:-1], 1, aligned[-1])


def _strides(shape: StaticShape) -> tuple[int, int, int, int]:
    """Returns the strides of an operand of `shape` along the output's four axes: 0 where it broadcasts."""
    strides, step = [0] * 4, 1
    for axis in (3, 2, 1, 0):
        if not equals(shape[axis], 1):
            strides[axis] = step
        step *= shape[axis]
    return strides[0], strides[1], strides[2], strides[3]
