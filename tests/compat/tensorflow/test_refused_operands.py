"""Operands and attributes that TensorFlow refuses: an InvalidArgumentError, never a wrapped, ignored or empty result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft.compat.tensorflow as tf

X = np.ones((1, 4, 4, 4), np.float32)
W = np.ones((2, 2, 4, 3), np.float32)

REFUSED: dict[str, Callable[[], Any]] = {
    "a pool over channels": lambda: tf.nn.max_pool(X, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"),
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
    "one_hot of depth -3": lambda: tf.one_hot([1, 2], -3),
    "a bias of another length": lambda: tf.nn.bias_add(np.ones((2, 1), np.float32), np.ones(3, np.float32)),
    "a bias of rank 0": lambda: tf.nn.bias_add(np.ones((2, 3), np.float32), np.float32(1)),
    "blocks of 0": lambda: tf.space_to_batch(X, [0, 0], [[0, 0], [0, 0]]),
    "blocks that do not divide": lambda: tf.space_to_batch(X, [3, 3], [[0, 0], [0, 0]]),
    "negative paddings": lambda: tf.space_to_batch(X, [2, 2], [[-1, 1], [0, 0]]),
    "crops beyond the data": lambda: tf.batch_to_space(np.ones((4, 1, 1, 1), np.float32), [2, 2], [[2, 2], [0, 0]]),
    "a batch that blocks do not divide": lambda: tf.batch_to_space(X, [2, 2], [[0, 0], [0, 0]]),
    "bounds of two lengths": lambda: tf.strided_slice(X, [0, 0], [1], [1, 1]),
    "strides of another length": lambda: tf.strided_slice(X, [0, 0], [1, 1], [1]),
    "two ellipses": lambda: tf.strided_slice(X, [0, 0], [1, 1], [1, 1], ellipsis_mask=3),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_tensorflow_refuses_is_refused_in_its_kind_of_error(what: str) -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        REFUSED[what]()


def test_new_axes_count_from_both_ends() -> None:
    assert [tf.stack([X, X], axis=axis).shape[axis] for axis in (-5, -1, 0, 4)] == [2] * 4
    assert [tuple(tf.one_hot([1, 2], 3, axis=axis).shape) for axis in (-1, 0, 1)] == [(2, 3), (3, 2), (2, 3)]
