"""tf.TensorArray: eagerly, in graphs and sessions, and in tf.function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def eagerly(function: Callable[[Any], Any]) -> list[Any]:
    return [np.asarray(item) for item in tf.nest.flatten(function(tf.constant(X)))]


def traced(function: Callable[[Any], Any]) -> list[Any]:
    return [np.asarray(item) for item in tf.nest.flatten(tf.function(function)(tf.constant(X)))]


def in_session(function: Callable[[Any], Any]) -> list[Any]:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        found = tf.nest.flatten(function(x))
        with tf.compat.v1.Session() as session:
            return list(session.run(found, {x: X}))


WAYS = {"eagerly": eagerly, "in a function": traced, "in a session": in_session}
GRAPHS = {name: WAYS[name] for name in ("in a function", "in a session")}


def written(_: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3).write(0, [1.0, 2.0]).write(2, [5.0, 6.0])
    return array.stack(), array.size()


def longer(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True).write(1, x[0])
    return array.stack(), array.size(), tf.constant(array.dynamic_size)


def unstacked(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
    return array.read(3), array.gather([2, 0]), array.concat(), array.identity().read(3)


def scattered(x: Any) -> Any:
    return tf.TensorArray(tf.float32, 5).scatter([4, 1, 0, 2], x).stack()


def split(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 2, infer_shape=False, clear_after_read=False).split(x, [1, 3])
    return array.read(0), array.read(1), array.concat()


def zeros(_: Any) -> Any:
    return tf.TensorArray(tf.int32, 2, element_shape=[2]).read(1)


CASES: dict[Callable[[Any], Any], list[Any]] = {
    written: [[[1, 2], [0, 0], [5, 6]], 3],
    longer: [[[0, 0, 0], X[0]], 2, True],
    unstacked: [X[3], X[[2, 0]], X.reshape(-1), X[3]],
    scattered: [[X[2], X[1], X[3], [0, 0, 0], X[0]]],
    split: [X[:1], X[1:], X],
    zeros: [[0, 0]],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_written_elements_can_be_read(case: Callable[[Any], Any], way: str) -> None:
    """
    Written one by one or all at once; read one by one, gathered, stacked or concatenated.
    """
    for found, wanted in zip(WAYS[way](case), CASES[case], strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("way", GRAPHS)
def test_a_write_leaves_the_old_array_unchanged(way: str) -> None:
    """
    In graphs, as in TensorFlow 2: elements may be written and read more than once.
    """

    def function(x: Any) -> Any:
        first = tf.TensorArray(tf.float32, 1).write(0, x[0])
        second = first.write(0, x[1])
        return first.read(0), second.read(0), first.read(0)

    for found, row in zip(GRAPHS[way](function), (0, 1, 0), strict=True):
        np.testing.assert_array_equal(found, X[row])


MISTAKES: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "read from index 1: it was never written": (
        lambda _: tf.TensorArray(tf.float32, 3).read(1),
        tf.errors.InvalidArgumentError,
    ),
    "modify element 3 in a list with 3": (
        lambda x: tf.TensorArray(tf.float32, 3).write(3, x).stack(),
        tf.errors.InvalidArgumentError,
    ),
    "access element 7 in a list with 4": (
        lambda x: tf.TensorArray(tf.float32, 4).unstack(x).read(7),
        tf.errors.InvalidArgumentError,
    ),
    "access element 5 in a list": (
        lambda x: tf.TensorArray(tf.float32, 4).unstack(x).gather([0, 5]),
        tf.errors.InvalidArgumentError,
    ),
    "expected a list with 9 elements": (
        lambda x: tf.TensorArray(tf.float32, 9).unstack(x).stack(),
        tf.errors.InvalidArgumentError,
    ),
    "sum of lengths is 3": (
        lambda x: tf.TensorArray(tf.float32, 2).split(x, [1, 2]).read(0),
        tf.errors.InvalidArgumentError,
    ),
    "Inconsistent shapes: saw": (
        lambda x: tf.TensorArray(tf.float32, 2).write(0, [1.0]).write(1, [1.0, 2.0]).stack(),
        ValueError,
    ),
    "trying to write dtype int32": (
        lambda _: tf.TensorArray(tf.float32, 2).write(0, tf.constant(1)),
        tf.errors.InvalidArgumentError,
    ),
    "Size must be declared": (lambda _: tf.TensorArray(tf.float32), ValueError),
}


@pytest.mark.parametrize("way", GRAPHS)
@pytest.mark.parametrize("words", MISTAKES)
def test_errors_in_graphs_are_those_of_tensorflow(words: str, way: str) -> None:
    """
    They are raised while the graph is built where they are known, else in the run.
    """
    function, kind = MISTAKES[words]
    with pytest.raises(kind, match=words):
        GRAPHS[way](function)


def read_twice(array: Any) -> Any:
    filled = array.unstack([1.0])
    return filled.read(0) + filled.read(0)


EAGER: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "cleared after a previous read": (
        lambda: read_twice(tf.TensorArray(tf.float32, 1)),
        tf.errors.InvalidArgumentError,
    ),
    "write to index 5 but array is not resizeable and size is: 3": (
        lambda: tf.TensorArray(tf.float32, 3).write(5, 1.0),
        tf.errors.OutOfRangeError,
    ),
    "read from index 7 but array size is: 3": (
        lambda: tf.TensorArray(tf.float32, 3).read(7),
        tf.errors.OutOfRangeError,
    ),
    "index -1": (lambda: tf.TensorArray(tf.float32, 3).write(-1, 1.0), tf.errors.OutOfRangeError),
    "never written": (lambda: tf.TensorArray(tf.float32, 3).read(0), tf.errors.InvalidArgumentError),
    "incompatible": (lambda: tf.TensorArray(tf.float32, 2).write(0, [1.0]).write(1, 1.0), ValueError),
    "Cannot unstack 3": (lambda: tf.TensorArray(tf.float32, 2).unstack([1.0, 2.0, 3.0]), ValueError),
    "Shapes of all inputs must match": (
        lambda: tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, [1.0]).write(1, 1.0).stack(),
        tf.errors.InvalidArgumentError,
    ),
    "no gradients": (lambda: tf.TensorArray(tf.float32, 2).grad("loss"), NotImplementedError),
}


@pytest.mark.parametrize("words", EAGER)
def test_eager_errors_are_those_of_tensorflow(words: str) -> None:
    """
    Eagerly an element can be read once, unless clear_after_read is False.
    """
    function, kind = EAGER[words]
    with pytest.raises(kind, match=words):
        function()


def test_element_shape_follows_from_writes() -> None:
    """
    element_shape, as far as it is known while the graph is built.
    """
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, 2, element_shape=[None, 3])
        assert array.element_shape.as_list() == [None, 3]
        assert array.write(0, X).element_shape.as_list() == [4, 3]
        assert array.dtype == tf.float32
        assert tf.TensorArray(tf.float32, 2).element_shape.rank is None
        assert array.write(0, X).stack().shape.as_list() == [2, 4, 3]
        assert array.close().type == "NoOp"


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_reads_and_writes_arrays(way: str) -> None:
    """
    Rows to running sums; and an array whose iterations read what earlier ones wrote.
    """

    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
        sums = tf.TensorArray(tf.float32, 4, clear_after_read=False)
        _, total, sums = tf.while_loop(
            lambda i, total, sums: i < 4,
            lambda i, total, sums: (i + 1, total + rows.read(i), sums.write(i, total + rows.read(i))),
            (0, tf.zeros([3]), sums),
        )
        series = tf.TensorArray(tf.float32, 6, clear_after_read=False, element_shape=[]).write(0, 1.0).write(1, 1.0)
        _, series = tf.while_loop(
            lambda i, series: i < 6,
            lambda i, series: (i + 1, series.write(i, series.read(i - 1) + series.read(i - 2))),
            (2, series),
        )
        return total, sums.stack(), series.stack()

    total, sums, series = WAYS[way](function)

    np.testing.assert_array_equal(total, X.sum(0))
    np.testing.assert_array_equal(sums, np.cumsum(X, 0))
    np.testing.assert_array_equal(series, [1, 1, 2, 3, 5, 8])


@pytest.mark.parametrize("way", GRAPHS)
def test_a_step_may_read_its_own_writes_and_choose_an_index(way: str) -> None:
    """
    Such steps cannot be split from their lists, and run whole.
    """

    def function(x: Any) -> Any:
        def step(i: Any, array: Any, total: Any) -> Any:
            array = tf.cond(i % 2 > 0, lambda: array.write(i, x[i]), lambda: array.write(i, -x[i]))
            return i + 1, array, total + array.read(i)

        first = tf.TensorArray(tf.float32, 4, element_shape=[3])
        _, array, total = tf.while_loop(lambda i, array, total: i < 4, step, (0, first, tf.zeros([3])))
        return array.stack(), total

    signs = np.array([[-1], [1], [-1], [1]], np.float32)
    stacked, total = GRAPHS[way](function)

    np.testing.assert_array_equal(stacked, signs * X)
    np.testing.assert_array_equal(total, (signs * X).sum(0))


def test_rewritten_loops_carry_arrays() -> None:
    """
    tf.function turns `for` and `if` into ops; one array grows.
    """

    @tf.function
    def function(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        state = tf.zeros([3])
        for i in tf.range(tf.shape(x)[0]):
            state = state * 0.5 + x[i]
            if i % 2 == 0:
                array = array.write(i, state)
            else:
                state = -state
                array = array.write(i, state)
        return array.stack()

    state, wanted = np.zeros(3, np.float32), []
    for at, row in enumerate(X):
        state = state * np.float32(0.5) + row
        state = state if at % 2 == 0 else -state
        wanted.append(state)
    np.testing.assert_array_equal(function(tf.constant(X)), wanted)


def test_an_error_in_a_loop_leaves_the_session_usable() -> None:
    """
    The third iteration writes beyond the end.
    """
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [])
        array = tf.TensorArray(tf.int32, 3)
        _, array = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, i * i)), (0, array))
        found = array.stack()
        with tf.compat.v1.Session() as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="element 3 in a list with 3 elements"):
                session.run(found, {n: 4})
            assert session.run(found, {n: 3}).tolist() == [0, 1, 4]
