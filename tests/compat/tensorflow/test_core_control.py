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


def masked_sum(x: Any, n: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.reduce_sum(tf.boolean_mask(x, x > tf.cast(i, tf.float32) * 0.2 - 0.5))

    return tf.while_loop(lambda i, _: i < n, body, [tf.constant(0), tf.constant(0.0)])[1]


def sums_of_ranges(x: Any, n: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.reduce_sum(tf.range(i * 2))

    return tf.while_loop(lambda i, _: i < n, body, [tf.constant(0), tf.constant(0)])[1]


def sides_of_sizes(x: Any, n: Any) -> Any:
    return tf.cond(n > 2, lambda: x[:3], lambda: tf.concat([x, x * 2], 0)) + 1.0


def masked_side(x: Any, n: Any) -> Any:
    return tf.cond(n > 2, lambda: tf.reduce_sum(tf.boolean_mask(x, x > 0)), lambda: tf.reduce_sum(x))


def grown(x: Any, n: Any, change: Any, limit: int | None = None) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    first = [tf.constant(0), x]
    return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, change(v)), first, shapes, maximum_iterations=limit)[
        1
    ]


def longer(x: Any, n: Any) -> Any:
    return grown(x, n, lambda v: tf.concat([v, tf.reduce_sum(v, keepdims=True)], 0)) * 2.0


def shorter(x: Any, n: Any) -> Any:
    """At most two iterations."""
    return grown(x, n, lambda v: v[1:] + v[:-1], limit=2) * 2.0


def in_numpy(function: Any, x: Any, n: int) -> Any:
    """Returns what `function` gives."""
    if function is masked_sum:
        return sum(x[x > i * 0.2 - 0.5].sum() for i in range(n))
    if function is sums_of_ranges:
        return sum(sum(range(2 * i)) for i in range(n))
    if function is sides_of_sizes:
        return (x[:3] if n > 2 else np.concatenate([x, x * 2])) + 1
    if function is masked_side:
        return x[x > 0].sum() if n > 2 else x.sum()
    for _ in range(n if function is longer else min(n, 2)):
        x = np.append(x, x.sum()) if function is longer else x[1:] + x[:-1]
    return x * 2


@pytest.mark.parametrize("function", [masked_sum, sums_of_ranges, sides_of_sizes, masked_side, longer, shorter])
def test_bodies_with_sizes_that_depend_on_data(function: Any, steps: list[str]) -> None:
    """What a body computes behind such sizes, and variables and sides whose sizes differ, need no Python."""
    traced = tf.function(function)
    for n in (4, 1, 3, 0):
        x = np.random.default_rng(n).standard_normal(7).astype(np.float32)
        found = np.asarray(traced(tf.constant(x), tf.constant(n)))
        np.testing.assert_allclose(found, in_numpy(function, x, n), rtol=1e-4, atol=1e-5)
    assert steps == []


def test_operands_that_do_not_fit_behind_a_mask_are_invalid() -> None:
    """As TensorFlow says."""

    def added(x: Any) -> Any:
        body = lambda i, total: (i + 1, total + tf.boolean_mask(x, x > 0))  # noqa: E731 - shorter
        return tf.while_loop(lambda i, _: i < 2, body, [tf.constant(0), tf.zeros([3])])[1]

    traced = tf.function(added)
    assert np.asarray(traced(tf.constant([1.0, 2.0, -1.0, 3.0]))).tolist() == [2, 4, 6]
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not broadcast"):
        traced(tf.constant([1.0, 2.0, 3.0, 4.0]))
