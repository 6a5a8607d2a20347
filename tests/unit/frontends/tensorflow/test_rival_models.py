"""Networks built with TensorFlow give TensorFlow's results, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
v1 = tf.compat.v1


class Layers:
    """Layers of a network, with weights of its own generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(17)

    def weights(self, *shape: int) -> Any:
        fan = max(1, int(np.prod(shape[:-1])))
        return tf.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def norm(self, x: Any, channels: int) -> Any:
        scale, variance = (self.rng.random(channels).astype(np.float32) + 0.5 for _ in range(2))
        offset, mean = (self.rng.standard_normal(channels).astype(np.float32) * 0.1 for _ in range(2))
        return v1.nn.fused_batch_norm(x, scale, offset, mean, variance, 1e-3, is_training=False)[0]

    def conv(self, x: Any, channels: int, size: int = 1, stride: int = 1) -> Any:
        return self.norm(tf.nn.conv2d(x, self.weights(size, size, x.shape[3], channels), stride, "SAME"), channels)

    def depthwise(self, x: Any, stride: int = 1) -> Any:
        channels = x.shape[3]
        if stride == 2:
            x = tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]])
        padding = "VALID" if stride == 2 else "SAME"
        kernel = self.weights(3, 3, channels, 1)
        return tf.nn.relu6(self.norm(tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], padding), channels))

    def dense(self, x: Any, size: int) -> Any:
        return tf.nn.bias_add(tf.matmul(x, self.weights(x.shape[-1], size)), self.weights(size))

    def layer_norm(self, x: Any, size: int) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, self.weights(size), 1 + self.weights(size), 1e-12)


def mobile() -> dict[str, Any]:
    layers = Layers()
    x = v1.placeholder(tf.float32, [None, 96, 96, 3], "images")
    x = tf.nn.relu6(layers.conv(x, 16, 3, 2))
    for out, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2)):
        y = layers.depthwise(tf.nn.relu6(layers.conv(x, x.shape[3] * 6)), stride)
        y = layers.conv(y, out)
        x = x + y if stride == 1 and x.shape[3] == out else y
    x = tf.reduce_mean(tf.nn.relu6(layers.conv(x, 256)), [1, 2])
    tf.nn.softmax(layers.dense(x, 100), name="result")
    return {"images": layers.rng.random((2, 96, 96, 3)).astype(np.float32)}


def residual() -> dict[str, Any]:
    layers = Layers()
    x = v1.placeholder(tf.float32, [1, 32, 32, 8], "images")
    y = tf.nn.max_pool2d(tf.nn.relu(layers.conv(x, 16, 3)), 3, 2, "SAME")
    z = tf.nn.relu(y + layers.conv(tf.nn.relu(layers.conv(y, 16, 3)), 16, 3))
    z = tf.concat([z, tf.nn.avg_pool2d(z, 3, 1, "SAME"), layers.conv(z, 8)], 3)
    z = v1.image.resize_bilinear(z, [32, 32], half_pixel_centers=True)
    tf.transpose(layers.conv(z, 8), [0, 3, 1, 2], name="result")
    return {"images": layers.rng.random((1, 32, 32, 8)).astype(np.float32)}


def bert_layer() -> dict[str, Any]:
    layers = Layers()
    hidden, heads = 64, 4
    ids = v1.placeholder(tf.int32, [None, None], "ids")
    mask = v1.placeholder(tf.int32, [None, None], "mask")
    shape = tf.shape(ids)
    batch, length = shape[0], shape[1]
    table = layers.weights(50, hidden)
    positions = tf.slice(layers.weights(128, hidden), [0, 0], [length, -1])
    x = layers.layer_norm(tf.gather(table, ids) + tf.expand_dims(positions, 0), hidden)
    bias = (1.0 - tf.cast(mask[:, tf.newaxis, tf.newaxis, :], tf.float32)) * -10000.0
    flat = tf.reshape(x, [-1, hidden])

    def headed(y: Any) -> Any:
        return tf.transpose(tf.reshape(y, tf.stack([batch, length, heads, hidden // heads])), [0, 2, 1, 3])

    q, k, v = (headed(layers.dense(flat, hidden)) for _ in range(3))
    scores = tf.multiply(tf.matmul(q, k, transpose_b=True), 1 / np.sqrt(hidden / heads)) + bias
    context = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
    attended = layers.layer_norm(layers.dense(tf.reshape(context, [-1, hidden]), hidden) + flat, hidden)
    wide = layers.dense(attended, 4 * hidden)
    wide = wide * 0.5 * (1.0 + tf.math.erf(wide / np.float32(np.sqrt(2.0))))
    out = layers.layer_norm(layers.dense(wide, hidden) + attended, hidden)
    tf.reshape(out, tf.stack([batch, length, hidden]), name="result")
    mask_of = np.ones((2, 12), np.int32)
    mask_of[1, 7:] = 0
    return {"ids": layers.rng.integers(0, 50, (2, 12)).astype(np.int32), "mask": mask_of}


@pytest.mark.parametrize("build", [mobile, residual, bert_layer], ids=lambda build: build.__name__)
def test_a_network_matches_tensorflow(build: Any) -> None:
    """
    Blocks of MobileNet and ResNet, and a BERT layer with sizes that only the run knows.
    """
    with tf.Graph().as_default() as graph:
        arrays = build()
    with v1.Session(graph=graph) as session:
        wanted = session.run("result:0", {f"{name}:0": array for name, array in arrays.items()})

    found = treadle.Session(graph.as_graph_def().SerializeToString(), outputs=["result"]).run(arrays)

    np.testing.assert_allclose(found["result"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lower", [False, True], ids=["If and While", "Switch, Merge and Enter"])
def test_a_function_frozen_by_tensorflow_2_matches_it(lower: bool) -> None:
    """
    convert_variables_to_constants_v2 of a tf.function with variables, a branch and a loop, in both representations.
    """
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    with tf.init_scope():
        weights = tf.Variable(np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def function(x: Any) -> Any:
        y = tf.matmul(x, weights)
        y = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.nn.relu(y), lambda: y - 1.0)
        return tf.while_loop(lambda i, _: i < 3, lambda i, z: (i + 1, tf.tanh(z) * 2.0), [0, y])[1]

    frozen = convert_variables_to_constants_v2(function.get_concrete_function(), lower_control_flow=lower)
    session = treadle.Session(frozen.graph.as_graph_def(), outputs=["Identity"])
    x = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    for array in (x, -x):
        (found,) = session.run({"x": array}).values()
        np.testing.assert_allclose(found, function(tf.constant(array)).numpy(), rtol=1e-5, atol=1e-5)
