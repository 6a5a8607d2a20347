"""Sorting, and membership in the k largest."""

from __future__ import annotations

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.kinds import Same, Value
from treadle.frontends.tensorflow.rules.math import is_finite


def _ordered(e: Emitter, values: Value, axis: int, direction: str) -> list[Value]:
    """Return the elements along the axis in order, and their indices. Equal elements keep their order."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"wanted direction 'ASCENDING' or 'DESCENDING', got {direction!r}")
    at = e.axis(values, int(axis))
    operands = [values, e.integers([e.shape(values)[at]])]
    return e.add_many("top_k", operands, 2, axis=at, largest=direction == "DESCENDING", sorted=True)


def sort(e: Emitter, values: Same, axis: int = -1, direction: str = "ASCENDING") -> Value:
    """Return the elements along the axis in order."""
    return _ordered(e, values, axis, direction)[0]


def argsort(e: Emitter, values: Same, axis: int = -1, direction: str = "ASCENDING", stable: bool = False) -> Value:
    """Return the indices of the elements in order (int32)."""
    return e.cast(_ordered(e, values, axis, direction)[1], dtypes.i32)


def in_top_k(e: Emitter, targets: Value, predictions: Same, k: int) -> Value:
    """Return whether predictions[b, targets[b]] is among the k largest of its row.

    It is not for a target out of range, nor in a row with infinities or NaN. Raises ValueError for other ranks,
    lengths, and rows without elements.
    """
    shape = e.shape(predictions)
    if len(shape) != 2 or e.shape(targets) != shape[:1] or not shape[1]:
        raise ValueError(f"in_top_k: wanted targets [b] and predictions [b, n], got {e.shape(targets)} and {shape}")
    ends = e.scalar(0, targets), e.sizes(shape[1], targets.known_dtype)
    in_range = e.add("and", e.add("ge", targets, ends[0]), e.add("lt", targets, ends[1]))
    positions = e.add("unsqueeze", e.add("where", in_range, targets, ends[0]), e.integers([1]))
    chosen = e.add("gather_elements", predictions, positions, axis=1)
    not_finite = e.cast(e.add("not", is_finite(e, predictions)), dtypes.i32)
    all_finite = e.add("eq", e.add("reduce_sum", not_finite, axes=(1,), keepdims=False), e.scalar(0, not_finite))
    above = e.cast(e.add("gt", predictions, chosen), dtypes.i32)
    count = e.add("reduce_sum", above, axes=(1,), keepdims=False)
    return e.add("and", e.add("and", in_range, all_finite), e.add("lt", count, e.scalar(int(k), count)))
