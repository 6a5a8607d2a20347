"""Errors of graphs that cannot be used: they say where and why, all faults at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr, loop
from treadle.dtypes import boolean, f32
from treadle.errors import InputError, ModelError, ModelFormatError, UnsupportedModelError
from treadle.frontends.tensorflow import load
from treadle.frontends.tensorflow.messages import GraphDef, SavedModel


def relu() -> Writer:
    w = Writer()
    w.node("Relu", w.input("x", (2,)), name="y")
    return w


def test_unsupported_ops_are_listed_with_their_nodes() -> None:
    """
    One line for each op, with its nodes; ops that no output needs do not count.
    """
    w = Writer()
    x = w.input("x", (2,))
    a, b = w.node("Frobnicate", x, name="a"), w.node("Frobnicate", x, name="b")
    w.node("Mangle", a, b, name="c")
    w.node("Unneeded", x, name="d")

    with pytest.raises(UnsupportedModelError) as error:
        load(w.bytes(), outputs=["c"])

    assert len(error.value.faults) == 2
    assert any("Frobnicate (nodes 'a', 'b')" in fault for fault in error.value.faults)
    assert any("Mangle (nodes 'c')" in fault for fault in error.value.faults)


def test_an_op_inside_a_function_is_listed_too() -> None:
    """
    The branches of an If are checked when the graph is loaded.
    """
    w = Writer()
    w.function("odd", {"a": f32}, {"r": "b:out:0"}, [("b", "Frobnicate", ["a"], {"T": f32})])
    w.node("If", w.input("flag", (), "bool"), w.input("x", (2,)), T=None, Tout=[f32], Tcond=boolean,
           then_branch=function_attr("odd"), else_branch=function_attr("odd"))  # fmt: skip

    with pytest.raises(UnsupportedModelError, match="Frobnicate"):
        load(w.bytes())


@pytest.mark.parametrize("op", ["VariableV2", "VarHandleOp"])
def test_a_graph_without_the_values_of_its_variables(op: str) -> None:
    """
    The values of variables are in a checkpoint, not in the graph.
    """
    w = Writer()
    w.node("Neg", w.node(op, T=None), name="y")

    with pytest.raises(UnsupportedModelError, match="save it as a SavedModel, and load that folder"):
        load(w.bytes())


@pytest.mark.parametrize(("left_out", "words"), [("next", "NextIteration"), ("switch", "Switch"), ("test", "LoopCond")])
def test_a_malformed_loop_of_tensorflow_1_raises(left_out: str, words: str) -> None:
    """
    A loop without NextIteration, Exit or LoopCond.
    """
    w = loop()
    for node in w.graph.node:
        if node.name == left_out:
            node.op = "Identity"
            del node.input[1:]

    with pytest.raises(ModelError, match=words):
        load(w.bytes())


def test_the_error_of_a_saved_models_file_names_its_folder(tmp_path: Path) -> None:
    """
    The variables lie in other files.
    """
    model = SavedModel(saved_model_schema_version=1)
    model.meta_graphs.add().graph_def.CopyFrom(relu().graph)
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())

    with pytest.raises(ModelFormatError, match="load its folder"):
        treadle.Session(tmp_path / "saved_model.pb")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x0a\x7fshort", "cut short"),
        (b"hello", "no frozen TensorFlow graph"),
        (b"node {", "no frozen"),
        (GraphDef(version=1).SerializeToString(), "no nodes"),
    ],
)
def test_content_other_than_a_graph_def_raises(tmp_path: Path, content: bytes, words: str) -> None:
    """
    Empty, truncated, other text, and a message without nodes.
    """
    (tmp_path / "model.pb").write_bytes(content)

    with pytest.raises(ModelFormatError, match=words):
        treadle.Session(tmp_path / "model.pb")


def test_a_missing_file_raises(tmp_path: Path) -> None:
    """
    With the operating system's reason.
    """
    with pytest.raises(ModelFormatError, match="No such file"):
        treadle.Session(tmp_path / "absent.pb")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outputs": ["z"]}, "names 'z'"),
        ({"outputs": ["yy"]}, "did you mean y"),
        ({"outputs": ["y:3"]}, "no tensor 'y:3'"),
        ({"outputs": ["y", "y"]}, "once"),
        ({"inputs": ["nowhere"]}, "names 'nowhere'"),
        ({"inputs": ["aside"]}, "no output depends on the input 'aside'"),
        ({"inputs": []}, "not among the inputs requested"),
    ],
)
def test_names_of_tensors_must_exist(options: dict[str, list[str]], words: str) -> None:
    """
    Unknown, duplicate and unused names raise.
    """
    w = relu()
    w.input("aside", (2,))

    with pytest.raises(ModelError, match=words):
        treadle.Session(w.bytes(), **options)


def test_other_models_take_no_tensor_names() -> None:
    """
    inputs= and outputs= belong to frozen graphs.
    """
    with pytest.raises(InputError, match="TensorFlow"):
        treadle.Session(load(relu().bytes()), outputs=["y"])


@pytest.mark.parametrize("option", ["inputs", "outputs"])
@pytest.mark.parametrize("given", ["y", b"y", {"y": 1}, 5])
def test_names_must_be_a_list(tmp_path: Path, option: str, given: object) -> None:
    """
    A string would be a sequence of one-letter names.
    """
    path = tmp_path / "relu.pb"
    path.write_bytes(relu().bytes())
    with pytest.raises(InputError, match=f"{option}=: wanted a list of names of tensors, got"):
        treadle.Session(path, **{option: given})


@pytest.mark.parametrize("option", ["inputs", "outputs"])
def test_names_in_a_list_must_be_strings(tmp_path: Path, option: str) -> None:
    """
    The error gives the index of the item.
    """
    path = tmp_path / "relu.pb"
    path.write_bytes(relu().bytes())
    with pytest.raises(InputError, match=rf"^{option}=: wanted names of tensors, got 3 \(int\) at place 1"):
        treadle.Session(path, **{option: ["x", 3]})


def test_an_empty_list_of_outputs_raises() -> None:
    """
    The error is about the list, not about a graph without outputs.
    """
    with pytest.raises(ModelError, match="outputs= names no tensor"):
        load(relu().bytes(), outputs=[])


def broken(change: str) -> Writer:
    w = relu()
    node = w.graph.node[1]
    if change == "unknown input":
        node.input[0] = "nobody"
    elif change == "two of a name":
        w.node("Neg", "x", name="y")
    elif change == "circle":
        node.input[0] = "z"
        w.node("Neg", "y", name="z")
        w.node("Neg", "z", name="end")
    elif change == "too few inputs":
        del node.input[:]
    elif change == "dtype":
        w.graph.node[0].attr["dtype"].type = 8
    elif change == "shape":
        w.graph.node[0].attr["shape"].shape.dim[0].size = -7
    elif change == "no value":
        w.node("Add", "y", w.node("Const", T=None, dtype=f32), name="end")
    elif change == "misfit":
        w.node("Add", "y", w.constant(np.zeros(3, np.float32)), name="end")
    elif change == "wrong size":
        w.node("Add", "y", w.constant(np.zeros(3, np.float32)), name="end")
        w.graph.node[2].attr["value"].tensor.tensor_content = b"1234567"
    elif change == "huge":
        w.node("Add", "y", w.constant(np.zeros(3, np.float32)), name="end")
        w.graph.node[2].attr["value"].tensor.tensor_shape.dim[0].size = 1 << 62
    return w


@pytest.mark.parametrize(
    "change",
    ["unknown input", "two of a name", "circle", "too few inputs", "dtype", "shape", "no value", "misfit", "wrong size",
     "huge"],
)  # fmt: skip
def test_invalid_graphs_raise(change: str) -> None:
    """
    With a ModelError that names what is wrong.
    """
    with pytest.raises(ModelError) as error:
        load(broken(change).bytes())

    assert error.value.faults


def test_recursive_functions_raise() -> None:
    """
    Directly or through each other.
    """
    w = Writer()
    w.function("f", {"a": f32}, {"r": "b:r:0"}, [("b", "g", ["a"], {})])
    w.function("g", {"a": f32}, {"r": "b:r:0"}, [("b", "f", ["a"], {})])
    w.node("f", w.input("x", (2,)), name="y")

    with pytest.raises(ModelError, match="calls itself"):
        load(w.bytes())


def test_too_many_expanded_calls_raise() -> None:
    """
    Each of forty functions calls the next one twice: 2 to the power of 40 nodes.
    """
    w = Writer()
    for level in range(40):
        inner = f"f{level + 1}" if level < 39 else "Neg"
        w.function(f"f{level}", {"a": f32}, {"r": "c:r:0"}, [("b", inner, ["a"], {}), ("c", inner, ["b:r:0"], {})])
    w.node("f0", w.input("x", (2,)), name="y")

    with pytest.raises(ModelError, match="more than"):
        load(w.bytes())


def test_an_invalid_shape_in_the_run_names_its_node() -> None:
    """
    Sizes that only the run knows are checked in the run.
    """
    w = Writer()
    w.node("MatMul", w.input("x", (None, None)), w.constant(np.eye(3, dtype=np.float32)), name="product")
    session = treadle.Session(w.bytes())

    with pytest.raises(ModelError, match="product"):
        session.run({"x": np.zeros((2, 4), np.float32)})
    assert session.run({"x": np.ones((2, 3), np.float32)})["product"].shape == (2, 3)
