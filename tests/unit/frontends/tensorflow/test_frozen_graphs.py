"""Frozen graphs written by treadle's own messages, against NumPy and the references of the ops."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr, loop, mobile
from treadle.dtypes import boolean, f32, from_numpy, i32, i64
from treadle.frontends import load
from treadle.frontends.tensorflow.messages import TensorProto
from treadle.frontends.tensorflow.tensors import NUMBERS, shape_message, to_array
from treadle.graph.graph import Graph
from treadle.graph.template import Template
from treadle.ops.evaluate import evaluate
from treadle.plan.control_flow import Branch, Loop

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def network() -> Writer:
    """relu(x @ w + b), of which softmax and its index are read by nobody; `two` reads a second result."""
    w = Writer()
    x = w.input("x", (None, 4))
    y = w.node("MatMul", x, w.constant(np.eye(4, dtype=np.float32), name="weights"), name="product")
    y = w.node("Relu", w.node("BiasAdd", y, w.constant(np.ones(4, np.float32))), name="hidden")
    w.node("Softmax", y, name="probabilities")
    w.node("TopKV2", y, w.constant(2, np.int32), name="best", sorted=True)
    return w


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def run(w: Writer, arrays: dict[str, np.ndarray], **options: list[str]) -> dict[str, np.ndarray]:
    return treadle.Session(w.bytes(), **options).run(arrays)


def test_default_inputs_are_placeholders_and_outputs_unread_tensors() -> None:
    """
    Without names, a session takes the placeholders and returns the tensors that no node reads.
    """
    session = treadle.Session(network().bytes())

    assert [(t.name, t.dtype, t.shape) for t in session.inputs] == [("x", np.float32, ("?0", 4))]
    assert [(t.name, t.shape) for t in session.outputs] == [("probabilities", ("?0", 4)), ("best", ("?0", 2))]
    found = session.run({"x": X})
    np.testing.assert_allclose(found["probabilities"], softmax(np.maximum(X + 1, 0)), rtol=1e-6)


def test_tensors_have_the_names_of_tensorflow() -> None:
    """
    "name", "name:0" and "name:1" choose outputs, and inputs in the middle of the graph.
    """
    found = run(network(), {"x": X}, outputs=["best:1", "hidden", "product:0"])

    assert list(found) == ["best:1", "hidden", "product:0"]
    assert found["best:1"].tolist() == [[0, 1], [3, 2], [3, 2]]
    np.testing.assert_array_equal(found["product:0"], X)

    part = run(network(), {"hidden:0": X}, inputs=["hidden:0"], outputs=["probabilities:0"])
    np.testing.assert_allclose(part["probabilities:0"], softmax(X), rtol=1e-6)


def test_a_file_in_binary_or_text_form_loads_by_its_path(tmp_path: Path) -> None:
    """
    .pb holds the message, .pbtxt spells it out; a text under the name of a binary file is read too.
    """
    from google.protobuf import text_format

    w = network()
    (tmp_path / "a.pb").write_bytes(w.bytes())
    for name in ("a.pbtxt", "text.pb"):
        (tmp_path / name).write_text(text_format.MessageToString(w.graph), encoding="utf-8")

    for name in ("a.pb", "a.pbtxt", "text.pb"):
        found = treadle.Session(tmp_path / name, outputs=["hidden"]).run({"x": X})
        np.testing.assert_array_equal(found["hidden"], np.maximum(X + 1, 0))


def test_a_graph_def_object_loads() -> None:
    """
    A session takes the message itself.
    """
    assert isinstance(load(network().graph), Template)


def test_a_graph_of_fixed_shapes_is_compiled_when_it_is_loaded() -> None:
    """
    It is a Graph, which is planned before the first run.
    """
    w = mobile(32, 2)

    assert isinstance(load(w.bytes()), Graph)
    assert len(treadle.Session(w.bytes()).plans()) == 1


def test_a_network_with_channels_last_has_no_transpose_between_its_convolutions() -> None:
    """
    Of the transposes for TensorFlow's layout only that of the input remains.
    """
    session = treadle.Session(mobile(64).bytes())
    (plan,) = session.plans()
    ops = [call.op for call in plan.calls]

    assert sum(node.op == "transpose" for node in session.graph.nodes) > 50
    assert ops.count("transpose") == 1
    assert ops.index("transpose") < ops.index("conv")
    assert "pad" not in ops


def both_layouts(op: str, last: bool) -> Writer:
    """An op on images [2, 9, 7, 4], whose channels are last, or first with a transpose before and after."""
    w = Writer()
    x, form = w.input("x", (2, 9, 7, 4)), "NHWC" if last else "NCHW"

    def around(numbers: list[int]) -> list[int]:
        return numbers if last else [numbers[0], numbers[3], *numbers[1:3]]

    y = x if last else w.node("Transpose", x, w.ints(0, 3, 1, 2))
    strides, window = around([1, 2, 2, 1]), around([1, 3, 3, 1])
    how = {"strides": strides, "padding": "SAME", "data_format": form}
    if op in ("MaxPool", "AvgPool"):
        y = w.node(op, y, ksize=window, **how)
    elif op == "FusedBatchNormV3":
        y = w.norm(y, 4)
        w.graph.node[-1].attr["data_format"].s = form.encode()
    elif op == "BiasAdd":
        y = w.node(op, y, w.weights(4), data_format=form)
    elif op == "Conv2DBackpropInput":
        wide = w.constant(around([2, 18, 14, 5]), np.int32)
        y = w.node(op, wide, w.weights(3, 3, 5, 4), y, dilations=[1] * 4, **how)
    elif op == "explicit":
        pads = [0, 0, 1, 2, 0, 3, 0, 0] if last else [0, 0, 0, 0, 1, 2, 0, 3]
        y = w.node("Conv2D", y, w.weights(3, 3, 4, 5), **{**how, "padding": "EXPLICIT"}, explicit_paddings=pads)
    else:
        y = w.node(op, y, w.weights(3, 3, 4, 2), dilations=around([1, 1, 1, 1]), **how)
    w.node("Identity" if last else "Transpose", y, *([] if last else [w.ints(0, 2, 3, 1)]), name="y")
    return w


@pytest.mark.parametrize(
    "op",
    ["Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "MaxPool", "AvgPool", "FusedBatchNormV3", "BiasAdd",
     "explicit"],
)  # fmt: skip
def test_channels_may_be_first(op: str) -> None:
    """
    data_format NCHW gives the result of NHWC.
    """
    x = np.random.default_rng(4).standard_normal((2, 9, 7, 4)).astype(np.float32)
    first, last = (run(both_layouts(op, last), {"x": x})["y"] for last in (False, True))

    np.testing.assert_allclose(first, last, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_mobile_network_matches_the_references(batch: int) -> None:
    """
    With a batch size that only the run knows.
    """
    images = np.random.default_rng(3).random((batch, 64, 64, 3)).astype(np.float32)
    graph = load(mobile(64, batch).bytes())
    assert isinstance(graph, Graph)

    found = treadle.Session(mobile(64, None).bytes()).run({"images": images})
    np.testing.assert_allclose(
        found["probabilities"], evaluate(graph, {"images": images})["probabilities"], rtol=1e-4, atol=1e-6
    )


def test_names_may_be_of_any_script() -> None:
    """
    Names of nodes in UTF-8 are kept.
    """
    w = Writer()
    w.node("Neg", w.input("Eingabe größer/输入", (2,)), name="выход")

    assert run(w, {"Eingabe größer/输入": np.float32([1, 2])})["выход"].tolist() == [-1, -2]


def stored(dtype: int, shape: tuple[int, ...], **fields: object) -> TensorProto:
    return TensorProto(dtype=dtype, tensor_shape=shape_message(shape), **fields)


@pytest.mark.parametrize(
    ("field", "values", "dtype"),
    [
        ("float_val", [1.5, -2.0], np.float32),
        ("double_val", [1.5, -2.0], np.float64),
        ("int_val", [3, -4], np.int32),
        ("int_val", [3, -4], np.int16),
        ("int_val", [3, 250], np.uint8),
        ("int64_val", [3, -(2**40)], np.int64),
        ("uint64_val", [3, 2**63], np.uint64),
        ("bool_val", [True, False], np.bool_),
        ("half_val", np.float16([1.5, -2]).view(np.uint16).tolist(), np.float16),
        ("half_val", np.array([1.5, -2], ml_dtypes.bfloat16).view(np.uint16).tolist(), ml_dtypes.bfloat16),
    ],
)
def test_elements_may_be_stored_in_typed_fields_and_the_last_repeats(field, values, dtype) -> None:
    """
    Each type has its field; a tensor with fewer elements than its shape wants repeats the last.
    """
    number = NUMBERS[from_numpy(np.dtype(dtype))]
    wanted = np.array(values).astype(np.uint16).view(dtype) if field == "half_val" else np.array(values, dtype)

    np.testing.assert_array_equal(to_array(stored(number, (2,), **{field: values})), wanted)
    repeated = to_array(stored(number, (2, 3), **{field: values}))
    np.testing.assert_array_equal(repeated.reshape(-1), [wanted[0], *[wanted[1]] * 5])
    alone = to_array(stored(number, (1000, 1000), **{field: values[:1]}))
    assert alone.dtype == dtype
    assert (alone == wanted[0]).all()
    assert not to_array(stored(number, (2, 2))).any()


def test_one_element_that_fills_a_large_constant_takes_no_memory() -> None:
    """
    It is expanded in the run, not when the file is read.
    """
    w = Writer()
    node = w.graph.node.add(name="ones", op="Const")
    node.attr["dtype"].type = 1
    node.attr["value"].tensor.CopyFrom(stored(1, (1 << 15, 1 << 15), float_val=[1.0]))
    w.node("Sum", w.node("Mul", "ones", w.input("x", (1,))), w.ints(0, 1), name="sum")
    graph = load(w.bytes())

    assert isinstance(graph, Graph)
    assert all(value.data.size < 100 for value in graph.constants())


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_with_a_constant_predicate_is_removed(taken: bool) -> None:
    """
    The other side of a frozen learning phase may hold unsupported ops.
    """
    w = Writer()
    x = w.input("x", (3, 4))
    phase = w.node("PlaceholderWithDefault", w.constant(taken), T=None, dtype=boolean, shape=(), name="phase")
    side = w.node("Switch", x, phase, name="switch")
    train = w.node("RandomTrouble" if not taken else "Neg", f"{side}:1")
    test = w.node("RandomTrouble" if taken else "Abs", side)
    w.node("Identity", w.node("Merge", test, train, N=2), name="y")

    np.testing.assert_array_equal(run(w, {"x": X})["y"], -X if taken else abs(X))


def test_a_branch_of_tensorflow_1_chooses_in_the_run() -> None:
    """
    Constants belong to a side by a control input only.
    """
    w = Writer()
    x, flag = w.input("x", (3, 4)), w.input("flag", (), "bool")
    w.node("Identity", w.node("Switch", flag, flag, name="switch", T=boolean) + ":1", T=boolean, name="pivot")
    constant = w.constant(np.float32(7), name="seven")
    w.graph.node[-1].input.append("^pivot")
    other = w.node("Switch", x, flag)
    yes = w.node("Fill", w.ints(3, 4), constant)
    w.node("Merge", w.node("Neg", other), yes, N=2, name="y")

    np.testing.assert_array_equal(run(w, {"x": X, "flag": np.array(False)}, outputs=["y"])["y"], -X)
    assert (run(w, {"x": X, "flag": np.array(True)}, outputs=["y"])["y"] == 7).all()


def with_functions() -> Writer:
    w = Writer()
    w.function("double", {"a": f32}, {"r": "twice:z:0"}, [("twice", "AddV2", ["a", "a"], {"T": f32})])
    w.function(
        "shrink", {"a": f32}, {"r": "cut:output:0"},
        [("zero", "Const", [], {"dtype": i32, "value": np.array([0], np.int32)}),
         ("two", "Const", [], {"dtype": i32, "value": np.array([2], np.int32)}),
         ("cut", "Slice", ["a", "zero:output:0", "two:output:0"], {"T": f32, "Index": i32})],
    )  # fmt: skip
    w.function("small", {"a": f32}, {"r": "less:z:0"}, [
        ("axis", "Const", [], {"dtype": i32, "value": np.array([0], np.int32)}),
        ("most", "Max", ["a", "axis:output:0"], {"T": f32}),
        ("limit", "Const", [], {"dtype": f32, "value": np.array(100, np.float32)}),
        ("less", "Less", ["most:output:0", "limit:output:0"], {"T": f32}),
    ])  # fmt: skip
    return w


def test_only_the_taken_function_of_a_branch_runs() -> None:
    """
    The two sides may have different shapes; what follows is compiled in the run.
    """
    w = with_functions()
    flag, x = w.input("flag", (), "bool"), w.input("x", (4,))
    y = w.node("If", flag, x, T=None, Tin=[f32], Tout=[f32], Tcond=boolean, name="branch",
               then_branch=function_attr("double"), else_branch=function_attr("shrink"))  # fmt: skip
    w.node("Softmax", w.node("ExpandDims", y, w.constant(0, np.int32)), name="y")
    x = X.reshape(-1)[:4]

    session = treadle.Session(w.bytes())
    np.testing.assert_allclose(session.run({"x": x, "flag": np.array(True)})["y"], softmax(2 * x[None]), rtol=1e-5)
    np.testing.assert_allclose(session.run({"x": x, "flag": np.array(False)})["y"], softmax(x[None, :2]), rtol=1e-5)


def test_a_branch_of_one_shape_runs_in_the_native_run() -> None:
    """
    One plan holds both sides, for all sizes.
    """
    w = with_functions()
    w.function("turn", {"a": f32}, {"r": "turned:y:0"}, [("turned", "Neg", ["a"], {"T": f32})])
    flag, x = w.input("flag", (), "bool"), w.input("x", (None,))
    y = w.node("If", flag, x, T=None, Tin=[f32], Tout=[f32], Tcond=boolean, name="branch",
               then_branch=function_attr("double"), else_branch=function_attr("turn"))  # fmt: skip
    w.node("Neg", y, name="y")
    session = treadle.Session(w.bytes())
    for rows in (1, 4):
        x = X.reshape(-1)[:rows]
        np.testing.assert_array_equal(session.run({"x": x, "flag": np.array(True)})["y"], -2 * x)
        np.testing.assert_array_equal(session.run({"x": x, "flag": np.array(False)})["y"], x)

    assert session.compiles == 1
    assert_native(session, Branch)


def assert_native(session: treadle.Session, kind: type = Loop) -> None:
    """
    Check that the plan has control flow of this kind, and no step in Python.
    """
    plan = session.plans()[0]
    assert any(isinstance(call.control, kind) for call in plan.calls)
    assert all(call.function is None for call in plan.calls)


def test_loops_of_functions_repeat_while_the_test_is_true() -> None:
    """
    A While node doubles until the largest element reaches 100.
    """
    w = with_functions()
    x = w.input("x", (None,))
    w.node("StatelessWhile", x, T=[f32], cond=function_attr("small"), body=function_attr("double"), name="loop")
    w.node("Neg", "loop", name="y")

    session = treadle.Session(w.bytes())
    for rows in (1, 2, 9):
        found = session.run({"x": np.float32([1, 3] * rows)})["y"]
        assert found.tolist() == [-64, -192] * rows
    assert session.compiles == 1
    assert_native(session)


def test_loops_of_tensorflow_1_repeat_while_the_test_is_true() -> None:
    """
    Frames of Enter, Merge, Switch, NextIteration and Exit, with a loop invariant.
    """
    session = treadle.Session(loop().bytes(), outputs=["y", "exit"])
    x = np.float32([1, -2])

    for n in (0, 1, 4):
        found = session.run({"x": x, "n": np.array(n, np.int32)})
        np.testing.assert_array_equal(found["y"], -x * 3**n)
        np.testing.assert_array_equal(found["exit"], x * 3**n)
    assert_native(session)


@pytest.mark.parametrize("op", ["PartitionedCall", "double"])
def test_calls_of_functions_are_expanded(op: str) -> None:
    """
    By call ops, and by the name of the function as the op.
    """
    w = with_functions()
    attrs = {"f": function_attr("double"), "Tin": [f32], "Tout": [f32]} if op == "PartitionedCall" else {}
    w.node("Neg", w.node(op, w.input("x", (4,)), T=None, **attrs), name="y")

    graph = load(w.bytes())
    assert isinstance(graph, Graph)
    assert [node.op for node in graph.nodes] == ["add", "neg"]


def test_ops_after_a_shape_known_only_in_the_run_are_compiled() -> None:
    """
    Where has as many rows as true conditions; the ops after it run as kernels, not as references.
    """
    w = Writer()
    x = w.input("x", (3, 4))
    places = w.node("Where", w.node("Greater", x, w.constant(np.float32(0))), T=boolean)
    picked = w.node("GatherNd", x, places, T=None, Tparams=f32, Tindices=i64)
    row = w.node("ExpandDims", picked, w.constant(0, np.int32))
    w.node("Softmax", row, name="y")
    session = treadle.Session(w.bytes())

    np.testing.assert_allclose(session.run({"x": X})["y"], softmax(X[X > 0][None]), rtol=1e-6)
    np.testing.assert_allclose(session.run({"x": X + 3})["y"], softmax((X + 3)[X + 3 > 0][None]), rtol=1e-6)
