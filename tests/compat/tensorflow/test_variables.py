"""Variables inside branches and loops, and concurrent runs that change them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1


def test_only_the_taken_branch_assigns() -> None:
    """
    Both branches assign variables; the other one changes nothing and needs no initialized variable.
    """
    with tf.Graph().as_default() as graph:
        flag = tf1.placeholder(tf.bool, [])
        v, w = tf.Variable([1.0, 2.0]), tf.Variable(10.0)
        never = tf1.get_variable("never", [2], initializer=tf1.zeros_initializer())
        y = tf.cond(flag, lambda: tf.reduce_sum(v.assign_add([1.0, 1.0])), lambda: w.assign(w * 2) + never[0])
        init = tf1.variables_initializer([v, w])
    with tf1.Session(graph=graph) as session:
        session.run(init)
        assert session.run(y, {flag: True}) == 5
        np.testing.assert_array_equal(session.run(v), [2, 3])
        assert session.run(w) == 10
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value never"):
            session.run(y, {flag: False})
        session.run(never.initializer)
        assert session.run(y, {flag: False}) == session.run(w)
        np.testing.assert_array_equal(session.run(v), [2, 3])


def test_a_loop_reads_what_its_iterations_assigned() -> None:
    """
    The body adds to a variable; body and condition of the next iteration read it.
    """
    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0)
        end = tf.while_loop(lambda i: v < 100.0, lambda i: (i + v.assign(v * 2) * 0 + 1,), (0.0,))
        with tf.control_dependencies([end[0]]):
            after = tf.identity(v)
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as session:
        for _ in range(2):
            session.run(init)
            assert session.run([end[0], after]) == [7, 128]
        assert session.run(end[0]) == 0


def test_reads_and_assignments_around_a_branch_keep_program_order() -> None:
    """
    Before, inside and after a cond, without control dependencies.
    """
    with tf.Graph().as_default() as graph:
        v = tf.Variable([1.0])
        before = v + 0
        first = v.assign([2.0])
        inside = tf.cond(tf.reduce_sum(first) > 0, lambda: v.assign_add([5.0]), lambda: v * 0)
        behind = v + 0
        last = v.assign_sub([1.0])
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as session:
        session.run(init)
        found = session.run([before, first, inside, behind, last])

        np.testing.assert_array_equal(np.concatenate(found), [1, 2, 7, 7, 6])
        np.testing.assert_array_equal(session.run(v), [6])


def test_a_python_function_may_run_its_session() -> None:
    """
    Both runs assign, while another thread uses the same session; no run waits for another.
    """
    config = tf1.ConfigProto(inter_op_parallelism_threads=2, use_per_session_threads=True)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        v, outer = tf.Variable(0), tf.Variable(0)
        add = v.assign_add(1)
        inside, may_continue = threading.Event(), threading.Event()

        def nested() -> np.int32:
            inside.set()
            assert may_continue.wait(30), "the other run could not change the variable while this one was in progress"
            return np.int32(session.run(add))

        both = outer.assign_add(tf.numpy_function(nested, [], tf.int32))
        session.run(tf1.global_variables_initializer())
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(session.run, both)
            assert inside.wait(30)
            assert session.run(add) == 1
            may_continue.set()
            assert run.result(30) == 2


def test_reads_after_a_python_function_see_its_assignments() -> None:
    """
    The function runs another program that assigns; the read has a control dependency on it.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        v = tf.Variable([1.0, 1.0])
        change = v.assign([5.0, 6.0])
        first = v.assign_add([1.0, 1.0])
        with tf.control_dependencies([first]):
            function = tf.py_function(lambda: session.run(change), [], [])
        with tf.control_dependencies([function]):
            after = tf.identity(v) * 1
        session.run(tf1.global_variables_initializer())
        found = session.run([first, after])

    np.testing.assert_array_equal(found[0], [2, 2])
    np.testing.assert_array_equal(found[1], [5, 6])


def test_assignments_before_a_failure_stay() -> None:
    """
    As in TensorFlow, a run is no transaction.
    """

    def fails() -> None:
        raise KeyError

    with tf.Graph().as_default(), tf1.Session() as session:
        v = tf.Variable(1)
        with tf.control_dependencies([v.assign(2)]):
            bad = tf.py_function(fails, [], [])
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.UnknownError):
            session.run(bad)
        assert session.run(v) == 2


def test_concurrent_additions_are_atomic() -> None:
    """
    Additions of concurrent runs happen one after the other, in graphs and eagerly.
    """
    eager = tf.Variable(0)
    with tf.Graph().as_default(), tf1.Session() as session:
        v = tf.Variable(0)
        add = v.assign_add(1)
        session.run(tf1.global_variables_initializer())
        with ThreadPoolExecutor(4) as pool:
            tickets = list(pool.map(lambda _: int(session.run(add)), range(100)))

    @tf.function
    def count() -> tf.Tensor:
        return eager.assign_add(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda turn: count() if turn % 2 else eager.assign_add(1), range(100)))

    assert sorted(tickets) == list(range(1, 101))
    assert eager.numpy() == 100


def test_values_of_another_shape_raise() -> None:
    """
    The error names the variable and both shapes; the variable keeps its value.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        v = tf.Variable([1.0, 2.0], name="v")
        x = tf1.placeholder(tf.float32, None)
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\(3,\) to v:0 of shape \(2,\)"):
            session.run(v.assign(x), {x: [1, 2, 3]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"v:0 of shape \(2,\) with a value of shape \(3,\)"):
            session.run(v.assign_add(x), {x: [1, 2, 3]})
        np.testing.assert_array_equal(session.run(v), [1, 2])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="inside cond or while_loop"):
        tf.cond(tf1.placeholder(tf.bool, []), lambda: tf.Variable(1.0) + 0, lambda: 1.0)
