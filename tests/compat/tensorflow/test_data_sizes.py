"""Functions whose sizes depend on data take one native run, and one plan for all sizes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
from tests.compat.tensorflow.data_size_cases import CASES, operands

RUNS = range(8)


def arrays_of(found: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in (found if isinstance(found, tuple | list) else (found,))]


def traced_case(name: str) -> Any:
    return tf.function(lambda x, n: CASES[name](tf, x, n))


@pytest.mark.parametrize("name", CASES)
def test_one_native_run_and_one_plan(name: str) -> None:
    """
    Once some sizes have been there, no further plan is compiled; and each call is one native run.
    """
    traced = traced_case(name)
    for seed in RUNS[:3]:
        traced(*map(tf.constant, operands(seed)))
    before = traced.compiles
    for seed in RUNS:
        x, n = operands(seed)
        found = arrays_of(traced(tf.constant(x), tf.constant(n)))
        wanted = arrays_of(CASES[name](tf, tf.constant(x), tf.constant(n)))
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert traced.compiles == before
    assert traced.native_runs == 3 + len(RUNS)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_tensorflow(name: str) -> None:
    peer = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    traced = traced_case(name)
    wanted_of = peer.function(lambda x, n: CASES[name](peer, x, n))
    for seed in RUNS:
        x, n = operands(seed)
        found = arrays_of(traced(tf.constant(x), tf.constant(n)))
        wanted = arrays_of(wanted_of(peer.constant(x), peer.constant(n)))
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_results_of_python_steps_take_part() -> None:
    """
    An assignment of what a mask chooses is a stage of its own; the state is as after one call each.
    """
    total = tf.Variable(0.0)

    @tf.function
    def call(x: Any) -> Any:
        y = tf.boolean_mask(x, x > 0)
        total.assign_add(tf.reduce_sum(y))
        return y * total

    for count, x in enumerate(([1.0, -1.0, 2.0], [3.0, 4.0, -5.0], [-1.0, -2.0, -3.0])):
        before = float(total.numpy())
        array = np.array(x, np.float32)
        kept = array[array > 0]
        np.testing.assert_array_equal(call(tf.constant(array)), kept * (before + kept.sum()))
        assert float(total.numpy()) == before + kept.sum(), count


def test_a_python_function_reads_what_a_mask_chooses() -> None:
    seen: list[int] = []

    @tf.function
    def call(x: Any) -> Any:
        y = tf.boolean_mask(x, x > 0)
        found = tf.numpy_function(lambda a: seen.append(len(a)) or a * 2, [y], tf.float32)
        return tf.reduce_sum(found)

    assert float(call(tf.constant([1.0, -1.0, 2.0]))) == 6
    assert float(call(tf.constant([1.0, 5.0, 2.0]))) == 16
    assert seen == [2, 3]


def deeper(x: Any, n: Any) -> Any:
    """A loop, behind a mask, that gives its variable another axis each time."""
    y = tf.boolean_mask(x, x > 0)
    shapes = [tf.TensorShape([]), tf.TensorShape(None)]
    return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, tf.stack([v, v + 1.0])), [tf.constant(0), y], shapes)[
        1
    ]


def test_a_loop_behind_a_mask_may_add_axes() -> None:
    traced = tf.function(deeper)
    x = np.array([1, -1, 2, 3], np.float32)
    for n in (0, 1, 2, 3, 1):
        wanted = x[x > 0]
        for _ in range(n):
            wanted = np.stack([wanted, wanted + 1])
        np.testing.assert_array_equal(traced(tf.constant(x), tf.constant(n)), wanted)
    assert traced.native_runs == 5


def sum_or_double(tf: Any, y: Any, yes: Any) -> Any:
    """A branch whose sides have results of different ranks: Python takes the side, between two stages."""
    return tf.cond(yes, lambda: tf.reduce_sum(y), lambda: y * 2)


def behind_a_mask(tf: Any, x: Any, n: Any) -> Any:
    """That branch on what a mask chooses: it needs Python for all sizes, which becomes clear in the compiler."""
    return sum_or_double(tf, tf.boolean_mask(x, x > 0), n > 1)


def behind_a_rank(tf: Any, x: Any, n: Any) -> Any:
    """That branch on a tensor whose rank depends on data: that it needs Python becomes clear in the run."""
    sizes = tf.stack([n, 4 // n])
    return sum_or_double(tf, tf.reshape(x, tf.boolean_mask(sizes, sizes > 1)), n > 1)


@pytest.mark.parametrize("case", [behind_a_mask, behind_a_rank])
def test_a_branch_with_sides_of_different_ranks_runs_in_stages(case: Any) -> None:
    """
    A stage that cannot be one native run is built anew as several, once: later calls have the same ones.
    """
    traced = tf.function(lambda x, n: case(tf, x, n))
    x = np.array([1, -1, 2, 3], np.float32)

    def call(n: int) -> Any:
        runs = traced.native_runs
        found = np.asarray(traced(tf.constant(x), tf.constant(n)))
        kept = x if case is behind_a_rank else x[x > 0]
        np.testing.assert_array_equal(found, kept.sum() if n > 1 else kept * 2)
        return traced.native_runs - runs

    call(1), call(2)
    counts = [call(n) for n in (1, 2, 4, 1)]
    assert len({*counts}) == 1
    assert counts[0] > 1


@pytest.mark.parametrize("case", [behind_a_mask, behind_a_rank])
def test_such_branches_agree_with_tensorflow(case: Any) -> None:
    peer = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    traced = tf.function(lambda x, n: case(tf, x, n))
    wanted = peer.function(lambda x, n: case(peer, x, n))
    x = np.array([1, -1, 2, 3], np.float32)
    for n in (1, 2, 4, 1):
        found = traced(tf.constant(x), tf.constant(n))
        np.testing.assert_array_equal(found, wanted(peer.constant(x), peer.constant(n)))


def test_threads_share_a_stage_that_is_refused_in_the_run() -> None:
    """
    Whichever thread is refused first, each run starts anew and has its own results.
    """
    x = np.array([1, -1, 2, 3], np.float32)

    def call(traced: Any, n: int) -> Any:
        return np.asarray(traced(tf.constant(x), tf.constant(n))).tolist()

    for _ in range(4):
        traced = tf.function(lambda x, n: behind_a_rank(tf, x, n))
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(partial(call, traced), [1, 2, 4, 1] * 4)
            assert list(found) == [(x * 2).tolist(), 5, 5, (x * 2).tolist()] * 4


def test_operands_that_do_not_fit_name_their_operation() -> None:
    @tf.function
    def call(x: Any) -> Any:
        return tf.add(tf.boolean_mask(x, x > 0), tf.zeros([3]), name="sum")

    assert np.asarray(call(tf.constant([1.0, 2.0, 3.0, -1.0]))).tolist() == [1, 2, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"broadcast[\s\S]*sum") as caught:
        call(tf.constant([1.0, 2.0, -3.0, -1.0]))
    assert getattr(caught.value.op, "name", None) == "sum"
    assert np.asarray(call(tf.constant([1.0, 2.0, 3.0, -1.0]))).tolist() == [1, 2, 3]
    assert call.native_runs == 3


def test_an_index_out_of_range_behind_a_mask() -> None:
    call = tf.function(lambda x: tf.gather(tf.boolean_mask(x, x > 0), [2]))
    assert np.asarray(call(tf.constant([1.0, 2.0, 3.0]))).tolist() == [3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        call(tf.constant([1.0, -2.0, 3.0]))


def test_sessions_of_graph_mode_take_one_run() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [6])
        size = tf.compat.v1.placeholder(tf.int32, [2])
        y = tf.boolean_mask(x, x > 0) * 2.0
        fetches = [y, tf.reduce_sum(y), tf.reshape(x, size) + 1.0]
        shapes = ([2, 3], [3, 2], [6, 1], [1, 6])
        compiled = []
        for _ in range(2):
            for count, wanted in enumerate(shapes):
                array = np.arange(6, dtype=np.float32) - count
                found = session.run(fetches, {x: array, size: wanted})
                np.testing.assert_array_equal(found[0], array[array > 0] * 2)
                np.testing.assert_array_equal(found[2], array.reshape(wanted) + 1)
            compiled.append(session.compiles)
        assert session.native_runs == 2 * len(shapes)
        assert compiled[0] == compiled[1]
