"""Conversion of arguments of ops and of their results, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1

RAW: dict[str, tuple[Callable[[], Any], Any]] = {
    "a NumPy number": (lambda: tf.constant([1.0]) * np.sqrt(4.0), np.float32([2])),
    "a NumPy array": (lambda: tf.constant([1.0, 2.0]) * np.array([1.5, 2.5]), np.float32([1.5, 5])),
    "an array on the left": (lambda: np.array([2]) * tf.constant([3]), np.int32([6])),
    "an array in a list": (lambda: tf.concat([tf.ones([1]), np.zeros(1)], 0), np.float32([1, 0])),
    "numbers of two kinds": (lambda: tf.stack([1, 2.5]), np.float32([1, 2.5])),
    "an array alone": (lambda: tf.add(np.array([1.0]), 2), np.float64([3])),
    "a float beside doubles": (lambda: tf.constant([3.0], tf.float64) * 0.1, np.float64([0.30000000000000004])),
    "a list of doubles": (lambda: tf.constant([0.1, 1 / 3], tf.float64), np.float64([0.1, 1 / 3])),
    "bits": (lambda: (tf.constant([5, 6]) & 3) | ~tf.constant([0]), np.int32([-1, -1])),
    "a range of floats": (lambda: tf.range(0, 1, 0.25), np.float32([0, 0.25, 0.5, 0.75])),
    "a range with a dtype": (lambda: tf.range(2, dtype=tf.float32), np.float32([0, 1])),
    "linspace of integers": (lambda: tf.linspace(0, 1, 3), np.float64([0, 0.5, 1])),
    "one_hot with values": (lambda: tf.one_hot([0], 2, on_value=5, off_value=1), np.int32([[5, 1]])),
    "text": (lambda: tf.constant(["a", b"b"]), np.array([b"a", b"b"], object)),
    "a list as an index": (lambda: tf.constant([[1, 2], [3, 4]])[[0, 1]], np.int32(2)),
    "one tensor to concat": (lambda: tf.concat(np.ones((2, 1), np.float32), 0), np.ones((2, 1), np.float32)),
    "two tables": (
        lambda: tf.nn.embedding_lookup([tf.constant([[0.0], [1.0]]), tf.constant([[2.0], [3.0]])], [3, 0]),
        np.float32([[3], [0]]),
    ),
    "two tables in turn": (
        lambda: tf1.nn.embedding_lookup([tf.constant([[0.0], [1.0]]), tf.constant([[2.0], [3.0]])], [3, 0]),
        np.float32([[3], [0]]),
    ),
    "a mask of another axis": (lambda: tf.boolean_mask([[1, 2], [3, 4]], [False, True], axis=1), np.int32([[2], [4]])),
    "a steep leaky_relu": (lambda: tf.nn.leaky_relu([-1.0, 1.0], alpha=1.5), np.float32([-1.5, 1])),
    "sort": (lambda: tf.sort([2.0, 3.0, 1.0], direction="DESCENDING"), np.float32([3, 2, 1])),
    "argsort": (lambda: tf.argsort([2, 3, 1]), np.int32([2, 0, 1])),
    "repeat": (lambda: tf.repeat([1, 2], [2, 1]), np.int32([1, 1, 2])),
    "roll": (lambda: tf.roll([1, 2, 3], 1, 0), np.int32([3, 1, 2])),
    "eye of a batch": (lambda: tf.eye(1, batch_shape=[2]), np.ones((2, 1, 1), np.float32)),
    "diag": (lambda: tf.linalg.diag([[1.0, 2.0]]), np.float32([[[1, 0], [0, 2]]])),
    "matvec": (lambda: tf.linalg.matvec([[1.0, 2.0]], [3.0, 4.0]), np.float32([11])),
    "sequence_mask": (lambda: tf.sequence_mask([1, 2], 3), np.array([[1, 0, 0], [1, 1, 0]], bool)),
    "meshgrid": (lambda: tf.stack(tf.meshgrid([1, 2], [3, 4])), np.int32([[[1, 2], [1, 2]], [[3, 3], [4, 4]]])),
    "count_nonzero": (lambda: tf.math.count_nonzero([0, 3, 4]), np.int64(2)),
}


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_operands_take_the_dtype_of_the_tensor_operand(name: str, mode: str) -> None:
    """
    A float64 array with a float32 tensor gives TensorFlow's dtypes, in graphs and eagerly, also from the replay
    cache.
    """
    made, wanted = RAW[name]
    if mode == "eager":
        found = [made() for _ in range(3)][2].numpy()
    else:
        with tf.Graph().as_default(), tf1.Session() as session:
            found = session.run(made())
    assert np.asarray(found).dtype == np.asarray(wanted).dtype or name == "text"
    np.testing.assert_array_equal(found, wanted)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "a float beside integers": (lambda: tf.constant(1) + 2.5, TypeError),
    "None": (lambda: tf.constant(None), ValueError),
    "an object": (lambda: tf.constant(object()), ValueError),
    "too few numbers": (lambda: tf.constant([1, 2, 3], shape=[2, 2]), TypeError),
    "a number beyond the dtype": (lambda: tf.constant(300, dtype=tf.int8), TypeError),
    "a tensor of another dtype": (lambda: tf.convert_to_tensor(tf.constant(1), tf.float32), ValueError),
    "a float as an index": (lambda: tf.constant([1])[0.5], TypeError),
    "a negative row": (lambda: tf.gather([[1.0]], [-1]), tf.errors.InvalidArgumentError),
    "a row beyond the last": (lambda: tf.nn.embedding_lookup(np.ones((2, 2)), [2]), tf.errors.InvalidArgumentError),
    "a wide reflection": (lambda: tf.pad([1, 2], [[2, 0]], "REFLECT"), tf.errors.InvalidArgumentError),
    "a long slice": (lambda: tf.slice([1, 2], [1], [2]), tf.errors.InvalidArgumentError),
    "vectors to matmul": (lambda: tf.matmul([1.0], [1.0]), tf.errors.InvalidArgumentError),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_invalid_operands_raise_the_errors_of_tensorflow(name: str, mode: str) -> None:
    """
    In a graph too, where TensorFlow raises some of them only in the run.
    """
    made, wanted = REFUSED[name]
    with tf.Graph().as_default() if mode == "graph" else nullcontext(), pytest.raises(wanted):
        tf1.Session().run(made()) if mode == "graph" else made()


def test_indices_known_only_in_the_run_are_checked() -> None:
    """
    A negative index is an error, not the last row.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        at = tf1.placeholder(tf.int32, [None])
        rows = tf.gather(tf.constant([[1.0], [2.0]]), at)
        assert session.run(rows, {at: [1, 0]}).tolist() == [[2], [1]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
            session.run(rows, {at: [-1]})


def test_attributes_may_be_tensors_of_the_graph() -> None:
    """
    An axis, the number of rows of eye, the depth of one_hot and k of top_k, fed with different values.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        n = tf1.placeholder(tf.int32, [])
        x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
        total, eye, hot = tf.reduce_sum(x, axis=n), tf.eye(n + 1), tf.one_hot([1], n + 2)
        top = tf.math.top_k(x, k=n + 1)
        parts = tf.concat([x, x], axis=n)
        for number in (0, 1, 0):
            found = session.run([total, eye, hot, top.values, parts], {n: number})
            assert found[0].tolist() == np.sum([[1, 2], [3, 5]], number).tolist()
            assert found[1].shape == (number + 1,) * 2
            assert found[2].shape == (1, number + 2)
            assert found[3].shape == (2, number + 1)
            assert found[4].shape == ((4, 2), (2, 4))[number]


def test_several_results_have_the_structure_of_tensorflow() -> None:
    """
    top_k is a named tuple, moments a tuple, split a list.
    """
    top = tf.math.top_k([1.0, 3.0, 2.0], k=2)
    assert top.values.numpy().tolist() == [3, 2]
    assert top.indices.numpy().tolist() == [1, 2]
    assert isinstance(tf.nn.moments(tf.ones([2]), [0]), tuple)
    assert isinstance(tf.split([1, 2], 2), list)


def test_fetched_text_keeps_its_reference() -> None:
    """
    A string constant belongs to the graph after the results that share it are released.
    """
    import sys

    text = f"text {id(RAW)}".encode()
    with tf.Graph().as_default(), tf1.Session() as session:
        constant, fed = tf.constant(np.array(text, object)), tf1.placeholder(tf.string, [])
        before = sys.getrefcount(text)
        for _ in range(3):
            assert session.run([constant, fed], {fed: text}) == [text, text]
        assert sys.getrefcount(text) == before


def test_objects_other_than_text_are_rejected() -> None:
    """
    Arrays of objects must hold strings, in constants and in feeds.
    """
    with pytest.raises(ValueError, match=r"Unsupported object type int"):
        tf.constant(np.array(["a", 1], object))
    with tf.Graph().as_default(), tf1.Session() as session:
        fed = tf1.placeholder(tf.string, [None])
        with pytest.raises(ValueError, match=r"Unsupported object type NoneType"):
            session.run(tf.identity(fed), {fed: np.array([b"a", None], object)})


def test_values_print_as_in_tensorflow() -> None:
    """
    str() and repr() of tensors.
    """
    assert str(tf.constant([1, 2])) == "tf.Tensor([1 2], shape=(2,), dtype=int32)"
    assert str(tf.constant([[1], [2]])) == "tf.Tensor(\n[[1]\n [2]], shape=(2, 1), dtype=int32)"
    assert repr(tf.Variable(7.0)) == "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=7.0>"
    assert str(tf.config.list_physical_devices("CPU")[0]).startswith("PhysicalDevice(")
