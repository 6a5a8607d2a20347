"""NonMaxSuppression: the boxes with the highest scores of which no two overlap much."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.kinds import Value

_LEAST = float(np.finfo(np.float32).min)
"""No score is lower."""


def non_max_suppression(
    e: Emitter,
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    overlap: float = 0.5,
) -> Value:
    """Return the indices of boxes [n, 4], at most `max_output_size`; `overlap` is the threshold where none is given.

    Raises ValueError for other shapes.
    """
    return _found(e, boxes, scores, max_output_size, [iou_threshold, score_threshold], overlap)[0]


def chosen(
    e: Emitter,
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
) -> Value:
    """Return the indices of boxes [n, 4], at most `max_output_size`, as int32: those with the highest scores first.

    Raises ValueError for other shapes.
    """
    least = e.constant(np.array(max(score_threshold, _LEAST), np.float32))
    return _found(e, boxes, scores, max_output_size, [None, least], float(iou_threshold))[0]


def padded(
    e: Emitter,
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    """Return what non_max_suppression() does, with zeros behind it if it is to be padded, and how many are found."""
    found, count = _found(e, boxes, scores, max_output_size, [iou_threshold, score_threshold])
    return [_padded(e, found, max_output_size) if pad_to_max_output_size else found, count]


def with_scores(
    e: Emitter,
    boxes: Value,
    scores: Value,
    max_output_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    soft_nms_sigma: Value,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    """Return what padded() does, with the scores between both. Raises ValueError if scores are to be lowered."""
    if np.any(e.static(soft_nms_sigma)):
        raise ValueError("wanted soft_nms_sigma = 0: scores of boxes that overlap are not lowered")
    found, count = _found(e, boxes, scores, max_output_size, [iou_threshold, score_threshold])
    kept = e.add("gather", scores, found, axis=0)
    if pad_to_max_output_size:
        found, kept = (_padded(e, value, max_output_size) for value in (found, kept))
    return [found, e.described(kept, lambda: (None,)), count]


def _found(
    e: Emitter, boxes: Value, scores: Value, most: Value, thresholds: list[Value | None], overlap: float = 0.5
) -> list[Value]:
    """The indices of the boxes that are found, and how many these are, as int32."""
    (count, four), wanted = e.shape(boxes), e.shape(scores)
    if four != 4 or wanted != (count,):
        raise ValueError(f"wanted boxes [n, 4] and scores [n], got {list(e.shape(boxes))} and {list(wanted)}")
    presets = (overlap, _LEAST)
    limits = [
        e.constant(np.array(preset, np.float32)) if value is None else e.cast(value, dtypes.f32)
        for value, preset in zip(thresholds, presets, strict=True)
    ]
    operands = [
        e.reshape(e.cast(boxes, dtypes.f32), [1, count, 4]),
        e.reshape(e.cast(scores, dtypes.f32), [1, 1, count]),
        e.cast(most, dtypes.i64),
        *limits,
    ]
    rows, number = e.add_many("non_max_suppression", operands, 2, center=False)
    kept = e.add("counted", rows, number, axis=0, label="non_max_suppression")
    found = e.cast(e.add("gather", kept, e.constant(np.array(2)), axis=1), dtypes.i32)
    return [e.described(found, lambda: (None,)), e.cast(e.reshape(number, []), dtypes.i32)]


def _padded(e: Emitter, found: Value, most: Value) -> Value:
    """`found` with zeros behind it, `most` elements together."""
    length = e.reshape(e.cast(most, dtypes.i64), [1])
    zeros = e.add("expand", e.scalar(0, found), length)
    whole = e.add("concat", found, zeros, axis=0)
    return e.described(e.add("slice", whole, e.integers([0]), length, e.integers([0])), lambda: (None,))
