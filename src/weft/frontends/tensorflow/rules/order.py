"""Tensors in order, and what belongs to the largest."""

from __future__ import annotations

from weft import dtypes
from weft.frontends.tensorflow.emitter import Emitter
from weft.frontends.tensorflow.rules.kinds import Same, Value


def _ordered(e: Emitter, values: Value, axis: int, direction: str) -> list[Value]:
    """The elements along the axis in order, and where they were; equal ones in the order of their places."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"wanted direction 'ASCENDING' or 'DESCENDING', got {direction!r}")
    at = e.axis(values, int(axis))
    operands = [values, e.integers([e.shape(values)[at]])]
    return e.add_many("top_k", operands, 2, axis=at, largest=direction == "DESCENDING", sorted=True)


def sort(e: Emitter, values: Same, axis: int = -1, direction: str = "ASCENDING") -> Value:
    return _ordered(e, values, axis, direction)[0]


def argsort(e: Emitter, values: Same, axis: int = -1, direction: str = "ASCENDING", stable: bool = False) -> Value:
    """Where the elements in order are (int32)."""
    return e.cast(_ordered(e, values, axis, direction)[1], dtypes.i32)


def in_top_k(e: Emitter, targets: Value, predictions: Same, k: int) -> Value:
    """Whether predictions[b, targets[b]] is among the k largest of its row."""
    places = e.add("unsqueeze", targets, e.integers([1]))
    chosen = e.add("gather_elements", predictions, places, axis=1)
    above = e.cast(e.add("gt", predictions, chosen), dtypes.i32)
    count = e.add("reduce_sum", above, axes=(1,), keepdims=False)
    return e.add("lt", count, e.scalar(int(k), count))
