"""SavedModels of TensorFlow whose sizes depend on data run natively, and give its results, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

Results = dict[str, Any]
Feeds = list[dict[str, Any]]
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2)}
RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(value: Any) -> np.ndarray[Any, Any]:
    return np.array(value, np.int32)


def where(x: Any) -> Results:
    found = tf.gather(x, tf.where(x > 0)[:, 0]) * 2.0
    return {"found": found, "sum": tf.reduce_sum(found), "count": tf.shape(found)[0]}


def masked(x: Any) -> Results:
    rows = tf.matmul(tf.boolean_mask(x, x[:, 0] > 0), tf.reshape(tf.range(12, dtype=tf.float32), [4, 3]))
    scores = tf.nn.softmax(tf.matmul(rows, rows, transpose_b=True))
    return {"mixed": tf.matmul(scores, rows), "flat": tf.reshape(rows, [-1]), "size": tf.size(rows)}


def computed_limits(n: Any) -> Results:
    numbers = tf.range(n * 2)
    return {
        "halves": tf.cast(numbers, tf.float32) / 2.0,
        "sum": tf.reduce_sum(numbers),
        "tiled": tf.tile([1.0, 2.0], [n]),
        "zeros": tf.zeros([n, 3]),
    }


def largest(x: Any, n: Any) -> Results:
    values, places = tf.math.top_k(x, n)
    return {"values": values * 2.0, "places": places}


def loop_over_masks(x: Any, n: Any) -> Results:
    def step(i: Any, total: Any) -> Any:
        return i + 1, total + tf.reduce_sum(tf.boolean_mask(x, x > tf.cast(i, tf.float32) * 0.2 - 0.5))

    return {"total": tf.while_loop(lambda i, _: i < n, step, [tf.constant(0), tf.constant(0.0)])[1]}


def sides_of_sizes(x: Any, flag: Any) -> Results:
    y = tf.cond(flag, lambda: x[:3], lambda: tf.concat([x, x * 2], 0))
    return {"y": y + 1.0, "mean": tf.reduce_mean(y)}


def case_of_sizes(x: Any, n: Any) -> Results:
    sides = [lambda: x[:1], lambda: x[:2] * 2.0, lambda: tf.boolean_mask(x, x[:, 0] > 0), lambda: tf.concat([x, x], 0)]
    y = tf.switch_case(n, sides)
    return {"y": y * 1.5, "shape": tf.shape(y)}


def case_of_one_size(x: Any, n: Any) -> Results:
    return {"y": tf.switch_case(n, [lambda: x, lambda: x * 2.0, lambda: tf.exp(x)])}


def map_of_masked(x: Any) -> Results:
    return {"y": tf.map_fn(lambda row: tf.reduce_sum(row) * row, tf.boolean_mask(x, x[:, 0] > 0))}


def growing(x: Any, n: Any) -> Results:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    found = tf.while_loop(
        lambda i, _: i < n,
        lambda i, v: (i + 1, tf.concat([v, tf.reduce_sum(v, keepdims=True)], 0)),
        [tf.constant(0), x],
        shape_invariants=shapes,
    )
    return {"y": found[1] * 2.0}


def shrinking(x: Any, n: Any) -> Results:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    found = tf.while_loop(
        lambda i, _: i < n, lambda i, v: (i + 1, v[1:] + v[:-1]), [tf.constant(0), x], shape_invariants=shapes
    )
    return {"y": found[1] * 2.0}


def array_of_computed_length(x: Any, n: Any) -> Results:
    array = tf.TensorArray(tf.float32, size=n)
    array = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x[i] * 2.0)), [tf.constant(0), array])[1]
    return {"y": array.stack()}


def array_of_masked(x: Any, n: Any) -> Results:
    kept = tf.boolean_mask(x, x[:, 0] > -0.3)[:, 0]
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[None])
    array = tf.while_loop(
        lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, kept * tf.cast(i, tf.float32))), [tf.constant(0), array]
    )[1]
    return {"y": array.stack()}


def nested(x: Any) -> Results:
    """A loop in a branch in a loop, over what a mask keeps."""

    def outer(i: Any, total: Any) -> Any:
        kept = tf.boolean_mask(x, x > tf.cast(i, tf.float32) * 0.3 - 0.5)

        def weighted() -> Any:
            return tf.while_loop(
                lambda j, _: j < tf.size(kept),
                lambda j, t: (j + 1, t + kept[j] * tf.cast(j, tf.float32)),
                [tf.constant(0), tf.constant(0.0)],
            )[1]

        return i + 1, total + tf.cond(tf.size(kept) > 2, weighted, lambda: tf.reduce_sum(kept) - 1.0)

    return {"total": tf.while_loop(lambda i, _: i < 4, outer, [tf.constant(0), tf.constant(0.0)])[1]}


DEEP = 30
"""How many bodies are inside one another in the deepest models."""


def deep_branches(x: Any) -> Results:
    """Each side has its own size."""

    def taken(x: Any, depth: int) -> Any:
        if not depth:
            return x * 2.0
        longer = tf.concat([x, x[:1]], 0)
        return tf.cond(tf.reduce_sum(x) > depth - 33.0, lambda: taken(longer, depth - 1), lambda: x[:1] - 1.0)

    return {"y": taken(x, DEEP)}


def deep_loops(x: Any) -> Results:
    """Each body finds sizes."""

    def step(x: Any, depth: int) -> Any:
        some = tf.boolean_mask(x, x > -0.5)
        if not depth:
            return x * 1.01 + tf.reduce_sum(some) * 0.01
        most = 2 if depth % 10 == 0 else 1
        first = [tf.constant(0), x + tf.reduce_sum(some) * 0.01]
        return tf.while_loop(lambda i, _: i < most, lambda i, v: (i + 1, step(v, depth - 1)), first)[1]

    return {"y": step(x, DEEP)}


def deep_bodies(x: Any) -> Results:
    """Branches and loops by turns, over what a mask keeps."""

    def inside(x: Any, depth: int) -> Any:
        some = tf.boolean_mask(x, x > -0.5 - 0.1 * depth)
        if not depth:
            return some
        if depth % 2:
            return tf.cond(tf.size(some) > 2, lambda: inside(some, depth - 1), lambda: some - 1.0)
        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        first = [tf.constant(0), some]
        return tf.while_loop(lambda i, _: i < 1, lambda i, v: (i + 1, inside(v + 0.1, depth - 1)), first, shapes)[1]

    return {"y": inside(x, DEEP)}


def unique(x: Any) -> Results:
    values, places = tf.unique(x)
    counted, same, counts = tf.unique_with_counts(x)
    return {"values": values * 2, "places": places, "counted": counted, "same": same, "counts": counts}


def partitioned(x: Any, parts: Any) -> Results:
    """What is split is put together again, each part changed in its way."""
    first, second = tf.dynamic_partition(x, parts, 2)
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), parts, 2)
    return {"first": first, "second": second * 3, "whole": tf.dynamic_stitch(places, [first * 2, second * 3])}


def dense(x: Any, places: Any) -> Results:
    """Of a size that is the largest place."""
    size = tf.reduce_max(places) + 1
    ordered = tf.gather(x, tf.argsort(places))
    found = tf.compat.v1.sparse_to_dense(tf.sort(places), [size], ordered, default_value=-1.0)
    return {"dense": found, "scattered": tf.scatter_nd(tf.expand_dims(places, 1), x, [size])}


def chosen_boxes(boxes: Any, scores: Any, most: Any) -> Results:
    plain = tf.image.non_max_suppression(boxes, scores, most, 0.3, score_threshold=0.2)
    scored, chosen = tf.image.non_max_suppression_with_scores(boxes, scores, most, 0.3, 0.1, 0.0)
    padded, count = tf.image.non_max_suppression_padded(boxes, scores, most, 0.3, 0.1, pad_to_max_output_size=True)
    second = tf.raw_ops.NonMaxSuppressionV2(boxes=boxes, scores=scores, max_output_size=most, iou_threshold=0.5)
    return {
        "boxes": tf.gather(boxes, plain),
        "indices": plain,
        "scored": scored,
        "scores": chosen * 2,
        "padded": padded,
        "count": count,
        "second": second,
    }


def best_of_classes(boxes: Any, scores: Any, own: Any) -> Results:
    """The best boxes of all classes: with the same boxes for each, and with boxes of their own."""
    found: Results = {}
    pairs = ((boxes[:, :, None], False), (own, True))
    for number, (given, pads) in enumerate(pairs):
        results = tf.image.combined_non_max_suppression(
            given, scores, 3, 20, 0.4, 0.3, pad_per_class=pads, clip_boxes=not pads
        )
        found.update({f"{name}{number}": value for name, value in results._asdict().items()})
    return found


def boxes_of_classes(boxes: Any, scores: Any) -> Results:
    """A detector's end: a loop over classes, each with the boxes that it keeps."""

    def of_class(label: Any, best: Any) -> Any:
        found = tf.image.non_max_suppression(boxes, scores[:, label], 4, 0.4, 0.3)
        rows = tf.concat([tf.gather(boxes, found), tf.gather(scores[:, label], found)[:, None]], 1)
        return label + 1, tf.concat([best, rows], 0)

    labels = tf.shape(scores)[1]
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 5])]
    _, best = tf.while_loop(lambda i, _: i < labels, of_class, [tf.constant(0), tf.zeros([0, 5])], shapes)
    return {"best": best, "total": tf.shape(best)[0]}


def corners(count: int) -> np.ndarray[Any, Any]:
    return np.sort(RNG.random((count, 2, 2)), 1).reshape(count, 4).astype(np.float32)


X, ROWS = [{"x": floats(length)} for length in (7, 12, 3)], [{"x": floats(length, 4)} for length in (5, 9)]


def with_n(feeds: Feeds, *numbers: int) -> Feeds:
    return [{**feed, "n": ints(number)} for feed, number in zip(feeds, numbers, strict=False)]


CASES: dict[Callable[..., Results], Feeds] = {
    where: [*X, {"x": -np.ones(3, np.float32)}],
    masked: ROWS,
    computed_limits: [{"n": ints(4)}, {"n": ints(1)}],
    largest: with_n(X, 2, 5),
    loop_over_masks: with_n(X, 4, 0, 3),
    sides_of_sizes: [{**X[0], "flag": np.array(True)}, {**X[1], "flag": np.array(False)}],
    case_of_sizes: [*with_n(ROWS, 0, 1), *with_n(ROWS, 2, 3), *with_n(ROWS, 9, -1)],
    case_of_one_size: [*with_n(ROWS, 0, 1), *with_n(ROWS, 2, 3)],
    map_of_masked: ROWS,
    growing: with_n(X, 4, 0, 3),
    shrinking: with_n(X, 4, 5, 1),
    array_of_computed_length: with_n(ROWS, 4, 1),
    array_of_masked: with_n(ROWS, 4, 1),
    nested: X,
    deep_branches: X[:1],
    deep_loops: X[:1],
    deep_bodies: X[:1],
    unique: [{"x": ints([3, 1, 3, 2, 1])}, {"x": ints([5, 5])}],
    partitioned: [{**ROWS[0], "parts": ints([0, 1, 0, 1, 1])}, {**ROWS[1], "parts": ints([0] * 9)}],
    dense: [{"x": floats(4), "places": ints([1, 3, 0, 7])}, {"x": floats(2), "places": ints([1, 2])}],
    chosen_boxes: [
        {"boxes": corners(count), "scores": RNG.random(count).astype(np.float32), "most": ints(most)}
        for count, most in ((8, 5), (3, 6), (20, 1))
    ],
    best_of_classes: [
        {
            "boxes": np.stack([corners(count) for _ in range(batch)]),
            "scores": RNG.random((batch, count, 3)).astype(np.float32),
            "own": np.stack([corners(count * 3).reshape(count, 3, 4) * 1.2 for _ in range(batch)]),
        }
        for batch, count in ((2, 9), (1, 9))
    ],
    boxes_of_classes: [
        {"boxes": corners(count), "scores": RNG.random((count, labels)).astype(np.float32)}
        for count, labels in ((9, 3), (4, 3))
    ],
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_one_plan_gives_tensorflows_results(function: Callable[..., Results], tmp_path: Path) -> None:
    """A session of the file, and one that finds its plans on disk, call no Python in a run."""
    feeds = CASES[function]
    specs = {
        name: tf.TensorSpec([None, *array.shape[1:]] if array.ndim else [], array.dtype, name)
        for name, array in feeds[0].items()
    }
    module = tf.Module()
    module.f = tf.function(function, input_signature=list(specs.values()))
    wanted = [{name: value.numpy() for name, value in module.f(*feed.values()).items()} for feed in feeds]
    tf.saved_model.save(module, str(tmp_path), signatures=module.f.get_concrete_function())
    for _ in range(2):
        check(treadle.Session(tmp_path), feeds, wanted)


def check(session: treadle.Session, feeds: Feeds, wanted: list[Mapping[str, Any]]) -> None:
    for feed, results in zip(feeds, wanted, strict=True):
        found = {threads: session.run(feed, pool=pool) for threads, pool in POOLS.items()}
        for name, result in results.items():
            assert (found[1][name].shape, found[1][name].dtype) == (result.shape, result.dtype)
            np.testing.assert_allclose(found[1][name], result, rtol=1e-5, atol=1e-6)
            assert found[1][name].tobytes() == found[2][name].tobytes()
    plans = session.plans()
    assert plans
    assert [call.node for plan in plans for call in plan.calls if call.function is not None] == []
