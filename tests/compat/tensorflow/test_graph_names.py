"""Names in graphs and in the facade: operations, variables, collections, missing names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle.compat.tensorflow as tf
import treadle.compat.tensorflow.compat.v1 as tf1


def test_operations_have_tensorflows_types_and_names() -> None:
    """
    Programs can fetch "MatMul:0" and compare op.type; names differ by case.
    """
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        x = tf.ones([2, 2])
        made = [tf.matmul(x, x), tf.add(x, x), x + x, x * 2.0, tf.reduce_sum(x), tf.nn.relu(x), x[0], tf.argmax(x)]
        assert [t.op.type for t in made[:7]] == ["MatMul", "AddV2", "AddV2", "Mul", "Sum", "Relu", "StridedSlice"]
        names = ["MatMul:0", "Add:0", "add_1:0", "mul:0", "Sum:0", "Relu:0", "strided_slice:0", "ArgMax:0"]
        assert [t.name for t in made] == names
        assert session.run("Sum:0") == 4
        assert graph.as_graph_element("MatMul").node_def.op == "MatMul"
        with tf.name_scope("a"), tf.name_scope("b"):
            assert (x - x).name == "a/b/sub:0"
        with tf.name_scope("a"):
            assert tf.identity(x).name == "a_1/Identity:0"


def test_invalid_names_raise() -> None:
    """
    Fetches, feeds, names of operations, and a finalized graph.
    """
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        with pytest.raises(RuntimeError, match="graph is empty"):
            session.run([])
        x = tf.constant(1, name="x")
        v = tf1.Variable(3)
        for wrong, kind in (
            ("none:0", ValueError),
            ("x:1", ValueError),
            ("none", ValueError),
            (3, TypeError),
            (None, TypeError),
        ):
            with pytest.raises(kind):
                session.run(wrong)
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key"):
            session.run(x, {"none:0": 1})
        with pytest.raises(TypeError, match="larger type"):
            session.run(x, {x: 1 << 40})
        for name in ("a b", "_x", "é"):
            with pytest.raises(ValueError, match="not a valid node name"):
                tf.constant(1, name=name)
        with pytest.raises(TypeError, match="Can not convert a int"), tf.control_dependencies([3]):
            pass
        graph.finalize()
        with pytest.raises(RuntimeError, match="finalized"):
            tf.constant(2)
        session.run(v.initializer)
        assert session.run(v) == 3


def test_errors_of_a_run_name_the_operation() -> None:
    """
    error.op and error.node_def, as programs print them.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        at = tf1.placeholder(tf.int32, [1])
        rows = tf.gather(tf.constant([1.0]), at, name="rows")
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(rows, {at: [5]})
        assert caught.value.op.name == caught.value.node_def.name == "rows"
        assert caught.value.error_code == tf.errors.INVALID_ARGUMENT
        halved = tf.numpy_function(lambda _: 1 // 0, [at], tf.int32, name="halved")
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(halved, {at: [5]})
        assert caught.value.op.name == "halved"


def test_callables_take_values_for_their_feeds() -> None:
    """
    session.make_callable, and several tensors fed by one key.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        x, y = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.float32, [])
        assert session.make_callable(x - y, [x, y])(5, 3) == 2
        assert session.run(x - y, {(x, y): (5, 3)}) == 2


def test_variables_are_shared_by_name() -> None:
    """
    variable_scope with reuse, AUTO_REUSE, without, and with another shape.
    """
    with tf.Graph().as_default(), tf1.Session() as session:

        def layer(reuse: Any) -> Any:
            with tf1.variable_scope("layer", reuse=reuse):
                return tf1.get_variable("w", [2], initializer=tf1.zeros_initializer())

        with pytest.raises(ValueError, match="does not exist"):
            layer(True)
        w = layer(None)
        assert (w.name, layer(True) is w, layer(tf1.AUTO_REUSE) is w) == ("layer/w:0", True, True)
        with pytest.raises(ValueError, match="already exists"):
            layer(None)
        with pytest.raises(ValueError, match="specified shape"), tf1.variable_scope("layer", reuse=True):
            tf1.get_variable("w", [3])
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer(), tf1.tables_initializer()])
        assert session.run(tf1.assign_add(w, [1.0, 2.0])).tolist() == [1, 2]
        assert tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES) == [w]


def test_case_and_switch_case_choose_a_function() -> None:
    """
    case takes the first true predicate, switch_case a number; TensorFlow 1's loops return a single variable without
    a list.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        n = tf1.placeholder(tf.int32, [])
        cases = [(n < 2, lambda: tf.constant(10)), (n < 5, lambda: tf.constant(20))]
        picked = tf.case(cases, default=lambda: tf.constant(30))
        numbered = tf.switch_case(n, {0: lambda: tf.constant(1), 1: lambda: tf.constant(2)}, lambda: tf.constant(3))
        limited = tf.while_loop(lambda i: i < 100, lambda i: i + 1, [tf.constant(0)], maximum_iterations=n)
        alone = tf1.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)])
        found = [session.run([picked, numbered, limited, alone], {n: number}) for number in (0, 1, 4, 7)]
        assert found == [[10, 1, [0], 0], [10, 2, [1], 1], [20, 3, [4], 4], [30, 3, [7], 7]]


def test_checks_raise_when_they_run() -> None:
    """
    tf.debugging eagerly, and tf.compat.v1.assert_equal behind control dependencies.
    """
    tf.debugging.assert_less([1], 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no good"):
        tf.debugging.assert_equal(1, 2, message="no good")
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.int32, [])
        with tf.control_dependencies([tf1.assert_equal(x, 1, message="must be 1")]):
            y = tf.identity(x)
        assert session.run(y, {x: 1}) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be 1"):
            session.run(y, {x: 2})


def test_modules_list_their_variables() -> None:
    """
    In attributes, in lists, and in submodules.
    """

    class Inner(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [tf.Variable(1.0), tf.Variable(2.0, trainable=False)]

    outer = tf.Module(name="outer")
    outer.inner, outer.own = Inner(), tf.Variable(3.0)  # type: ignore[attr-defined]
    assert [v.numpy() for v in outer.variables] == [3, 1, 2]
    assert len(outer.trainable_variables) == 2
    assert outer.submodules == (outer.inner,)  # type: ignore[attr-defined]


ADVICE = {
    "vectorized_map": "tf.map_fn", "dynamic_rnn": "tf.while_loop", "GradientTape": "gradients", "keras": "ONNX",
    "argsrt": "argsort",
    "sparse_add": "dense", "irfft": "numpy_function", "enable_resource_variables": "leave it out",
    "anything": "has no 'anything'$", "fao": "has no 'fao'$",
}  # fmt: skip


@pytest.mark.parametrize("name", ADVICE)
def test_missing_names_say_what_to_use(name: str) -> None:
    """
    dir() does not list them; the submodules of the package are not part of the facade.
    """
    with pytest.raises(AttributeError, match=ADVICE[name]):
        getattr(tf1, name)
    assert name not in dir(tf1)
    assert not {"session", "staging", "program", "variable"} & {each for each in dir(tf) if hasattr(tf, each)}
    assert all(getattr(tf, each, None) is not None or each == "newaxis" for each in dir(tf))


def test_configurations_have_all_fields() -> None:
    """
    Fields for GPUs and the optimizer are accepted and have no effect; messages copy and merge.
    """
    config = tf1.ConfigProto(gpu_options=tf1.GPUOptions(allow_growth=True), device_count={"CPU": 2})
    config.graph_options.optimizer_options.global_jit_level = tf1.OptimizerOptions.ON_1
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    other = tf1.ConfigProto()
    other.CopyFrom(config)
    assert other == config
    other.MergeFrom(tf1.ConfigProto(inter_op_parallelism_threads=1, device_count={"GPU": 0}))
    assert (other.inter_op_parallelism_threads, other.device_count) == (1, {"CPU": 2, "GPU": 0})
    assert config.inter_op_parallelism_threads == 0
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        metadata = tf1.RunMetadata()
        total = tf.reduce_sum(tf.matmul(tf1.placeholder_with_default(np.ones((8, 8), np.float32), [8, 8]), tf.eye(8)))
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        assert session.run(total, options=options, run_metadata=metadata) == 64
        for stats in metadata.step_stats.dev_stats[0].node_stats:
            assert stats.all_start_nanos // 1000 == stats.all_start_micros == stats.scheduled_micros
            assert stats.op_end_rel_nanos // 1000 == stats.op_end_rel_micros
