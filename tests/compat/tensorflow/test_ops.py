"""Ops of the facade against NumPy, in graphs and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
from tests.compat.edges import ERFC, ERFC_OPERANDS, INFINITE_ROWS, LOG_SUM_EXP_OF_ROWS

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 6)).astype(np.float32)
Y = RNG.standard_normal((4, 6)).astype(np.float32)
N = RNG.integers(-9, 9, (4, 6)).astype(np.int32)
M = RNG.integers(1, 5, (4, 6)).astype(np.int32)
IDS = np.array([[2, 0], [1, 3]], np.int32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "arithmetic": (lambda x, y: (x + y) * 2 - 1 / (x * x + 1), (X, Y), (X + Y) * 2 - 1 / (X * X + 1)),
    "reflected": (lambda x: 1 - x, (X,), 1 - X),
    "integer division": (lambda a, b: a // b, (N, M), N // M),
    "integer remainder": (lambda a, b: a % b, (N, M), N % M),
    "true division of integers": (lambda a, b: a / b, (N, M), N / M),
    "power": (lambda x: x**2, (X,), X**2),
    "comparison": (lambda x, y: (x > y) & ~(x > 1), (X, Y), (X > Y) & ~(X > 1)),
    "functions": (lambda x: tf.exp(tf.sin(x)) + tf.sqrt(tf.abs(x)), (X,), np.exp(np.sin(X)) + np.sqrt(np.abs(X))),
    "matmul": (lambda x, y: tf.matmul(x, y, transpose_b=True), (X, Y), X @ Y.T),
    "einsum": (lambda x, y: tf.einsum("ij,kj->ik", x, y), (X, Y), X @ Y.T),
    "tensordot": (lambda x, y: tf.tensordot(x, y, [[1], [1]]), (X, Y), np.tensordot(X, Y, [[1], [1]])),
    "reduce_sum": (lambda x: tf.reduce_sum(x, axis=1, keepdims=True), (X,), X.sum(1, keepdims=True)),
    "reduce_any of nothing": (lambda x: tf.reduce_any(x > 0, axis=1), (X[:, :0],), np.zeros(4, bool)),
    "reduce_all of nothing": (lambda x: tf.reduce_all(x > 0), (X[:0],), np.array(True)),
    "reduce_mean": (tf.reduce_mean, (X,), X.mean()),
    "reduce_max": (lambda x: tf.reduce_max(x, [0, 1]), (X,), X.max()),
    "reduce_any": (lambda x: tf.reduce_any(x > 2, 0), (X,), (X > 2).any(0)),
    "reduce_all": (lambda x: tf.reduce_all(x > -9), (X,), np.True_),
    "reduce_logsumexp": (lambda x: tf.reduce_logsumexp(x, 1), (X,), np.log(np.exp(X).sum(1))),
    "reduce_std": (lambda x: tf.math.reduce_std(x, 0), (X,), X.std(0)),
    "norm": (lambda x: tf.norm(x, axis=1), (X,), np.linalg.norm(X, axis=1)),
    "argmax": (lambda x: tf.argmax(x, 1), (X,), X.argmax(1)),
    "cumsum": (lambda x: tf.cumsum(x, 1), (X,), X.cumsum(1)),
    "concat": (lambda x, y: tf.concat([x, y], 0), (X, Y), np.concatenate([X, Y])),
    "stack": (lambda x, y: tf.stack([x, y], axis=-1), (X, Y), np.stack([X, Y], -1)),
    "split": (lambda x: tf.split(x, 3, axis=1)[1], (X,), X[:, 2:4]),
    "split into sizes": (lambda x: tf.split(x, [1, -1], 1)[1], (X,), X[:, 1:]),
    "unstack": (lambda x: tf.unstack(x)[2], (X,), X[2]),
    "pad": (
        lambda x: tf.pad(x, [[1, 0], [2, 3]], constant_values=5),
        (X,),
        np.pad(X, ((1, 0), (2, 3)), constant_values=5),
    ),
    "reshape": (lambda x: tf.reshape(x, [2, -1]), (X,), X.reshape(2, -1)),
    "transpose": (tf.transpose, (X,), X.T),
    "expand and squeeze": (lambda x: tf.squeeze(tf.expand_dims(x, 1), [1]), (X,), X),
    "tile": (lambda x: tf.tile(x, [2, 1]), (X,), np.tile(X, (2, 1))),
    "reverse": (lambda x: tf.reverse(x, [1]), (X,), X[:, ::-1]),
    "slicing": (lambda x: x[1:, ::2][..., None, 0], (X,), X[1:, ::2][..., None, 0]),
    "negative indices": (lambda x: x[-1, ::-1], (X,), X[-1, ::-1]),
    "slice": (lambda x: tf.slice(x, [1, 2], [2, -1]), (X,), X[1:3, 2:]),
    "where": (lambda x, y: tf.where(x > 0, x, y), (X, Y), np.where(X > 0, X, Y)),
    "where finds": (lambda x: tf.where(x > 1), (X,), np.argwhere(X > 1)),
    "boolean_mask": (lambda x: tf.boolean_mask(x, x > 0) * 2, (X,), X[X > 0] * 2),
    "cast": (lambda x: tf.cast(x, tf.int32), (X,), X.astype(np.int32)),
    "gather": (lambda x: tf.gather(x, [2, 0], axis=1), (X,), X[:, [2, 0]]),
    "embedding_lookup": (tf.nn.embedding_lookup, (X, IDS), X[IDS]),
    "gather_nd": (lambda x: tf.gather_nd(x, IDS), (X,), X[IDS[:, 0], IDS[:, 1]]),
    "one_hot": (lambda i: tf.one_hot(i, 4), (IDS,), np.eye(4, dtype=np.float32)[IDS]),
    "one_hot of nothing": (lambda i: tf.one_hot(i - 9, 4, axis=0), (IDS,), np.zeros((4, 2, 2), np.float32)),
    "top_k": (lambda x: tf.nn.top_k(x, 2)[1], (X,), np.argsort(-X, 1)[:, :2].astype(np.int32)),
    "shapes": (lambda x: tf.zeros(tf.shape(x)[:1]) + tf.ones_like(x)[:, 0], (X,), np.ones(4, np.float32)),
    "range": (lambda x: tf.range(tf.shape(x)[1]), (X,), np.arange(6, dtype=np.int32)),
    "fill": (lambda x: tf.fill([2, 3], 7.0) + x[0, 0], (X,), np.full((2, 3), 7 + X[0, 0], np.float32)),
    "relu family": (
        lambda x: tf.nn.relu(x) + tf.nn.relu6(x) + tf.nn.leaky_relu(x),
        (X,),
        np.maximum(X, 0) + np.clip(X, 0, 6) + np.where(X > 0, X, 0.2 * X),
    ),
    "elu": (tf.nn.elu, (X,), np.where(X > 0, X, np.expm1(X))),
    "softmax": (tf.nn.softmax, (X,), softmax(X)),
    "softmax cross entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2, 3], x),
        (X,),
        -np.log(softmax(X))[np.arange(4), np.arange(4)],
    ),
    "bias_add": (lambda x: tf.nn.bias_add(x, Y[0]), (X,), X + Y[0]),
    "layer norm": (
        lambda x: tf.nn.layer_normalization(x, epsilon=0.0),
        (X,),
        (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True),
    ),
    "batch norm": (
        lambda x: tf.nn.batch_normalization(x, Y[0], Y[1] ** 2, Y[2], Y[3], 1e-3),
        (X,),
        (X - Y[0]) / np.sqrt(Y[1] ** 2 + 1e-3) * Y[3] + Y[2],
    ),
    "moments": (lambda x: tf.nn.moments(x, [0])[1], (X,), X.var(0)),
    "dropout at inference": (lambda x: tf.nn.dropout(x, rate=0.0), (X,), X),
    "clip": (lambda x: tf.clip_by_value(x, -1, 1), (X,), X.clip(-1, 1)),
    "add_n": (lambda x, y: tf.add_n([x, y, x]), (X, Y), X + Y + X),
}


@pytest.mark.parametrize("name", CASES)
def test_ops_in_a_graph_agree_with_numpy(name: str) -> None:
    """
    A graph with placeholders gives what NumPy gives.
    """
    build, arrays, wanted = CASES[name]
    with tf.Graph().as_default() as graph:
        places = [tf.compat.v1.placeholder(array.dtype, array.shape) for array in arrays]
        y = build(*places)
    with tf.compat.v1.Session(graph=graph) as session:
        found = session.run(y, dict(zip(places, arrays, strict=True)))

    agrees(found, wanted)
    assert y.shape.is_compatible_with(np.shape(wanted))


@pytest.mark.parametrize("name", CASES)
def test_ops_with_an_unknown_batch_agree_with_numpy(name: str) -> None:
    """
    In graphs whose sizes are known only in the run.
    """
    build, arrays, wanted = CASES[name]
    with tf.Graph().as_default() as graph:
        places = [tf.compat.v1.placeholder(array.dtype, [None, *array.shape[1:]]) for array in arrays]
        try:
            y = build(*places)
        except (ValueError, TypeError):
            assert name == "unstack", "only what needs the number of results may fail"
            return
    with tf.compat.v1.Session(graph=graph) as session:
        found = session.run(y, dict(zip(places, arrays, strict=True)))

    agrees(found, wanted)
    assert y.shape.is_compatible_with(np.shape(wanted))


@pytest.mark.parametrize("name", CASES)
def test_eager_ops_agree_with_numpy(name: str) -> None:
    """
    Outside a graph; the third call, with other elements, uses the replay cache.
    """
    build, arrays, wanted = CASES[name]
    others = [np.flip(array) for array in arrays]
    for _ in range(2):
        build(*map(tf.constant, others))

    agrees(build(*map(tf.constant, arrays)).numpy(), wanted)


def agrees(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d_and_pooling_use_tensorflows_layout_and_padding(padding: str, stride: int) -> None:
    """
    NHWC images, HWIO filters, and the uneven padding of SAME.
    """
    images = RNG.standard_normal((2, 7, 8, 3)).astype(np.float32)
    filters = RNG.standard_normal((3, 3, 3, 5)).astype(np.float32)
    deep = RNG.standard_normal((3, 3, 3, 2)).astype(np.float32)

    found = tf.nn.conv2d(images, filters, strides=[1, stride, stride, 1], padding=padding).numpy()
    depthwise = tf.nn.depthwise_conv2d(images, deep, [1, stride, stride, 1], padding).numpy()
    largest = tf.nn.max_pool2d(images, 3, stride, padding).numpy()
    mean = tf.nn.avg_pool2d(images, 3, stride, padding).numpy()

    seen, counted = patches(images, 3, stride, padding, 0), patches(np.ones_like(images), 3, stride, padding, 0)
    np.testing.assert_allclose(found, np.einsum("nhwijc,ijco->nhwo", seen, filters), rtol=1e-4, atol=1e-4)
    wanted = np.einsum("nhwijc,ijcm->nhwcm", seen, deep)
    np.testing.assert_allclose(depthwise, wanted.reshape(*wanted.shape[:3], -1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(largest, patches(images, 3, stride, padding, -np.inf).max((3, 4)))
    np.testing.assert_allclose(mean, seen.sum((3, 4)) / counted.sum((3, 4)), rtol=1e-5, atol=1e-5)


def patches(images: Any, size: int, stride: int, padding: str, fill: float) -> Any:
    """[N, H', W', size, size, C]: what a window sees."""
    if padding == "SAME":
        pads = []
        for length in images.shape[1:3]:
            total = max(0, (-(-length // stride) - 1) * stride + size - length)
            pads.append((total // 2, total - total // 2))
        images = np.pad(images, ((0, 0), *pads, (0, 0)), constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    return seen.transpose(0, 1, 2, 4, 5, 3)


def test_invalid_operands_raise_while_the_graph_is_built() -> None:
    """
    The error is a ValueError that names the operation.
    """
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"wrong.*inner sizes differ"):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]), name="wrong")


def test_invalid_eager_operands_raise_invalid_argument_error() -> None:
    """
    Eagerly they raise tf.errors.InvalidArgumentError.
    """
    with pytest.raises(tf.errors.InvalidArgumentError, match="inner sizes differ"):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))


def test_dtypes_do_not_mix() -> None:
    """
    Numbers take the dtype of the tensor operand; tensors of two dtypes raise an error.
    """
    assert (tf.constant([1, 2]) + 1).dtype == tf.int32
    assert (tf.constant([1.0], tf.float64) + 1).dtype == tf.float64
    with pytest.raises(tf.errors.InvalidArgumentError, match="one dtype"):
        tf.constant([1]) + tf.constant([1.0])


@pytest.mark.parametrize(
    ("op", "truth"),
    [
        (tf.math.log1p, np.log1p),
        (tf.math.expm1, np.expm1),
        (tf.asinh, np.arcsinh),
        (tf.atanh, np.arctanh),
        (tf.nn.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    ],
)
def test_small_numbers_keep_their_precision(op: Any, truth: Any) -> None:
    """
    Functions that are nearly linear at 0 are exact for 1e-10 and 1e-40, and -0 stays -0.
    """
    x = np.array([0, -0.0, 1e-10, -1e-10, 1e-40, -3e-5, 2e-3, -0.25], np.float32)
    wanted = truth(x.astype(np.float64)).astype(np.float32)

    found = op(tf.constant(x)).numpy()

    np.testing.assert_array_max_ulp(found, wanted, 2)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("keepdims", [False, True])
def test_reduce_logsumexp_takes_infinities(keepdims: bool) -> None:
    """
    Of nothing but -inf it is -inf, beside +inf it is +inf; NaN stays NaN.
    """
    wanted = LOG_SUM_EXP_OF_ROWS

    found = tf.reduce_logsumexp(tf.constant(INFINITE_ROWS), 1, keepdims).numpy()

    np.testing.assert_allclose(found, wanted[:, None] if keepdims else wanted, rtol=3e-7)


def test_erfc_is_precise_where_erf_is_one() -> None:
    """
    It is 2e-17 at 6, and 0 only where f64 underflows.
    """
    np.testing.assert_allclose(tf.math.erfc(tf.constant(ERFC_OPERANDS)).numpy(), ERFC, rtol=1e-15, atol=1e-323)
