"""Sessions, variables and control flow, written as a user of TensorFlow writes them."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1


def test_fetches_keep_their_structure() -> None:
    """
    Lists, dictionaries, named tuples, operations, names and variables may be fetched together.
    """
    Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [2], name="x")
        y = tf.identity(x * 2, name="y")
        found = session.run({"p": Pair(x, [y, tf.no_op()]), "n": ("y:0", tf.reduce_sum(y))}, {"x:0": [1, 2]})

    assert isinstance(found["p"], Pair)
    np.testing.assert_array_equal(found["p"].b[0], [2, 4])
    assert found["p"].b[1] is None
    assert found["n"][1] == 6
    assert isinstance(found["n"][1], np.float32)


def test_any_tensor_can_be_fed() -> None:
    """
    What only a fed tensor depends on does not run.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [])
        middle = x + 1
        y = middle * 10

        assert session.run(y, {middle: 5}) == 50
        assert session.run(y, {x: 5}) == 60


def test_errors_of_feeds_and_fetches_say_what_is_wrong() -> None:
    """
    A missing feed, a wrong shape, a foreign tensor and a closed session.
    """
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3], name="x")
    session = tf1.Session(graph=graph)
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'x'"):
        session.run(x + 1)
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(2,\) for Tensor x:0, which has shape \(3,\)"):
        session.run(x + 1, {x: [1, 2]})
    with pytest.raises(TypeError, match="feed_dict: wanted a dictionary of tensors and values, got list"):
        session.run(x + 1, [x])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="not an element of this session's graph"):
        session.run(tf.constant(1))
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(x, {x: [1, 2, 3]})


def test_variables_belong_to_their_session() -> None:
    """
    Two sessions of one graph have two states; reading before initialising fails.
    """
    with tf.Graph().as_default() as graph:
        v = tf.Variable([1.0, 2.0], name="v")
        more = v.assign_add([1.0, 1.0])
        init = tf1.global_variables_initializer()
    first, second = tf1.Session(graph=graph), tf1.Session(graph=graph)
    first.run(init)
    first.run(more)

    np.testing.assert_array_equal(first.run(v), [2, 3])
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
        second.run(v)
    second.run(init)
    np.testing.assert_array_equal(second.run(v), [1, 2])


def test_control_dependencies_order_assignments_and_reads() -> None:
    """
    A read inside the block sees the assignment; concurrent additions are not lost.
    """
    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0)
        with tf.control_dependencies([v.assign(v * 10)]):
            after = v + 1
        count = tf.Variable(0)
        add = count.assign_add(1)
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as session:
        session.run(init)
        assert session.run(after) == 11
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: session.run(add), range(40)))
        assert session.run(count) == 40


def test_get_variable_initialisers_and_random_seeds() -> None:
    """
    Sessions of a graph with a seed draw the same numbers; each run draws further ones.
    """
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(3)
        w = tf1.get_variable("w", [50, 60], initializer=tf1.truncated_normal_initializer(stddev=2.0))
        r = tf.random.uniform([1000])
        init = tf1.global_variables_initializer()
    found = []
    for _ in range(2):
        with tf1.Session(graph=graph) as session:
            session.run(init)
            found.append((session.run(w), session.run(r), session.run(r)))

    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(found[0][0]).max() <= 4
    assert not np.array_equal(found[0][1], found[0][2])
    assert 0 <= found[0][1].min() < 0.01 < 0.99 < found[0][1].max() < 1


def test_cond_runs_one_branch() -> None:
    """
    Only the branch taken runs; branches read tensors and variables around them.
    """
    ran: list[str] = []

    def branch(name: str, value: tf.Tensor) -> tf.Tensor:
        return tf.numpy_function(lambda x: ran.append(name) or x, [value], tf.float32)

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2])
        v = tf.Variable(3.0)
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: branch("yes", x * v), lambda: branch("no", -x))
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as session:
        session.run(init)
        np.testing.assert_array_equal(session.run(y + 1, {x: [1, 2]}), [4, 7])
        assert ran == ["yes"]
        np.testing.assert_array_equal(session.run(y + 1, {x: [-1, -2]}), [2, 3])
        assert ran == ["yes", "no"]


def test_while_loop_repeats_its_body() -> None:
    """
    In a graph, with captures and growing shapes, and eagerly.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.placeholder(tf.int32, [])
        i, total = tf.while_loop(lambda i, t: i < 10, lambda i, t: [i + step, t + tf.cast(i, tf.float32)], [0, 0.0])
        grown = tf.while_loop(
            lambda x: tf.shape(x)[0] < 5,
            lambda x: (tf.concat([x, x[-1:] * 2], 0),),
            (tf.constant([1.0]),),
            shape_invariants=(tf.TensorShape([None]),),
        )
        assert session.run([i, total], {step: 3}) == [12, 18.0]
        np.testing.assert_array_equal(session.run(grown[0]), [1, 2, 4, 8, 16])

    eager = tf.while_loop(lambda i: i < 10, lambda i: [i * 2], [tf.constant(1)])
    assert eager[0].numpy() == 16


def test_a_loop_variable_that_changes_its_shape_raises() -> None:
    """
    The error says what to do.
    """
    with tf.Graph().as_default(), pytest.raises(ValueError, match="shape_invariants"):
        tf.while_loop(lambda x: True, lambda x: [tf.concat([x, x], 0)], [tf.ones([2])])


def test_python_functions_are_steps_of_a_graph() -> None:
    """
    With and without a declared shape, with several results, and with their errors.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [3])
        eager = tf.py_function(lambda t: tf.reduce_sum(t) * 2, [x], tf.float32)
        low, high = tf.numpy_function(lambda a: (a.min(), a.max()), [x], [tf.float32, tf.float32])
        declared = tf.py_function(lambda t: t + 1, [x], Tout=tf.float32)
        declared.set_shape([3])
        y = (eager + high - low) * tf.reshape(declared, [3, 1])
        np.testing.assert_array_equal(session.run(y, {x: [1, 2, 3]}), [[28], [42], [56]])
        assert y.shape.rank is None or y.shape.as_list() == [3, 1]

        def fails(_: object) -> None:
            raise KeyError("nothing there")

        bad = tf.py_function(fails, [x], tf.float32)
        with pytest.raises(tf.errors.UnknownError, match="nothing there") as caught:
            session.run(bad, {x: [1, 2, 3]})
        assert isinstance(caught.value.__cause__, KeyError)


def test_independent_python_functions_overlap_where_they_block() -> None:
    """
    Functions that release the GIL are in progress at once, up to inter_op.
    """
    config = tf1.ConfigProto(inter_op_parallelism_threads=2, use_per_session_threads=True)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        both = threading.Barrier(2)

        def meet() -> np.float32:
            both.wait(60)
            return np.float32(1)

        c, d = (tf.numpy_function(meet, [], tf.float32) for _ in range(2))
        assert session.run(c + d) == 2


def test_functions_are_traced_once_for_each_signature() -> None:
    """
    tf.function runs Python code while tracing only, and updates variables in order.
    """
    traces: list[tuple[int, ...]] = []
    v = tf.Variable(1.0)

    @tf.function
    def f(x: tf.Tensor, scale: int = 2) -> dict[str, tf.Tensor]:
        traces.append(tuple(x.shape))
        v.assign_add(tf.reduce_sum(x))
        return {"y": x * scale + v, "v": v}

    np.testing.assert_array_equal(f(tf.constant([1.0, 2.0]))["y"], [6, 8])
    np.testing.assert_array_equal(f(np.float32([1, 2]), scale=2)["y"], [9, 11])
    assert f(tf.constant([1.0]))["v"].numpy() == 8
    assert v.numpy() == 8
    assert traces == [(2,), (2,), (1,)] or traces == [(2,), (1,)]


def test_eager_variables_change_at_once() -> None:
    """
    Outside a graph a variable is its value.
    """
    v = tf.Variable([1.0, 2.0])
    v.assign_sub([1.0, 0.0])

    np.testing.assert_array_equal((v * 2).numpy(), [0, 4])
    np.testing.assert_array_equal(v[1].numpy(), 2)


def test_sessions_and_variables_are_released() -> None:
    """
    Sessions and variables are freed, and with them their state.
    """
    v, session = tf.Variable([1.0]), tf1.Session(graph=tf.Graph())
    seen = weakref.ref(v), weakref.ref(session)
    del v, session
    gc.collect()

    assert [ref() for ref in seen] == [None, None]


def test_eager_random_numbers_follow_the_seed() -> None:
    """
    Setting the seed again starts the same numbers again; without it they differ.
    """
    found = []
    for _ in range(2):
        tf.random.set_seed(5)
        found.append((tf.random.normal([3]).numpy(), tf.random.normal([3]).numpy()))

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(*found[0])


def test_names_follow_scopes() -> None:
    """
    name_scope and unique names.
    """
    with tf.Graph().as_default() as graph:
        with tf.name_scope("outer"), tf.name_scope("inner"):
            a = tf.constant(1, name="a")
        b, c = tf.constant(1, name="b"), tf.constant(2, name="b")

    assert [t.name for t in (a, b, c)] == ["outer/inner/a:0", "b:0", "b_1:0"]
    assert graph.get_tensor_by_name("b_1:0") is c


def test_missing_attributes_give_advice() -> None:
    """
    dir() lists what works; anything else is an AttributeError with advice.
    """
    for space in (tf, tf1, tf.nn, tf.math, tf.config.threading, tf.errors, tf.random):
        for name in dir(space):
            assert name == "newaxis" or getattr(space, name) is not None
    with pytest.raises(AttributeError, match=r"treadle\.Session"):
        tf.keras  # noqa: B018 - the access is the test
    with pytest.raises(AttributeError, match=r"use tf\.nn\.softmax or"):
        tf.softmax  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean"):
        tf.nn.softmx  # noqa: B018
