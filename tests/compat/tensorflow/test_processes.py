"""py_function and numpy_function in worker processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1
from treadle.runtime.python_ops.process_pool import process_pool


@pytest.fixture(autouse=True)
def processes() -> Iterator[None]:
    with treadle.python_ops(executor="process"):
        yield
    assert not process_pool.pids()


def test_both_kinds_of_functions_run_in_workers() -> None:
    """
    With and without a declared shape, with several results, strings and none; effects stay in order.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [3])
        pid = tf.py_function(os.getpid, [], tf.int64)
        eager = tf.py_function(lambda t: tf.reduce_sum(t) * 2, [x], tf.float32)
        low, high = tf.numpy_function(lambda a: (a.min(), a.max()), [x], [tf.float32, tf.float32])
        declared = tf.py_function(lambda t: t + 1, [x], Tout=tf.float32)
        declared.set_shape([3])
        name = tf.numpy_function(lambda a: f"sum {a.sum():g}", [x], tf.string)
        y = (eager + high - low) * tf.reshape(declared, [3, 1])
        with tf.control_dependencies([tf.py_function(lambda: None, [], [])]):
            behind = tf.identity(y)
        found = session.run([y, behind, name, pid], {x: [1, 2, 3]})

        np.testing.assert_array_equal(found[0], [[28], [42], [56]])
        np.testing.assert_array_equal(found[1], found[0])
        assert found[2] == b"sum 6"
        assert found[3] in process_pool.pids()
        with treadle.python_ops(executor="thread"):
            assert session.run(pid) == os.getpid()


def test_eager_functions_run_in_this_process() -> None:
    """
    Outside a graph there is nothing to overlap with.
    """
    assert tf.numpy_function(os.getpid, [], tf.int64).numpy() == os.getpid()


def test_errors_have_the_exception_and_the_worker_traceback_as_causes() -> None:
    """
    The error is TensorFlow's; its cause is the exception, whose cause is the traceback in the worker.
    """

    def fails(_: object) -> None:
        raise ValueError("not this one")

    with tf.Graph().as_default(), tf1.Session() as session:
        bad = tf.py_function(fails, [tf.constant(1.0)], tf.float32, name="bad")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)not this one.*node 'bad'") as caught:
            session.run(bad)
        wrong = tf.numpy_function(lambda: np.zeros(2, np.int8), [], tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="returned int8; Tout says float32"):
            session.run(wrong)

    assert isinstance(caught.value.__cause__, ValueError)
    assert 'raise ValueError("not this one")' in str(caught.value.__cause__.__cause__)


def test_a_worker_that_dies_is_an_aborted_error() -> None:
    """
    It names the operation; the session stays usable.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        bad = tf.py_function(lambda: os._exit(7), [], tf.float32, name="dies")
        good = tf.py_function(lambda: 1.0, [], tf.float32)
        with pytest.raises(tf.errors.AbortedError, match=r"node 'dies'.*exit code 7"):
            session.run(bad)
        assert session.run(good) == 1


def test_functions_that_cannot_be_sent_raise() -> None:
    """
    A function that uses its session needs threads.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        lock = threading.Lock()
        bad = tf.py_function(lambda: float(lock.locked()), [], tf.float32, name="locked")
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"(?s)cannot pickle.*node 'locked'.*executor='thread'"
        ):
            session.run(bad)


def test_timeouts_end_the_wait() -> None:
    """
    DeadlineExceededError is raised at once, while the function would continue.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        slow = tf.py_function(lambda: time.sleep(200), [], [])  # longer than a test may take
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(slow, options=tf1.RunOptions(timeout_in_ms=300))
