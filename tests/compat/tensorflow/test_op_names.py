"""Names of operations as an argument of ops."""

from __future__ import annotations

import numpy as np

import treadle.compat.tensorflow as tf


def test_the_name_may_be_the_last_argument() -> None:
    """
    tf.nn.relu(x, "name") means name="name".
    """
    with tf.Graph().as_default():
        x = tf.constant(np.ones((2, 2), np.float32))
        names = [tf.identity(x, "a").op.name, tf.add(x, x, "b").op.name, tf.nn.relu(x, name="c").op.name]

    assert names == ["a", "b", "c"]


def test_adjoints_of_real_matrices_are_transposes() -> None:
    """
    matmul(adjoint_b=True) is matmul(transpose_b=True).
    """
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    np.testing.assert_array_equal(tf.matmul(x, x, adjoint_b=True).numpy(), x @ x.T)
    np.testing.assert_array_equal(tf.matmul(x, x, adjoint_a=True).numpy(), x.T @ x)
