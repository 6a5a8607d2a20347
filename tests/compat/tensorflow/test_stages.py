"""Graphs with shapes that only a run knows, and runs inside runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1
from treadle.compat.tensorflow.program import Program


def test_shapes_may_be_fed() -> None:
    """
    A fed shape decides the shapes of other tensors; the next run may feed another.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None])
        shape = tf1.placeholder(tf.int32, [None])
        fetches = [tf.reshape(x, shape) + 1, tf.zeros(shape) + 1, tf.pad(x, [[shape[0], 0]])]
        for wanted in ([2, 3], [3, 2], [2, 3]):
            found = session.run(fetches, {x: np.arange(6), shape: wanted})
            np.testing.assert_array_equal(found[0], np.arange(1, 7).reshape(wanted))
            np.testing.assert_array_equal(found[1], np.ones(wanted))
            np.testing.assert_array_equal(found[2], np.pad(np.arange(6), (wanted[0], 0)))


def test_random_tensors_may_have_fed_shapes() -> None:
    """
    Dropout of a batch of unknown size keeps the requested share of elements and rescales them.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 50])
        y = tf.nn.dropout(x, rate=tf1.placeholder_with_default(0.5, []), seed=1)
        found = session.run(y, {x: np.ones((40, 50))})

    assert found.shape == (40, 50)
    assert set(np.unique(found)) == {0.0, 2.0}
    assert 0.45 < (found > 0).mean() < 0.55


def test_indices_may_be_tensors() -> None:
    """
    Elements and slices at indices that only the run knows.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None])
        i = tf1.placeholder(tf.int32, [])
        found = session.run([x[i], x[i : i + 2], x[:i]], {x: np.arange(6), i: 3})

    for got, wanted in zip(found, (3, [3, 4], [0, 1, 2]), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_invalid_indices_raise_invalid_argument_error() -> None:
    """
    The error names the node.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None])
        y = tf.gather(x, [9], name="pick")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"pick.*out of range"):
            session.run(y, {x: np.arange(6)})


@pytest.mark.parametrize("inter", [1, 2])
def test_nested_runs_do_not_deadlock(inter: int) -> None:
    """
    Concurrent loops and functions that run sessions share one team and never wait in a circle.
    """
    config = tf1.ConfigProto(inter_op_parallelism_threads=inter, use_per_session_threads=True)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        x = tf1.placeholder(tf.float32, [32, 32])
        product = tf.matmul(x, x)

        @tf.function
        def traced(a: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.matmul(a, a))

        def nested(a: tf.Tensor) -> tf.Tensor:
            return traced(a) + session.run(product, {x: a.numpy()}).sum()

        loops = [tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tf.matmul(a, x)), (0, x))[1] for _ in range(3)]
        y = tf.add_n([tf.reduce_sum(loop) for loop in loops]) + tf.py_function(nested, [x], tf.float32)
        eye = np.eye(32, dtype=np.float32)

        assert session.run(y, {x: eye}) == 3 * 32 + 2 * 32


def test_effects_keep_their_order() -> None:
    """
    Python functions with control dependencies run one after the other, also without results.
    """
    order: list[int] = []
    with tf.Graph().as_default(), tf1.Session() as session:
        first = tf.py_function(lambda: order.append(1), [], [])
        with tf.control_dependencies([first]):
            second = tf.identity(tf.constant(1.0))
        with tf.control_dependencies([second]):
            third = tf.py_function(lambda: order.append(3), [], [])
        for _ in range(5):
            session.run(third)

    assert order == [1, 3] * 5


def test_independent_ops_share_one_team() -> None:
    """
    The trace of independent products and sums shows at most as many workers as the limits allow.
    """
    x = np.ones((256, 256), np.float32)
    for intra, inter in ((1, 1), (2, 1), (1, 2), (2, 2)):
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter, use_per_session_threads=True
        )
        metadata = tf1.RunMetadata()
        with tf.Graph().as_default(), tf1.Session(config=config) as session:
            place = tf1.placeholder(tf.float32, [256, 256])
            sums = [tf.reduce_sum(tf.matmul(place, place + float(n))) for n in range(4)]
            session.run(sums, {place: x})
            session.run(sums, {place: x}, tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), metadata)
        (device,) = metadata.step_stats.dev_stats
        workers = {stats.thread_id for stats in device.node_stats}
        assert 1 <= len(workers) <= max(intra, inter)


def test_a_body_without_effects_is_built_once_and_then_run_directly(monkeypatch: Any) -> None:
    """
    Python drives the loop, because its body calls a Python function. Its test has no effects: from the second
    iteration on it is run without a look at its stages.
    """
    built: list[Program] = []
    looked: list[Program] = []
    build, stage = Program._build_one, Program._stage
    monkeypatch.setattr(Program, "_build_one", lambda self, *args: (built.append(self), build(self, *args))[1])
    monkeypatch.setattr(Program, "_stage", lambda self, *args: (looked.append(self), stage(self, *args))[1])
    count = 20

    @tf.function
    def call(total: Any) -> Any:
        i = tf.constant(0)
        while i < count:
            total = tf.ensure_shape(tf.numpy_function(lambda a: a + np.float32(1), [total], tf.float32), [])
            i += 1
        return total

    assert float(call(tf.constant(1.0))) == 1 + count
    assert len(built) == len(set(built))
    direct = [program for program in set(built) if program._direct is not None]
    assert len(direct) == 1
    assert looked.count(direct[0]) == 2
