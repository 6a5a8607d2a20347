"""Branches and loops of the facade run in the native core where nothing in them needs Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
from treadle.compat.tensorflow import stage

W = (np.random.default_rng(0).standard_normal((3, 3)) / 2).astype(np.float32)
X = np.random.default_rng(1).standard_normal((9, 1, 3)).astype(np.float32)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the Python steps that run."""
    ran: list[str] = []
    plain = stage._body

    def noted(op: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def run(*given: Any) -> Any:
            ran.append(op.type)
            return function(*given)

        return plain(op, run, *args, **kwargs)

    monkeypatch.setattr(stage, "_body", noted)
    return ran


def halved(x: Any, n: Any) -> Any:
    """A loop with a branch in it."""

    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(y) > 0, lambda: -y / 2, lambda: y + 1)

    return tf.while_loop(lambda i, _: i < n, body, [0, x])


def until(x: Any) -> Any:
    """A loop that data end, as AutoGraph makes it."""
    count = tf.constant(0)
    while tf.reduce_max(tf.abs(x)) > 0.1:
        if tf.reduce_sum(x) > 0:  # noqa: SIM108 - AutoGraph is to see a statement
            x = x / 2
        else:
            x = x / 4 - 0.01
        count += 1
    return count, x


def test_a_loop_with_a_branch(steps: list[str]) -> None:
    x = np.array([1, 2, -4], np.float32)
    for count in (0, 1, 7):
        i, y = tf.function(halved)(x, tf.constant(count))
        wanted = x
        for _ in range(count):
            wanted = -wanted / 2 if wanted.sum() > 0 else wanted + 1
        np.testing.assert_array_equal(y, wanted)
        assert int(i) == count
    assert not steps


def test_a_loop_that_data_end(steps: list[str]) -> None:
    x = np.array([1, -2, 3], np.float32)
    count, y = tf.function(until)(x)
    wanted, made = x, 0
    while np.abs(wanted).max() > np.float32(0.1):
        wanted = wanted / 2 if wanted.sum() > 0 else wanted / 4 - np.float32(0.01)
        made += 1
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
    assert int(count) == made
    assert not steps


def test_the_limit_of_a_loop(steps: list[str]) -> None:
    """
    It ends the loop, also where the test would not.
    """
    call = tf.function(
        lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) > -1, lambda y: [y + 1], [x], maximum_iterations=4)
    )
    np.testing.assert_array_equal(call(np.zeros(2, np.float32))[0], [4, 4])
    assert not steps


def recurrent(w: Any) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        count = tf.shape(x)[0]
        given = tf.TensorArray(tf.float32, size=count, element_shape=[1, 3]).unstack(x)
        made = tf.TensorArray(tf.float32, size=count, element_shape=[1, 3])

        def body(i: Any, h: Any, states: Any) -> Any:
            h = tf.tanh(given.read(i) + tf.matmul(h, w))
            return i + 1, h, states.write(i, h)

        _, last, states = tf.while_loop(lambda i, *_: i < count, body, [0, tf.zeros([1, 3]), made])
        return states.stack(), last

    return call


def states_of(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    states = [np.zeros((1, 3), np.float32)]
    for item in x:
        states.append(np.tanh(item + states[-1] @ w))
    return states[1:]


def test_a_loop_over_arrays_and_a_variable(steps: list[str]) -> None:
    """
    It reads the variable as it is when the run begins.
    """
    w = tf.Variable(W)
    call = tf.function(recurrent(w))
    for factor in (1, 2):
        w.assign(factor * W)
        states, last = call(X)
        wanted = states_of(X, factor * W)
        np.testing.assert_allclose(states, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last, wanted[-1], rtol=1e-5, atol=1e-6)
    assert "While" not in steps


def test_results_do_not_depend_on_threads() -> None:
    results = []
    for threads in (1, 2):
        treadle.threads.set(intra_op=threads, inter_op=threads)
        results.append(
            [np.asarray(each) for each in (*tf.function(recurrent(tf.constant(W)))(X), *tf.function(until)(X))]
        )
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bodies_with_effects_are_driven_by_python(steps: list[str]) -> None:
    """
    An assignment and a Python function.
    """
    total, called = tf.Variable(0.0), []

    def body(i: Any) -> Any:
        total.assign_add(2.0)
        tf.py_function(lambda: called.append(1), [], [])
        return [i + 1]

    @tf.function
    def call() -> Any:
        return tf.while_loop(lambda i: i < 3, body, [0])

    assert int(call()[0]) == 3
    assert (float(total.numpy()), len(called)) == (6.0, 3)
    assert "While" in steps


def test_a_variable_that_a_loop_follows_is_read_after_its_assignment(steps: list[str]) -> None:
    w = tf.Variable(1.0)

    @tf.function
    def call(x: Any) -> Any:
        w.assign(w + 1)
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 100, lambda y: [y * w], [x])[0]

    np.testing.assert_array_equal(call(np.ones(2, np.float32)), [64, 64])
    np.testing.assert_array_equal(call(np.ones(2, np.float32)), [81, 81])
    assert "While" not in steps


def test_branches_nest_30_deep(steps: list[str]) -> None:
    def deep(x: Any, level: int) -> Any:
        if level == 0:
            return x + 1
        return tf.cond(tf.reduce_sum(x) > level, lambda: deep(x * 2, level - 1), lambda: deep(x + 1, level - 1))

    def chained(x: Any, level: int) -> Any:
        return (
            x
            if level == 0
            else tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, chained(y + 1, level - 1)), [0, x])[1]
        )

    np.testing.assert_array_equal(tf.function(lambda x: chained(x, 30))(np.zeros(2, np.float32)), [30, 30])
    np.testing.assert_array_equal(
        tf.function(lambda x: deep(x, 4))(np.zeros(1, np.float32)), deep_numpy(np.zeros(1), 4)
    )
    assert not steps


def deep_numpy(x: np.ndarray, level: int) -> np.ndarray:
    if level == 0:
        return x + 1
    return deep_numpy(x * 2, level - 1) if x.sum() > level else deep_numpy(x + 1, level - 1)


def test_an_error_in_a_body_names_its_node() -> None:
    """
    It is the error that Python's loop raises.
    """

    @tf.function
    def call(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, y + tf.gather(x, i)), [0, tf.constant(0.0)])[1]

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?i)index"):
        call(np.ones(3, np.float32))
    assert float(call(np.ones(8, np.float32))) == 5.0
