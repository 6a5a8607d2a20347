"""Thread settings and limits of the facade, and the programs of TensorFlow's threading guides."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
from treadle.errors import ThreadSettingWarning


def test_program_of_python_loops_under_changing_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Two CPU-bound py_functions, added; the settings change between runs, which TensorFlow refuses.
    """

    ended: list[float] = []

    def cpu_bound(n: tf.Tensor) -> float:
        total = 0.0
        for i in range(int(n)):
            total += i % 7
        ended.append(time.perf_counter())
        return total

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        n = tf.compat.v1.placeholder(tf.int32, [])
        c = tf.py_function(cpu_bound, [n], tf.float64)
        d = tf.py_function(cpu_bound, [n], tf.float64)
        total = c + d
        for intra, inter in ((0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (0, 4), (2, 2)):
            tf.config.threading.set_intra_op_parallelism_threads(intra)
            tf.config.threading.set_inter_op_parallelism_threads(inter)
            start = time.perf_counter()
            result = session.run(total, {n: 20_000})
            end = time.perf_counter()
            print(f"intra {intra} inter {inter}: {end - start:.3f} s")  # noqa: T201
            assert len(ended) == 2, "a printed time covers finished work"
            assert start < max(ended) < end
            ended.clear()
            assert result == 2 * sum(i % 7 for i in range(20_000))
            assert tf.config.threading.get_intra_op_parallelism_threads() == intra
            assert tf.config.threading.get_inter_op_parallelism_threads() == inter

    assert capsys.readouterr().out.count(" s\n") == 8


def test_program_with_a_config_and_a_session() -> None:
    """
    The recipe of the tuning guides, followed by a graph of matmul and reduce_sum.
    """
    NUM_PARALLEL_EXEC_UNITS = 2  # noqa: N806 - as users write it
    config = tf.ConfigProto(
        intra_op_parallelism_threads=NUM_PARALLEL_EXEC_UNITS,
        inter_op_parallelism_threads=2,
        allow_soft_placement=True,
        device_count={"CPU": NUM_PARALLEL_EXEC_UNITS},
    )
    session = tf.Session(config=config)
    a = tf.random_normal([64, 64], seed=1)
    b = tf.constant(np.eye(64, dtype=np.float32) * 2)
    with tf.device("/GPU:0"):
        total = tf.reduce_sum(tf.matmul(a, b))
    got_a, got = session.run([a, total])
    session.close()

    np.testing.assert_allclose(got, 2 * got_a.sum(dtype=np.float64), rtol=1e-3, atol=1e-2)
    assert (treadle.threads.get().intra_op, treadle.threads.get().inter_op) == (2, 2)
    assert [device.name for device in tf.config.list_logical_devices()] == ["/device:CPU:0", "/device:CPU:1"]
    assert tf.executing_eagerly()


def test_the_first_session_sets_the_threads_and_later_ones_warn_once() -> None:
    """
    As in TensorFlow later numbers have no effect; one warning says so, and how to change them.
    """
    tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=2)).close()
    with pytest.warns(ThreadSettingWarning, match="use_per_session_threads=True"):
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=3)).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=4)).close()

    assert treadle.threads.get().intra_op == 2


def test_sessions_may_have_pools_of_their_own_or_named_pools() -> None:
    """
    use_per_session_threads, and session_inter_op_thread_pool with global_name.
    """
    own = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=3, use_per_session_threads=True)
    shared = tf.ConfigProto()
    shared.session_inter_op_thread_pool.add(num_threads=2, global_name="fast")
    shared.session_inter_op_thread_pool.add(num_threads=1)
    other = tf.ConfigProto()
    other.session_inter_op_thread_pool.add(num_threads=3, global_name="fast")
    with tf.Graph().as_default():
        y = tf.constant(1.0) + 1
        with tf.Session(config=own) as session:
            assert session.run(y) == 2
        session = tf.Session(config=shared)
        assert session.run(y, options=tf.RunOptions(inter_op_thread_pool=1)) == 2
        assert session.run(y, options=tf.RunOptions(inter_op_thread_pool=-1)) == 2
        for number in (2, -2):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Invalid inter_op_thread_pool: {number}"):
                session.run(y, options=tf.RunOptions(inter_op_thread_pool=number))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Pool fast configured previously with num_threads=2"):
            tf.Session(config=other)


def test_runs_time_out() -> None:
    """
    RunOptions.timeout_in_ms and ConfigProto.operation_timeout_in_ms; the session stays usable.
    """
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=10_000)) as session:

        def slow() -> np.float32:
            for _ in range(20):
                time.sleep(0.02)
            return np.float32(1)

        first = tf.numpy_function(slow, [], tf.float32)
        second = tf.numpy_function(lambda x: x, [first], tf.float32)
        session.run(tf.constant(1) + 1)
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting for notification"):
            session.run(second, options=tf.RunOptions(timeout_in_ms=50))
        assert session.run(second) == 1


def test_traces_fill_the_step_stats() -> None:
    """
    Nodes with their times and the threads that ran them.
    """
    metadata = tf.RunMetadata()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [64, 64])
        y = tf.matmul(x, x, name="product")
        session.run(y, {x: np.ones((64, 64))}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    (device,) = metadata.step_stats.dev_stats
    (node,) = [stats for stats in device.node_stats if stats.node_name == "product"]

    assert node.thread_id > 0
    assert abs(node.all_start_micros / 1e6 - time.time()) < 60


def test_missing_devices_need_soft_placement(capsys: pytest.CaptureFixture[str]) -> None:
    """
    With it ops run on the CPU; without it the error lists the devices.
    """
    with tf.Graph().as_default():
        with tf.device("/GPU:0"):
            y = tf.constant(1.0, name="c") + 1
        with tf.device("/CPU:1"):
            z = tf.constant(1.0) + 1
        hard = tf.Session(config=tf.ConfigProto(device_count={"CPU": 2}))
        assert hard.run(z) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"available devices are \[ .*CPU:0, .*CPU:1 \]"):
            hard.run(y)
        soft = tf.Session(config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=True))
        assert soft.run(y) == 2
    assert "c: (Const): /job:localhost/replica:0/task:0/device:CPU:0" in capsys.readouterr().err

    tf.config.set_soft_device_placement(False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:0"), tf.device("/GPU:0"):
        tf.constant(1.0)


def test_impossible_numbers_and_fields_raise() -> None:
    """
    Nothing is clamped or ignored. The messages of ConfigProto are protobuf's, as in TensorFlow.
    """
    with pytest.raises(ValueError, match='has no "cpu_options" field'):
        tf.ConfigProto(cpu_options=None)
    with pytest.raises(AttributeError, match='has no "intra_op" field'):
        tf.ConfigProto().intra_op = 1
    for wrong, kind, text in (
        ("2", TypeError, "interpreted as an integer"),
        (1.5, TypeError, "interpreted as an integer"),
        (True, TypeError, "intra_op_parallelism_threads: Expected an int"),
        (1 << 40, ValueError, "out of range"),
    ):
        with pytest.raises(kind, match=text):
            tf.ConfigProto(intra_op_parallelism_threads=wrong)
    with pytest.raises(ValueError, match="intra_op"):
        tf.config.threading.set_intra_op_parallelism_threads(-1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="intra_op"):
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=-2))


def test_a_session_rejects_other_types_of_config() -> None:
    """
    The error says what is expected.
    """
    with pytest.raises(TypeError, match=r"must be a tf\.ConfigProto, but got \"dict\""):
        tf.compat.v1.Session(config={"intra_op_parallelism_threads": 2})
