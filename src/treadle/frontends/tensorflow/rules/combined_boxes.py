"""CombinedNonMaxSuppression: the best boxes of all classes, of which no two of one class overlap much."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.kinds import Value
from treadle.graph.dim import equals, maximum, minimum


def combined(
    e: Emitter,
    boxes: Value,
    scores: Value,
    max_output_size_per_class: Value,
    max_total_size: Value,
    iou_threshold: Value,
    score_threshold: Value,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> list[Value]:
    """Return boxes, scores, classes and how many are found, of each image; zeros stand behind what is found.

    Scores are kept in an array with an element for each class and box, so no size depends on how many boxes are found.
    Raises ValueError for other shapes.
    """
    batch, count, kinds, four = _dims(e, boxes)
    classes = e.shape(scores)[-1]
    if not (four == 4 and e.rank(scores) == 3 and (kinds == 1 or equals(kinds, classes))):
        raise ValueError(
            f"wanted boxes [batch, n, 1 or classes, 4] and scores [batch, n, classes], got {list(e.shape(boxes))} and "
            f"{list(e.shape(scores))}"
        )
    shared = kinds == 1
    boxes, scores = e.transpose(boxes, [0, 2, 1, 3]), e.transpose(scores, [0, 2, 1])
    rows, number = e.add_many(
        "non_max_suppression",
        [
            e.reshape(boxes, [batch * kinds, count, 4]),
            e.reshape(scores, [batch, classes, count] if shared else [batch * classes, 1, count]),
            e.cast(max_output_size_per_class, dtypes.i64),
            iou_threshold,
            score_threshold,
        ],
        2,
        center=False,
    )
    (most,), (total,) = e.numbers(max_output_size_per_class), e.numbers(max_total_size)
    if pad_per_class:
        total = minimum(total, maximum(most, 0) * classes)
    kept = e.reshape(_kept(e, rows, number, scores, folded=not shared), [batch, classes * count])
    size = minimum(total, classes * count)
    best, places = e.add_many("top_k", [kept, e.integers([size])], 2, axis=1, largest=True, sorted=True)
    is_found = e.add("gt", best, e.scalar(-np.inf, best))
    numbers = e.sizes(count, dtypes.i64)
    label, box = e.add("div", places, numbers), e.add("mod", places, numbers)
    image = e.reshape(e.positions(batch, dtypes.i64), [batch, 1])
    row = e.add("add", e.add("mul", image, e.sizes(kinds * count, dtypes.i64)), box if shared else places)
    corners = e.add("gather", e.reshape(boxes, [batch * kinds * count, 4]), row, axis=0)
    if clip_boxes:
        corners = e.add("min", e.add("max", corners, e.scalar(0, corners)), e.scalar(1, corners))
    is_row = e.reshape(is_found, [batch, size, 1])
    results = [
        e.add("where", is_row, corners, e.scalar(0, corners)),
        e.add("where", is_found, best, e.scalar(0, best)),
        e.add("where", is_found, e.cast(label, dtypes.f32), e.scalar(0, best)),
    ]
    found = e.add("reduce_sum", e.cast(is_found, dtypes.i32), axes=(1,), keepdims=False)
    return [*(_padded(e, value, total - size) for value in results), found]


def _dims(e: Emitter, boxes: Value) -> tuple[int, ...]:
    shape = e.shape(boxes)
    if len(shape) != 4:
        raise ValueError(f"wanted boxes [batch, n, 1 or classes, 4], got {list(shape)}")
    return shape


def _kept(e: Emitter, rows: Value, number: Value, scores: Value, *, folded: bool) -> Value:
    """The elements of `scores` [batch, classes, n], flat, with -inf in place of those that no row names.

    The first `number` rows hold batch, class and box; if `folded`, batch and class as one number, then 0.
    """
    batch, classes, count = e.shape(scores)
    whole, most = batch * classes * count, e.shape(rows)[0]
    steps = e.sizes([count if folded else classes * count, count, 1], dtypes.i64)
    named = e.add("reduce_sum", e.add("mul", rows, steps), axes=(1,), keepdims=False)
    is_row = e.add("lt", e.positions(most, dtypes.i64), number)
    places = e.add("where", is_row, named, e.sizes(whole, dtypes.i64))
    nothing = e.reshape(e.scalar(-np.inf, scores), [1])
    found = e.add("gather", e.add("concat", e.reshape(scores, [whole]), nothing, axis=0), places, axis=0)
    blank = e.full([whole + 1], -np.inf, dtypes.f32)
    spread = e.add("scatter_nd", blank, e.reshape(places, [most, 1]), found, reduction="none")
    return e.add("slice", spread, e.integers([0]), e.sizes([whole], dtypes.i64), e.integers([0]))


def _padded(e: Emitter, value: Value, count: int) -> Value:
    """`value` with `count` zeros behind it along axis 1."""
    if equals(count, 0):
        return value
    batch, _, *rest = e.shape(value)
    return e.add("concat", value, e.full([batch, count, *rest], 0, dtypes.f32), axis=1)
