"""tf.map_fn, tf.scan, tf.foldl and tf.foldr; loops whose variables change their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
from tests.compat.tensorflow.test_tensor_arrays import WAYS, X

ROWS = [row.tolist() for row in X]


def folded(rows: Any, start: Any, factor: float) -> Any:
    for row in rows:
        start = start * np.float32(factor) + row
    return start


def scanned(rows: Any) -> list[Any]:
    return [np.sum(rows[: at + 1], axis=0) for at in range(len(rows))]


CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "map": (lambda x: tf.map_fn(lambda row: row * 2 + 1, x), [X * 2 + 1]),
    "map to another dtype": (lambda x: tf.map_fn(lambda row: tf.cast(row > 5, tf.int32), x, dtype=tf.int32), [X > 5]),
    "map to another shape": (
        lambda x: tf.map_fn(tf.reduce_sum, x, fn_output_signature=tf.TensorSpec([], tf.float32)),
        [X.sum(1)],
    ),
    "map of a tuple": (lambda x: tf.map_fn(lambda ab: (ab[0] + ab[1], ab[0]), (x, x[:, :1])), [X + X[:, :1], X]),
    "map of a dict": (
        lambda x: tf.map_fn(
            lambda d: {"sum": d["a"] + d["b"]}, {"a": x, "b": x[:, :1]}, fn_output_signature={"sum": tf.float32}
        ),
        [X + X[:, :1]],
    ),
    "map inside a map": (lambda x: tf.map_fn(lambda row: tf.map_fn(lambda e: e * e, row), x), [X * X]),
    "map of lengths that differ": (
        lambda x: tf.map_fn(lambda i: tf.reduce_sum(x[:i]), tf.range(1, 5), fn_output_signature=tf.float32),
        [[X[: at + 1].sum() for at in range(4)]],
    ),
    "scan": (lambda x: tf.scan(lambda a, row: a + row, x), [np.cumsum(X, 0)]),
    "scan from a start": (
        lambda x: tf.scan(lambda a, row: a + tf.reduce_sum(row), x, initializer=10.0),
        [10 + np.cumsum(X.sum(1))],
    ),
    "scan backwards": (lambda x: tf.scan(lambda a, row: a + row, x, reverse=True), [scanned(X[::-1])[::-1]]),
    "scan backwards from a start": (
        lambda x: tf.scan(lambda a, row: a + row, x, initializer=tf.ones([3]), reverse=True),
        [1 + np.array(scanned(X[::-1])[::-1])],
    ),
    "scan of a tuple": (
        lambda x: tf.scan(
            lambda a, row: (a[1], a[0] + tf.reduce_sum(row)), x, initializer=(tf.constant(0.0), tf.constant(0.0))
        ),
        [[0, 3, 12, 24], [3, 12, 24, 42]],
    ),
    "foldl": (lambda x: tf.foldl(lambda a, row: a * 2 + row, x), [folded(X[1:], X[0], 2)]),
    "foldr": (lambda x: tf.foldr(lambda a, row: a * 2 + row, x), [folded(X[2::-1], X[3], 2)]),
    "foldl from a start": (lambda x: tf.foldl(lambda a, row: a + row, x, initializer=tf.ones([3])), [1 + X.sum(0)]),
    "foldr from a start": (
        lambda x: tf.foldr(lambda a, row: a * 0.5 + tf.reduce_sum(row), x, initializer=8.0),
        [folded(X.sum(1)[::-1], 8, 0.5)],
    ),
    "a shape that grows": (
        lambda x: tf.while_loop(
            lambda i, a: i < 2,
            lambda i, a: (i + 1, tf.concat([a, x], 0)),
            (0, x[:1]),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])),
        )[1],
        [np.concatenate([X[:1], X, X])],
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_functions_apply_to_each_row(case: str, way: str) -> None:
    """
    Eagerly, in a tf.function, and in a session with a batch of unknown size.
    """
    function, wanted = CASES[case]
    for found, array in zip(WAYS[way](function), wanted, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-6)


def test_an_empty_tensor_gives_an_empty_result() -> None:
    """
    It has the shape and dtype that the function returns.
    """
    found = tf.function(lambda x: tf.map_fn(lambda row: tf.cast(row, tf.int32), x[:0], fn_output_signature=tf.int32))(X)

    assert found.shape.as_list() == [0, 3]
    assert found.dtype == tf.int32


def test_the_shape_of_results_is_known_while_the_graph_is_built() -> None:
    """
    It is the number of rows and the shape of the results of the function.
    """
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        assert tf.map_fn(lambda row: row[:2], x).shape.as_list() == [None, 2]
        assert tf.scan(lambda a, row: a + row, tf.constant(X)).shape.as_list() == [4, 3]


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "fn must be callable": (lambda: tf.map_fn(3, X), TypeError),
    "same length": (lambda: tf.map_fn(lambda ab: ab[0], (X, X[:2]), fn_output_signature=tf.float32), ValueError),
    r"1\+ dimensional": (lambda: tf.foldl(lambda a, b: a, 1.0), ValueError),
    "of the form of": (lambda: tf.map_fn(lambda row: (row, row), X), ValueError),
    "trying to write dtype int32": (
        lambda: tf.map_fn(lambda row: tf.cast(row, tf.int32), X),
        tf.errors.InvalidArgumentError,
    ),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_invalid_arguments_raise(words: str) -> None:
    """
    No function, tensors of different lengths, a scalar, another structure, another dtype.
    """
    function, kind = MISTAKES[words]
    with pytest.raises(kind, match=words):
        function()
