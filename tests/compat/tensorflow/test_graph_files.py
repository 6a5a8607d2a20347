"""Import and export of graph files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr, loop, mobile
from tests.unit.frontends.tensorflow.test_frozen_graphs import network, softmax, with_functions
from treadle.dtypes import boolean, f32

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_programs_read_and_run_frozen_graphs(tmp_path: Path) -> None:
    """
    GFile, ParseFromString, import_graph_def and names of tensors.
    """
    path = tmp_path / "model.pb"
    with tf.io.gfile.GFile(str(path), "wb") as file:
        file.write(network().bytes())

    graph_def = tf.compat.v1.GraphDef()
    with tf.compat.v1.gfile.GFile(str(path), "rb") as file:
        graph_def.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        assert tf.import_graph_def(graph_def) is None
    with tf.compat.v1.Session(graph=graph) as session:
        values, places = session.run(["import/best:0", "import/best:1"], {"import/x:0": X})

    np.testing.assert_array_equal(values, np.sort(np.maximum(X + 1, 0))[:, :1:-1])
    assert places.dtype == np.int32
    assert graph.get_operation_by_name("import/hidden").type == "Relu"
    assert graph.get_tensor_by_name("import/x:0").shape.as_list() == [None, 4]


def test_tensors_may_be_replaced_and_returned() -> None:
    """
    input_map replaces tensors of the file; return_elements returns tensors and operations.
    """
    with tf.Graph().as_default() as graph:
        y = tf.constant(X) * 2.0
        tensor, operation = tf.import_graph_def(
            network().graph, input_map={"x:0": y}, return_elements=["hidden:0", "probabilities"], name="net"
        )
        assert tensor.name == "net/hidden:0"
        assert operation.type == "Softmax"
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(tensor), np.maximum(2 * X + 1, 0))


def test_any_tensor_of_the_graph_may_be_fed() -> None:
    """
    What only a fed tensor depends on does not run.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(network().graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run("probabilities:0", {"hidden:0": X}), softmax(X), rtol=1e-6)


def test_branches_and_loops_of_files_run() -> None:
    """
    If runs one side, While repeats its body; shapes may differ and change.
    """
    w = with_functions()
    flag, x = w.input("flag", (), "bool"), w.input("x", (None,))
    w.node("If", flag, x, T=None, Tin=[f32], Tout=[f32], Tcond=boolean, name="branch",
           then_branch=function_attr("double"), else_branch=function_attr("shrink"))  # fmt: skip
    w.node("While", "branch", T=[f32], cond=function_attr("small"), body=function_attr("double"), name="loop")
    w.node("Neg", "loop", name="y")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(w.graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        assert session.run("y:0", {"flag:0": True, "x:0": [1, 2, 3]}).tolist() == [-64, -128, -192]
        assert session.run("y:0", {"flag:0": False, "x:0": [1, 2, 3]}).tolist() == [-64, -128]


def test_a_case_of_a_file_takes_the_function_of_its_index() -> None:
    """
    Indices for which there is no function take the last one.
    """
    w = with_functions()
    index, x = w.input("index", (), "i32"), w.input("x", (None,))
    branches = function_attr("double").__class__()
    for name in ("double", "shrink"):
        branches.list.func.add().name = name
    w.node("Case", index, x, T=None, Tin=[f32], Tout=[f32], branches=branches, name="y")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(w.graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        for place, wanted in ((0, [2, 4, 6]), (1, [1, 2]), (5, [1, 2])):
            assert session.run("y:0", {"index:0": place, "x:0": [1, 2, 3]}).tolist() == wanted


def test_frames_run_as_while_loops() -> None:
    """
    A frame becomes a while_loop.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(loop().graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        assert session.run(["y:0", "exit:0"], {"x:0": [1, 2], "n:0": 3})[0].tolist() == [-27, -54]
        assert session.run("y:0", {"x:0": [1, 2], "n:0": 0}).tolist() == [-1, -2]


def test_merges_keep_their_names() -> None:
    """
    Nodes that a constant predicate replaces can still be fetched.
    """
    w = Writer()
    x = w.input("x", (3, 4))
    side = w.node("Switch", x, w.constant(False), name="switch")
    w.node("Merge", w.node("Abs", side), w.node("Neg", f"{side}:1"), N=2, name="merge")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(w.graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run("merge:0", {"x:0": X}), abs(X))


def test_an_unsupported_op_fails_only_if_it_is_needed() -> None:
    """
    The rest of the graph runs.
    """
    w = network()
    w.node("DecodeTrouble", "hidden", name="odd")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(w.graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run("hidden:0", {"x:0": X}), np.maximum(X + 1, 0))
        with pytest.raises(tf.errors.UnimplementedError, match="DecodeTrouble"):
            session.run("odd:0", {"x:0": X})


@pytest.mark.parametrize(
    ("how", "words"),
    [({"input_map": {"nobody:0": 1.0}}, "input_map"), ({"return_elements": ["nobody:0"]}, "return_element")],
)
def test_unknown_names_raise(how, words) -> None:
    """
    As in TensorFlow, with a ValueError.
    """
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        tf.import_graph_def(network().graph, **how)


def test_import_graph_def_rejects_other_types() -> None:
    """
    A path and bytes raise TypeError.
    """
    with tf.Graph().as_default(), pytest.raises(TypeError, match="GraphDef"):
        tf.import_graph_def("model.pb")


def test_a_written_graph_can_be_read_again() -> None:
    """
    A session that loads what as_graph_def wrote has the same names, results and placeholders.
    """
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 9, 7, 3], "x")
        weights = tf.constant(np.random.default_rng(1).standard_normal((3, 3, 3, 8)).astype(np.float32))
        y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(x, weights, 2, "SAME"), np.arange(8, dtype=np.float32)))
        y = tf.reduce_mean(tf.nn.max_pool2d(y, 2, 2, "VALID"), axis=[1, 2])
        tf.nn.softmax(tf.concat([y, y[:, ::-1]], axis=1), name="result")
    image = np.random.default_rng(2).standard_normal((2, 9, 7, 3)).astype(np.float32)
    with tf.compat.v1.Session(graph=graph) as session:
        wanted = session.run("result:0", {x: image})

    found = treadle.Session(graph.as_graph_def().SerializeToString()).run({"x": image})

    np.testing.assert_array_equal(found["result"], wanted)


def test_an_imported_graph_is_written_unchanged() -> None:
    """
    Reading, writing and reading again keeps every node, attribute and result.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(mobile(32, 1).graph, name="")
    images = np.random.default_rng(3).random((1, 32, 32, 3)).astype(np.float32)

    again = treadle.Session(graph.as_graph_def()).run({"images": images})

    np.testing.assert_array_equal(
        again["probabilities"], treadle.Session(mobile(32, 1).bytes()).run({"images": images})["probabilities"]
    )


def test_operations_that_files_cannot_hold_are_listed() -> None:
    """
    Python functions, variables and random numbers, all in one message.
    """
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], "x")
        tf.py_function(lambda y: y, [x], tf.float32, name="python")
        tf.Variable(1.0, name="state")

    with pytest.raises(tf.errors.UnimplementedError, match=r"(?s)'python'.*'state/Assign'"):
        graph.as_graph_def()


def test_logic_of_tensors_whose_sizes_are_open() -> None:
    """
    Nodes of LogicalNot do not state the type of their result, bool.
    """
    w = Writer()
    x = w.input("x", None)
    positive = w.node("Greater", x, w.constant(0, np.float32))
    negative = w.node("LogicalNot", positive, T=None)
    w.node("LogicalOr", positive, negative, T=None, name="any")

    with tf.Graph().as_default() as graph:
        (found,) = tf.import_graph_def(w.graph, name="", return_elements=["any:0"])
    assert found.dtype == tf.bool
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(found, {"x:0": X}), np.ones_like(X, bool))
