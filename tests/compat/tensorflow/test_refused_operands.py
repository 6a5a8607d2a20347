"""Operands and attributes that TensorFlow rejects raise InvalidArgumentError; none is wrapped or ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf

X = np.ones((1, 4, 4, 4), np.float32)
W = np.ones((2, 2, 4, 3), np.float32)

REFUSED: dict[str, Callable[[], Any]] = {
    "a pool over channels that it does not divide": lambda: tf.nn.max_pool(X, [1, 1, 1, 3], [1, 1, 1, 3], "VALID"),
    "a pool over channels, in steps": lambda: tf.nn.max_pool(X, [1, 1, 1, 2], [1, 1, 1, 1], "VALID"),
    "a pool over channels and rows": lambda: tf.nn.max_pool(X, [1, 2, 1, 2], [1, 2, 1, 2], "VALID"),
    "a mean over channels": lambda: tf.nn.avg_pool(X, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"),
    "a pool over the batch": lambda: tf.nn.max_pool(X, [2, 1, 1, 1], [1, 1, 1, 1], "VALID"),
    "strides over channels": lambda: tf.nn.conv2d(X, W, [1, 1, 1, 2], "VALID"),
    "dilations of the batch": lambda: tf.nn.conv2d(X, W, 1, "VALID", dilations=[2, 1, 1, 1]),
    "an unknown layout": lambda: tf.nn.conv2d(X, W, 1, "VALID", data_format="FOO"),
    "a layout of vectors": lambda: tf.nn.conv2d(X, W, 1, "VALID", data_format="NCHW_VECT_C"),
    "strides of 0, SAME": lambda: tf.nn.conv2d(X, W, 0, "SAME"),
    "strides of 0, VALID": lambda: tf.nn.conv2d(X, W, 0, "VALID"),
    "a filter of rank 3": lambda: tf.nn.conv2d(X, W[0], 1, "SAME"),
    "a filter without channels": lambda: tf.nn.conv2d(X, W[:, :, :0], 1, "SAME"),
    "pads of the channels": lambda: tf.nn.conv2d(X, W, 1, [[0, 0], [0, 0], [0, 0], [1, 1]]),
    "a stack on axis 77": lambda: tf.stack([X, X], axis=77),
    "a stack of nothing": lambda: tf.raw_ops.Pack(values=[]) if hasattr(tf, "raw_ops") else tf.stack([], axis=0),
    "one_hot on axis 9": lambda: tf.one_hot([1, 2], 3, axis=9),
    "one_hot on axis -2": lambda: tf.one_hot([1, 2], 3, axis=-2),
    "one_hot of a vector of values": lambda: tf.one_hot([1, 2], 3, on_value=[1]),
    "one_hot of depth -3": lambda: tf.one_hot([1, 2], -3),
    "a bias of another length": lambda: tf.nn.bias_add(np.ones((2, 1), np.float32), np.ones(3, np.float32)),
    "a bias of channels first of rank 2": lambda: tf.nn.bias_add(X[0, 0], X[0, 0, 0], data_format="NCHW"),
    "a bias of rank 0": lambda: tf.nn.bias_add(np.ones((2, 3), np.float32), np.float32(1)),
    "blocks of 0": lambda: tf.space_to_batch(X, [0, 0], [[0, 0], [0, 0]]),
    "blocks that do not divide": lambda: tf.space_to_batch(X, [3, 3], [[0, 0], [0, 0]]),
    "negative paddings": lambda: tf.space_to_batch(X, [2, 2], [[-1, 1], [0, 0]]),
    "crops beyond the data": lambda: tf.batch_to_space(np.ones((4, 1, 1, 1), np.float32), [2, 2], [[2, 2], [0, 0]]),
    "a batch that blocks do not divide": lambda: tf.batch_to_space(X, [2, 2], [[0, 0], [0, 0]]),
    "bounds of two lengths": lambda: tf.strided_slice(X, [0, 0], [1], [1, 1]),
    "strides of another length": lambda: tf.strided_slice(X, [0, 0], [1, 1], [1]),
    "an index with a negative stride": lambda: tf.strided_slice(X, [0], [1], [-1], shrink_axis_mask=1),
    "tensors of two shapes added": lambda: tf.add_n([X, X[0]]),
    "bounds that are larger than what they clip": lambda: tf.clip_by_value(X[0], X, 1.0),
    "more than there are, the largest of": lambda: tf.nn.top_k(X, 5),
    "labels of another shape": lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0], logits=X[0, 0]),
    "a negative label": lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[-1], logits=X[0, 0, :1]),
    "logits and labels of two shapes": lambda: tf.nn.sigmoid_cross_entropy_with_logits(labels=X[0], logits=X),
    "a variance of integers": lambda: tf.math.reduce_variance(X.astype(np.int32)),
    "a spectral norm": lambda: tf.norm(X[0, 0], ord=2, axis=[0, 1]),
    "a norm of three axes": lambda: tf.norm(X, axis=[0, 1, 2]),
    "more axes than there are, in a product": lambda: tf.tensordot(X[0, 0], X[0, 0], 3),
    "an axis twice, in a product": lambda: tf.tensordot(X[0, 0], X[0, 0], [[0, 0], [0, 1]]),
    "a matrix of rank 1": lambda: tf.linalg.matvec(X[0, 0, 0], X[0, 0, 0]),
    "targets of another length": lambda: tf.math.in_top_k([0, 1, 2], X[0, 0, :2], 1),
    "more diagonals than there are": lambda: tf.linalg.band_part(X[0, 0], 5, 0),
    "no numbers from 0 to 1": lambda: tf.linspace(0.0, 1.0, 0),
    "steps in the other direction": lambda: tf.range(3, 0),
    "steps of 0": lambda: tf.range(0, 3, 0),
    "blocks of one pixel": lambda: tf.nn.space_to_depth(X, 1),
    "images of no rows": lambda: tf.image.resize_bilinear(X[:, :0], [2, 2]),
    "pads of less than nothing": lambda: tf.pad(X[0, 0], [[0, 0], [-1, 0]]),
    "nothing mirrored": lambda: tf.pad(X[0, :0], [[0, 0], [1, 1]], "REFLECT"),
    "an element of a tensor without any": lambda: tf.gather_nd(X[:, :0], [[0]]),
    "all of a tensor without elements": lambda: tf.gather_nd(X[:, :0], np.zeros((2, 0), np.int32)),
    "an element added to a tensor without any": lambda: tf.scatter_nd([[0]], X[0, 0, :1, :0], [3, 0]),
    "two ellipses": lambda: tf.strided_slice(X, [0, 0], [1, 1], [1, 1], ellipsis_mask=3),
}


@pytest.mark.parametrize("what", REFUSED)
def test_operands_that_tensorflow_rejects_raise_its_errors(what: str) -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        REFUSED[what]()


def test_new_axes_count_from_both_ends() -> None:
    assert [tf.stack([X, X], axis=axis).shape[axis] for axis in (-5, -1, 0, 4)] == [2] * 4
    assert [tuple(tf.one_hot([1, 2], 3, axis=axis).shape) for axis in (-1, 0, 1)] == [(2, 3), (3, 2), (2, 3)]


def test_a_pool_over_channels_takes_the_largest_of_each_group() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 3, 4)).astype(np.float32)

    found = tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "SAME")

    np.testing.assert_array_equal(found, x.reshape(2, 3, 3, 2, 2).max(-1))


def test_clip_by_value_with_crossed_bounds_gives_the_lower_bound() -> None:
    assert tf.clip_by_value(np.float32(5), 3.0, 1.0).numpy() == 3


@pytest.mark.parametrize(("kind", "wanted"), [("fro", 30**0.5), (1, 6), (np.inf, 7)])
def test_norms_over_two_axes_are_matrix_norms(kind: Any, wanted: float) -> None:
    matrix = np.array([[1, -2], [3, -4]], np.float32)

    found = tf.norm(matrix, ord=kind, axis=[0, 1])
    kept = tf.norm(matrix, ord=kind, axis=[-2, -1], keepdims=True)

    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(kept, [[wanted]], rtol=1e-6)


def test_targets_out_of_range_and_rows_with_nan_are_never_in_the_top_k() -> None:
    rows = np.array([[1, 2, 3]] * 4, np.float32)
    rows[3, 0] = np.nan

    np.testing.assert_array_equal(tf.math.in_top_k([2, -1, 3, 2], rows, 3), [True, False, False, False])


def test_floordiv_of_the_smallest_integer_rounds_down() -> None:
    least = np.iinfo(np.int32).min

    np.testing.assert_array_equal(tf.constant([least, 7, -7]) // tf.constant([3, -2, -7]), [least // 3, -4, 1])


ODD: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "no functions in a cond": (TypeError, lambda tf: tf.cond(tf.constant(True), (1,), (2,))),
    "no function in a switch_case": (TypeError, lambda tf: tf.switch_case(tf.constant(0), [1, 2])),
    "no function in a while_loop": (TypeError, lambda tf: tf.while_loop(lambda i: i < 1, 3, [tf.constant(0)])),
    "None in place of an operand": (ValueError, lambda tf: tf.add(None, 1)),
    "None in place of the other operand": (ValueError, lambda tf: tf.add(tf.constant(1.0), None)),
    "rows of two lengths": (ValueError, lambda tf: tf.constant([[1], [1, 2]])),
    "a depth of text": (TypeError, lambda tf: tf.one_hot(tf.constant([1]), "x")),
    "a number of text": (TypeError, lambda tf: tf.linspace(0.0, 1.0, "a")),
}
INVALID: dict[str, Callable[[Any], Any]] = {
    "a shape of text": lambda tf: tf.reshape(tf.constant([1]), "a"),
    "sizes of text": lambda tf: tf.fill(["a"], 1),
    "repeats of text": lambda tf: tf.tile(tf.constant([1]), "a"),
    "a loop whose condition is a number": lambda tf: tf.function(
        lambda: tf.while_loop(lambda i: i, lambda i: i, [tf.constant(1)])
    )(),
}


def libraries() -> list[Any]:
    try:
        import tensorflow as peer  # noqa: ICN001 - the facade is tf
    except ImportError:
        return [tf]
    return [tf, peer]


@pytest.mark.parametrize("name", ODD)
def test_arguments_of_another_kind_raise_what_tensorflow_raises(name: str) -> None:
    kind, make = ODD[name]
    for library in libraries():
        with pytest.raises(kind) as caught:
            make(library)
        assert type(caught.value) is kind
        assert "not callable" not in str(caught.value)
        assert "int()" not in str(caught.value)


@pytest.mark.parametrize("name", INVALID)
def test_text_and_numbers_out_of_place_are_invalid_arguments(name: str) -> None:
    for library in libraries():
        with pytest.raises(library.errors.InvalidArgumentError):
            INVALID[name](library)


def test_text_is_not_cast_to_numbers() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cast string to i32 is not supported"):
        tf.cast(tf.constant("1"), tf.int32)
