"""While loops of TensorFlow over lists of tensors.

A dynamic recurrent network reads one TensorArray and writes another; the items of a list differ in size; items are
taken from the end of a list.

    python -m benches.loops.recurrent NAME PATH ITERATIONS

writes a frozen graph, where TensorFlow is installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.inputs import Array, read_inputs
from benches.harness.timing import latencies
from benches.harness.worker import Answer

SIZE = 32


def weights() -> dict[str, Array]:
    """The weights of the network by name."""
    rng = np.random.default_rng(0)
    shapes = {"w_x": (SIZE, SIZE), "w_h": (SIZE, SIZE), "bias": (SIZE,)}
    return {name: (rng.standard_normal(shape) / SIZE**0.5).astype(np.float32) for name, shape in shapes.items()}


NAMES = ("recurrent", "uneven", "popped")
"""The networks."""


def write_frozen(name: str, path: str, iterations: int) -> None:
    """Writes the frozen graph of a network, whose input is x [iterations, 1, SIZE].

    Raises ImportError without TensorFlow.
    """
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    held = {name: tf.Variable(array) for name, array in weights().items()}

    def uneven(x: Any) -> Any:
        """Items of one to eight rows, joined."""
        made = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None, SIZE])

        def step(i: Any, ys: Any) -> Any:
            rows = x[: i % 8 + 1, 0]
            return i + 1, ys.write(i, tf.tanh(rows @ held["w_x"] + held["bias"]))

        return tf.while_loop(lambda i, _: i < iterations, step, [0, made])[1].concat()

    def popped(x: Any) -> Any:
        """The rows of x from the last one on."""
        form = tf.constant([1, SIZE])
        given = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=form)

        def step(i: Any, rows: Any, h: Any) -> Any:
            rows, row = tf.raw_ops.TensorListPopBack(input_handle=rows, element_shape=form, element_dtype=tf.float32)
            return i + 1, rows, tf.tanh(row @ held["w_x"] + h @ held["w_h"] + held["bias"])

        return tf.while_loop(lambda i, *_: i < iterations, step, [0, given, tf.zeros([1, SIZE])])[2]

    def network(x: Any) -> Any:
        given = tf.TensorArray(tf.float32, iterations, element_shape=[1, SIZE]).unstack(x)
        made = tf.TensorArray(tf.float32, iterations, element_shape=[1, SIZE])

        def step(i: Any, h: Any, ys: Any) -> Any:
            h = tf.tanh(given.read(i) @ held["w_x"] + h @ held["w_h"] + held["bias"])
            return i + 1, h, ys.write(i, h)

        *_, ys = tf.while_loop(lambda i, *_: i < iterations, step, [0, tf.zeros([1, SIZE]), made])
        return ys.stack()

    function = {"recurrent": network, "uneven": uneven, "popped": popped}[name]
    call = tf.function(function).get_concrete_function(tf.TensorSpec([iterations, 1, SIZE], name="x"))
    frozen = convert_variables_to_constants_v2(call, lower_control_flow=False)
    Path(path).write_bytes(frozen.graph.as_graph_def().SerializeToString())


def tensorflow(model: str, threads: int, inputs: str, outputs: str) -> tuple[dict[str, Any], Answer]:
    """Loads a frozen graph in TensorFlow, runs it once and writes its outputs to the .npz file `outputs`."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    graph = tf.compat.v1.GraphDef.FromString(Path(model).read_bytes())
    imported = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph, name=""), [])
    call = imported.prune("x:0", ["Identity:0"])
    feed = tf.constant(read_inputs(inputs)["x"])

    def run() -> list[Array]:
        return [tensor.numpy() for tensor in call(feed)]

    np.savez(outputs, *run())
    return {"version": tf.__version__}, lambda seconds: latencies(run, seconds)


if __name__ == "__main__":
    write_frozen(sys.argv[1], sys.argv[2], int(sys.argv[3]))
