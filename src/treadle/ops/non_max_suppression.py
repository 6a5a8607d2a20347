"""non_max_suppression: the boxes with the highest scores of which no two overlap much."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.dim import minimum
from treadle.graph.shape import elements, text
from treadle.ops.counted import with_room
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present, rank_at_least, result

_F32 = np.float32


def infer_non_max_suppression(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """boxes (f32 [batch, n, 4]), scores (f32 [batch, classes, n]), most (i64), overlap and least score (f32), of one
    element each -> found (i64 [most rows, 3]: batch, class, box), how many are found (i64 [1]).

    attrs: center (whether a box is its centre, width and height instead of two corners, each y first). Of each class at
    most `most` boxes are found, with scores above the least one, highest first, of equal ones the first. `counted`
    along axis 0 takes both results.
    """
    boxes, scores = rank_at_least(operand(inputs, 0, "boxes"), 3, "boxes"), dims(operand(inputs, 1, "scores"))
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or boxes[0] != scores[0] or boxes[1] != scores[2]:
        raise ShapeError(
            f"boxes must have shape [batch, n, 4] and scores [batch, classes, n], got {text(boxes)} and {text(scores)}"
        )
    for index, name, dtype in (
        (0, "boxes", dtypes.f32), (1, "scores", dtypes.f32), (2, "most", dtypes.i64),
        (3, "overlap", dtypes.f32), (4, "least score", dtypes.f32),
    ):  # fmt: skip
        each = operand(inputs, index, name)
        if each.dtype != dtype or (index > 1 and elements(dims(each)) != 1):
            raise ShapeError(f"{name} must be {'one ' if index > 1 else ''}{dtype}, got {each.dtype}{text(dims(each))}")
    rows = scores[0] * scores[1] * most_of_class(inputs[2], boxes[1])
    return [result(dtypes.i64, (rows, 3)), result(dtypes.i64, (1,))]


def most_of_class(most: Info | None, boxes: int) -> int:
    """How many of `boxes` boxes may be found in one class, as far as it is known."""
    if most is None or most.value is None:
        return boxes
    (number,) = most.value.reshape(-1).tolist()
    return minimum(max(number, 0), boxes) if isinstance(number, int) else boxes


def evaluate_non_max_suppression(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    boxes, scores = present(arrays, 0), present(arrays, 1)
    most, overlap, least = (present(arrays, index).reshape(-1)[0] for index in (2, 3, 4))
    lows, highs = _corners(boxes, center=attrs["center"])
    found = [
        (batch, label, box)
        for batch in range(scores.shape[0])
        for label in range(scores.shape[1])
        for box in _kept(scores[batch, label], lows[batch], highs[batch], int(most), overlap, least)
    ]
    batches, labels, count = scores.shape
    room = batches * labels * min(max(int(most), 0), count)
    return with_room(np.array(found, np.int64).reshape(-1, 3), 0, room)


def _corners(boxes: Array, *, center: bool) -> tuple[Array, Array]:
    first, second = boxes[..., :2], boxes[..., 2:]
    if center:
        return first - second / _F32(2), first + second / _F32(2)
    return np.minimum(first, second), np.maximum(first, second)


def _kept(scores: Array, lows: Array, highs: Array, most: int, overlap: Array, least: Array) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    sizes = highs - lows
    areas = sizes[:, 0] * sizes[:, 1]
    for box in order[scores[order] > least].tolist():
        if len(kept) >= most:
            break
        shared = np.minimum(highs[kept], highs[box]) - np.maximum(lows[kept], lows[box])
        both = np.where((shared > 0).all(axis=-1), shared[:, 0] * shared[:, 1], _F32(0))
        union = areas[kept] + areas[box] - both
        meets = (both > 0) & (areas[kept] > 0) & (areas[box] > 0) & (union > 0)
        with np.errstate(all="ignore"):
            if not (meets & (both / union > overlap)).any():
                kept.append(box)
    return kept
