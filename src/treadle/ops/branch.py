"""branch: one of two bodies, as a condition says."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape, elements, text
from treadle.ops.bodies import infer_body, run_body
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present


def infer_branch(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """The condition, a bool of one element, then the operands of both bodies; each body has an input for each.

    attrs: yes and no (graphs). A result has a shape where both bodies give it the same one.
    """
    condition = operand(inputs, 0, "condition")
    if condition.dtype != dtypes.boolean or elements(dims(condition)) != 1:
        raise ShapeError(f"the condition must be a bool of one element, got {condition.dtype}{text(dims(condition))}")
    if condition.value is not None:
        return infer_body(taken_body(attrs, condition.value), inputs[1:])
    yes, no = infer_body(attrs["yes"], inputs[1:]), infer_body(attrs["no"], inputs[1:])
    if any(one.dtype != other.dtype for one, other in zip(yes, no, strict=True)):
        raise ShapeError("its bodies give results of different dtypes")
    return [
        Info(one.dtype, one.shape if _is_same(one.shape, other.shape) else None)
        for one, other in zip(yes, no, strict=True)
    ]


def _is_same(one: StaticShape | None, other: StaticShape | None) -> bool:
    if one is None or other is None or len(one) != len(other):
        return False
    return all(equals(size, same) for size, same in zip(one, other, strict=True))


def evaluate_branch(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    operands = [present(arrays, index) for index in range(1, len(arrays))]
    return run_body(taken_body(attrs, present(arrays, 0)), operands)


def taken_body(attrs: Attrs, condition: Array) -> Graph:
    """The body that runs if the condition has this one element."""
    body: Graph = attrs["yes" if condition.reshape(-1)[0] else "no"]
    return body
