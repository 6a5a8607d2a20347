"""SavedModels that TensorFlow has written give TensorFlow's results, where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
RNG = np.random.default_rng(3)


class Network(tf.Module):
    """Variables in a product, in a lookup, in a loop and in both sides of a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(RNG.standard_normal((4, 3)).astype(np.float32), name="w")
        self.b = tf.Variable(RNG.standard_normal(3).astype(np.float32), name="b")
        self.rows = tf.Variable(RNG.standard_normal((10, 4)).astype(np.float32), name="rows")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def dense(self, x: Any) -> Any:
        return {"y": tf.nn.relu(x @ self.w + self.b), "mean": tf.reduce_mean(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="ids")])
    def embed(self, ids: Any) -> Any:
        found = tf.nn.embedding_lookup(self.rows, ids)
        step = tf.constant(0)
        while step < 3:
            found = tf.tanh(found) + self.b[0]
            step += 1
        return {"found": found @ self.w}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def branch(self, x: Any) -> Any:
        return {"z": tf.cond(tf.reduce_sum(x) > 0, lambda: x @ self.w, lambda: x @ self.w - self.b)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def count(self, x: Any) -> Any:
        self.b.assign_add(self.b)
        return {"y": x @ self.w}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, network = tmp_path_factory.mktemp("saved"), Network()
    names = {"serving_default": network.dense, "embed": network.embed, "branch": network.branch, "count": network.count}
    tf.saved_model.save(network, str(path), signatures=names)
    return path


def check(folder: Path, signature: str, runs: list[np.ndarray]) -> treadle.Session:
    """Compare the runs of one input."""
    peer = tf.saved_model.load(str(folder)).signatures[signature]
    session = treadle.Session(folder, signature=signature)
    for given in runs:
        wanted = peer(**{session.inputs[0].name: tf.constant(given)})
        found = session.run({session.inputs[0].name: given})
        assert sorted(found) == sorted(wanted)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array.numpy(), rtol=1e-4, atol=1e-5)
    return session


@pytest.mark.parametrize("signature", ["serving_default", "branch"])
def test_signatures(folder: Path, signature: str) -> None:
    """
    One plan for all batches.
    """
    runs = [RNG.standard_normal((n, 4)).astype(np.float32) for n in (1, 3)]
    assert check(folder, signature, [*runs, -abs(runs[0]), abs(runs[1])]).compiles == 1


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("sequences", [False, True])
def test_recurrent_layers_of_keras(
    tmp_path: Path, layer: str, sequences: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One plan for all batches and lengths, also where the loop keeps the last item alone.
    """
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")  # compiles of another process are not counted
    x = tf.keras.Input((None, 6))
    tf.keras.Model(x, getattr(tf.keras.layers, layer)(5, return_sequences=sequences)(x)).export(tmp_path, verbose=False)
    runs = [RNG.standard_normal((n, length, 6)).astype(np.float32) for n, length in ((2, 7), (3, 12), (1, 20))]
    session = check(tmp_path, "serving_default", runs)
    assert (session.compiles, session.why_per_size()) == (1, None)


def test_a_lookup_and_a_loop(folder: Path) -> None:
    """
    The loop reads a variable that its caller passes.
    """
    assert check(folder, "embed", [RNG.integers(0, 10, (2, t)).astype(np.int32) for t in (1, 3)]).compiles == 1


def test_an_assignment_is_refused(folder: Path) -> None:
    """
    It would change the results of later runs.
    """
    with pytest.raises(treadle.errors.UnsupportedModelError, match="AssignAddVariableOp"):
        treadle.Session(folder, signature="count")


@pytest.mark.parametrize("resource", [False, True])
def test_variables_of_tensorflow_1(tmp_path: Path, resource: bool) -> None:
    """
    References and resources, which the graph itself restores.
    """
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.variable_scope("net", use_resource=resource), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        w = v1.get_variable("w", initializer=RNG.standard_normal((4, 2)).astype(np.float32))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"p": tf.nn.softmax(tf.matmul(x, w))})

    check(tmp_path / "m", "serving_default", [RNG.standard_normal((3, 4)).astype(np.float32)])


def test_a_network_of_keras(tmp_path: Path) -> None:
    """
    Convolutions and batch norm of any image size: one plan.
    """
    keras = tf.keras
    image = keras.Input((None, None, 3))
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image))
    x = keras.layers.Dense(5)(keras.layers.GlobalAveragePooling2D()(keras.layers.MaxPooling2D()(x)))
    keras.Model(image, x).export(str(tmp_path / "m"), verbose=False)

    runs = [RNG.standard_normal(shape).astype(np.float32) for shape in ((1, 8, 9, 3), (2, 5, 6, 3))]
    assert check(tmp_path / "m", "serving_default", runs).compiles == 1
