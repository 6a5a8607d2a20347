"""Functions whose sizes depend on data, for treadle's facade and for TensorFlow: each takes the module `tf` first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def masked(tf: Any, x: Any, n: Any) -> Any:
    """What follows a mask, and the mask's result itself."""
    y = tf.boolean_mask(x, x > 0)
    return y, tf.reduce_sum(y * 2.0), tf.concat([y, y], 0)


def places(tf: Any, x: Any, n: Any) -> Any:
    found = tf.where(x > 0.5)
    return found, tf.gather_nd(x, found) + 1.0


def chosen_rows(tf: Any, x: Any, n: Any) -> Any:
    """Rows of a matrix, and a product with them."""
    rows = tf.boolean_mask(tf.reshape(x, [-1, 4]), tf.reshape(x, [-1, 4])[:, 0] > 0)
    return tf.matmul(rows, rows, transpose_b=True), tf.nn.softmax(rows)


def unique_numbers(tf: Any, x: Any, n: Any) -> Any:
    y, at = tf.unique(tf.cast(x * 3.0, tf.int32))
    return y, at, tf.size(y)


def computed_range(tf: Any, x: Any, n: Any) -> Any:
    count = tf.reduce_sum(tf.cast(x > 0, tf.int32)) + n
    return tf.range(count) * 2, tf.reduce_sum(tf.range(count))


def computed_k(tf: Any, x: Any, n: Any) -> Any:
    values, at = tf.nn.top_k(x, n)
    return values, at, tf.reduce_max(values + 1.0)


def computed_shape(tf: Any, x: Any, n: Any) -> Any:
    y = tf.boolean_mask(x, x > -10.0)
    return tf.reshape(y, [n, -1]) * 2.0, tf.zeros([n, 3]) + 1.0, tf.tile(x[:2], [n])


def computed_slice(tf: Any, x: Any, n: Any) -> Any:
    return x[:n] + 1.0, x[n:], tf.slice(x, [n], [2])


def boxes(tf: Any, x: Any, n: Any) -> Any:
    corner = tf.reshape(x, [-1, 4])
    low = tf.minimum(corner[:, :2], corner[:, 2:])
    high = tf.maximum(corner[:, :2], corner[:, 2:])
    found = tf.image.non_max_suppression(tf.concat([low, high], 1), corner[:, 0], 3, 0.3)
    return found, tf.gather(corner, found) + 1.0


def two_masks(tf: Any, x: Any, n: Any) -> Any:
    y = tf.boolean_mask(x, x > -1.0)
    z = tf.boolean_mask(y, y < 0.5)
    return z, tf.shape(y), tf.shape(z)[0] + 1


def loop_behind(tf: Any, x: Any, n: Any) -> Any:
    """A loop over what a mask chooses."""
    y = tf.boolean_mask(x, x > 0)
    return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, v * 1.5), [tf.constant(0), y])[1]


def branch_behind(tf: Any, x: Any, n: Any) -> Any:
    y = tf.boolean_mask(x, x > 0)
    return tf.cond(n > 2, lambda: y * 2.0, lambda: y[:1]) + 1.0


def summed_behind(tf: Any, x: Any, n: Any) -> Any:
    """A loop that reads the elements that a mask chooses, one by one."""
    y = tf.boolean_mask(x, x > 0)

    def body(i: Any, total: Any) -> Any:
        return i + 1, total * 0.5 + y[i]

    return tf.while_loop(lambda i, _: i < tf.shape(y)[0], body, [tf.constant(0), tf.constant(0.0)])[1]


CASES: dict[str, Callable[..., Any]] = {
    case.__name__: case
    for case in (
        masked, places, chosen_rows, unique_numbers, computed_range, computed_k, computed_shape, computed_slice, boxes,
        two_masks, loop_behind, branch_behind, summed_behind,
    )
}  # fmt: skip


def operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return operands of the functions; with each seed their results have other sizes."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, 24).astype(np.float32)
    x[:2] = 1 + seed % 3
    return x, np.array((1, 2, 3, 4, 6)[seed % 5], np.int32)
