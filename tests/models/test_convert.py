"""Optimised graphs written as ONNX: the file gives what the model gives, here and in ONNX Runtime."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models import small
from tests.models.contrib import OneNode, some
from tests.models.expected import expected_results
from tests.models.small import ModelWriter, node
from tests.models.test_linear_attention import RULES
from tests.unit.cli.command import treadle as command
from treadle import dtypes
from treadle.convert import Converted, convert
from treadle.errors import InputError, ModelFormatError, ShapeError, UnsupportedModelError
from treadle.frontends.onnx.writing.control import write_node
from treadle.frontends.onnx.writing.writer import Unwritable, Writer
from treadle.graph.graph import Graph

Array = np.ndarray[Any, Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 4)).astype(np.float32)


def results_of_layers(model: onnx.ModelProto, feed: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime gives, else a session: the `onnx` package ignores the lengths of recurrent layers."""
    if importlib.util.find_spec("onnxruntime") is None:
        return list(treadle.Session(model).run(feed).values())
    return expected_results(model, feed)


def assert_same(
    model: onnx.ModelProto,
    feeds: Sequence[Mapping[str, Array]],
    folder: Path,
    *,
    elsewhere: Callable[[onnx.ModelProto, Mapping[str, Array]], list[Array]] = expected_results,
    **options: Any,
) -> Converted:
    """The file gives for all `feeds` what the model gives, here and `elsewhere`, and has its inputs and outputs."""
    done = convert(model.SerializeToString(), folder / "out.onnx", **options)
    written = onnx.load(done.path)
    if all(value.type.tensor_type.HasField("shape") for value in written.graph.output):  # the checker wants it
        onnx.checker.check_model(written)
    for side in ("input", "output"):
        names = [value.name for value in getattr(model.graph, side)]
        assert [value.name for value in getattr(written.graph, side)] == names
    session = treadle.Session(done.path)
    for feed in feeds:
        wanted = elsewhere(model, feed)
        for found in (elsewhere(written, feed), list(session.run(feed).values())):
            for one, other in zip(found, wanted, strict=True):
                assert one.shape == other.shape
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return done


def graph_model(nodes: list[onnx.NodeProto], inputs: Mapping[str, Any], *outputs: str) -> onnx.ModelProto:
    declared = [helper.make_tensor_value_info(name, *form) for name, form in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", declared, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_batch_normalisation_is_in_the_weights(tmp_path: Path) -> None:
    """Convolutions, pools and a classifier; under math="exact" the normalisation stays."""
    model = small.convolutional()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value or 2 for dim in dims]
    feed = {model.graph.input[0].name: RNG.standard_normal(shape).astype(np.float32)}
    done = assert_same(model, [feed], tmp_path)
    assert done.after["Conv"] == done.before["conv"]
    assert done.after["BatchNormalization"] == 0
    assert_same(model, [feed], tmp_path, math="exact")


def encoder() -> onnx.ModelProto:
    """A layer normalisation and heads of x [batch, length, 16], as exporters spell them, with shape arithmetic."""
    w = ModelWriter()
    mean = w.op("ReduceMean", "x", axes=[-1])
    centred = w.op("Sub", "x", mean)
    square = w.op("Pow", centred, w.constant(np.float32(2)))
    root = w.op("Sqrt", w.op("Add", w.op("ReduceMean", square, axes=[-1]), w.constant(np.float32(1e-5))))
    norm = w.op("Add", w.op("Mul", w.op("Div", centred, root), w.random(16)), w.random(16))
    sizes = w.op("Shape", norm)
    batch = w.op("Unsqueeze", w.op("Gather", sizes, w.constant(np.array(0))), w.constant(np.array([0])))
    length = w.op("Unsqueeze", w.op("Gather", sizes, w.constant(np.array(1))), w.constant(np.array([0])))
    heads = w.op("Concat", batch, length, w.constant(np.array([4, 4])), axis=0)
    split = w.op("Transpose", w.op("Reshape", norm, heads), perm=[0, 2, 1, 3])
    scores = w.op("Softmax", w.op("MatMul", split, w.op("Transpose", split, perm=[0, 1, 3, 2])), axis=-1)
    mixed = w.op("Transpose", w.op("MatMul", scores, split), perm=[0, 2, 1, 3])
    flat = w.op("Mul", batch, length)
    w.op("Reshape", mixed, w.op("Concat", flat, w.constant(np.array([16])), axis=0))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["batch", "length", 16])}, {"y": (FLOAT, None)})


def test_open_dimensions_stay_open(tmp_path: Path) -> None:
    """One file serves all sizes; sizes that the model computes are written as arithmetic."""
    feeds = [{"x": RNG.standard_normal((*sizes, 16)).astype(np.float32)} for sizes in ((2, 3), (1, 7), (4, 1), (0, 2))]
    done = assert_same(encoder(), feeds, tmp_path)
    assert done.after["LayerNormalization"] == done.after["Softmax"] == 1
    dims = onnx.load(done.path).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", "length", 16]


def loop() -> onnx.ModelProto:
    """Running sums of the rows of x, and the last of them; m says how many."""
    step = helper.make_graph(
        [
            node("Gather", ["x", "i"], "row"),
            node("Add", ["s", "row"], "next"),
            node("Identity", ["next"], "item"),
            node("Identity", ["on"], "again"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("s", FLOAT, [4]),
        ],
        [helper.make_empty_tensor_value_info(name) for name in ("again", "next", "item")],
    )
    nodes = [node("ReduceMax", ["x"], "s0", keepdims=0), node("Expand", ["s0", "four"], "s1")]
    nodes.append(helper.make_node("Loop", ["m", "", "s1"], ["last", "sums"], name="loop", body=step))
    model = graph_model(nodes, {"x": (FLOAT, ["n", 4]), "m": (INT64, [])}, "last", "sums")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([4]), "four"))
    return model


def branch() -> onnx.ModelProto:
    yes = helper.make_graph([node("Add", ["x", "z"], "a")], "yes", [], [helper.make_empty_tensor_value_info("a")])
    no = helper.make_graph([node("Tanh", ["z"], "b")], "no", [], [helper.make_empty_tensor_value_info("b")])
    nodes = [node("Neg", ["x"], "z"), node("If", ["c"], "y", then_branch=yes, else_branch=no)]
    return graph_model(nodes, {"x": (FLOAT, ["n", 4]), "c": (BOOL, [])}, "y")


@pytest.mark.parametrize(
    ("make", "feeds"),
    [
        (loop, [{"x": X, "m": np.array(3)}, {"x": X[:2], "m": np.array(1)}]),
        (branch, [{"x": X, "c": np.array(True)}, {"x": X, "c": np.array(False)}]),
    ],
)
def test_bodies_are_written(make: Callable[[], onnx.ModelProto], feeds: list[dict[str, Array]], tmp_path: Path) -> None:
    assert_same(make(), feeds, tmp_path)


def test_products_in_bodies_may_have_unknown_ranks() -> None:
    """As in loops of recurrent cells; only a transposed factor must have a known rank."""
    graph, w = Graph("body"), Writer(21)
    x, y = (graph.input(name, dtypes.f32, None) for name in "xy")
    plain = graph.add("matmul", [x, y], {"transpose_a": False, "transpose_b": False})
    turned = graph.add("matmul", [x, y], {"transpose_a": False, "transpose_b": True})
    plain.output.dtype = turned.output.dtype = dtypes.f32
    write_node(plain, w)
    assert [made.op_type for made in w.nodes] == ["MatMul"]
    with pytest.raises(Unwritable, match="the rank of an operand is not known"):
        write_node(turned, w)


def test_sizes_that_depend_on_data_are_written(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["x"], "found"), node("Transpose", ["found"], "t"), node("Shape", ["t"], "s")]
    model = graph_model([*nodes, node("GatherND", ["x", "t"], "y")], {"x": (FLOAT, [5, 4])}, "y", "s")
    assert_same(model, [{"x": X * (X > 0)}], tmp_path)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers_are_written(op: str, direction: str, tmp_path: Path) -> None:
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 2 if direction == "bidirectional" else 1
    w = ModelWriter()
    weights = [w.random(count, gates * 3, 4), w.random(count, gates * 3, 3), w.random(count, 2 * gates * 3)]
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    w.op(op, "x", *weights, "lengths", outputs=2, hidden_size=3, direction=direction, **more)
    w.nodes[-1].output[:] = ["y", "h"]
    inputs = {"x": (FLOAT, [5, 2, 4]), "lengths": (TensorProto.INT32, [2])}
    model = w.model(inputs, {"y": (FLOAT, None), "h": (FLOAT, None)})
    feed = {"x": RNG.standard_normal((5, 2, 4)).astype(np.float32), "lengths": np.int32([5, 3])}
    assert_same(model, [feed], tmp_path, elsewhere=results_of_layers)


def test_bytes_are_multiplied_as_bytes(tmp_path: Path) -> None:
    w = ModelWriter()
    weights = w.constant(RNG.integers(-100, 100, (4, 3)).astype(np.int8))
    w.op("MatMulInteger", "x", weights)
    w.nodes[-1].output[0] = "y"
    model = w.model({"x": (TensorProto.UINT8, ["n", 4])}, {"y": (TensorProto.INT32, None)})
    assert_same(model, [{"x": RNG.integers(0, 255, (5, 4)).astype(np.uint8)}], tmp_path)


def test_operators_without_a_core_op_stay(tmp_path: Path) -> None:
    """They are of their own operator set, and so is the file."""
    model = graph_model([node("Add", ["x", "x"], "z"), node("Det", ["z"], "y")], {"x": (FLOAT, [2, 3, 3])}, "y")
    done = assert_same(model, [{"x": RNG.standard_normal((2, 3, 3)).astype(np.float32)}], tmp_path)
    assert done.after["Det"] == 1
    assert onnx.load(done.path).opset_import[0].version == 18


@pytest.mark.parametrize("rule", ["linear", "gated by key", "gated delta"])
def test_linear_attention_is_written_for_onnxruntime(rule: str, tmp_path: Path) -> None:
    node = RULES[rule]
    model = onnx.load_from_string(node.model(is_open=False))
    assert_same(model, [node.feeds()], tmp_path, elsewhere=results_of_layers)


def test_inverses_are_written_for_onnxruntime(tmp_path: Path) -> None:
    matrices = OneNode("Inverse", {"x": 3 * np.eye(3, dtype=np.float32) + some(2, 3, 3)})
    model = onnx.load_from_string(matrices.model(is_open=True))
    assert_same(model, [matrices.feeds()], tmp_path, elsewhere=results_of_layers)


def test_outputs_keep_their_names(tmp_path: Path) -> None:
    """Those of inputs, of constants, and of one value twice, too."""
    nodes = [node("Neg", ["x"], "a"), node("Identity", ["a"], "b"), node("Identity", ["x"], "c")]
    nodes += [node("Abs", ["two"], "d"), node("Neg", ["x"], "e")]
    model = graph_model(nodes, {"x": (FLOAT, ["n", 4])}, "a", "b", "c", "d", "e")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([-2]), "two"))
    assert_same(model, [{"x": X}], tmp_path)


def test_weights_may_lie_beside_the_file(tmp_path: Path) -> None:
    done = assert_same(encoder(), [{"x": np.ones((1, 2, 16), np.float32)}], tmp_path, external=True)
    assert done.external == tmp_path / "out.onnx.data"
    assert done.external.stat().st_size >= 128
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Nothing is written then, and all nodes are named."""
    path = tmp_path / "out.onnx"
    model = graph_model(
        [node("Mod", ["x", "x"], "a", fmod=1), node("BitShift", ["i", "i"], "b", direction="LEFT")],
        {"x": (FLOAT, [4]), "i": (TensorProto.UINT8, [4])}, "a", "b",
    )  # fmt: skip
    convert(model.SerializeToString(), path)
    path.unlink()
    graph = Graph("g")
    x = graph.input("x", dtypes.f32, (4,))
    for name in ("one", "two"):
        graph.outputs.append(graph.add("mod", [x, x], name=name).output)
    with pytest.raises(UnsupportedModelError, match=r"node 'one' \(mod\): ONNX has no remainder.*\n.*node 'two'"):
        convert(graph, path)
    pieces = graph_model([node("SplitToSequence", ["x"], "y")], {"x": (FLOAT, [4, 4])})
    pieces.graph.output.append(helper.make_tensor_sequence_value_info("y", FLOAT, None))
    with pytest.raises(UnsupportedModelError, match=r"outputs that are no tensors of core values .*: 'y'"):
        convert(pieces.SerializeToString(), path)
    with pytest.raises(InputError, match="there is no folder"):
        convert(model.SerializeToString(), tmp_path / "none" / "out.onnx")
    with pytest.raises(ModelFormatError):
        convert(b"no model", path)
    assert list(tmp_path.iterdir()) == []


def test_sizes_may_be_given_for_a_model_that_few_fit(tmp_path: Path) -> None:
    """The window is larger than small samples, the squeezed axis not 1 for large ones; fitted ones are between."""
    w = RNG.standard_normal((3, 1, 256)).astype(np.float32)
    nodes = [
        node("Constant", [], "w", value=onnx.numpy_helper.from_array(w)),
        node("Constant", [], "axes", value_ints=[2]),
        node("Conv", ["x", "w"], "c", strides=[256]),
        node("Squeeze", ["c", "axes"], "y"),
    ]
    model = graph_model(nodes, {"x": (FLOAT, ["n", 1, "t"])}, "y")
    feeds = [{"x": RNG.standard_normal((n, 1, t)).astype(np.float32)} for n, t in ((1, 256), (3, 500))]
    with pytest.raises(ShapeError):
        convert(model.SerializeToString(), tmp_path / "out.onnx", dims={"t": 600})
    for dims in (None, {"t": 300}):
        done = assert_same(model, feeds, tmp_path, dims=dims)
        assert any("t" in guard for guard in done.guards)
    with pytest.raises(InputError, match=r"no dimension 'q'; it has n, t"):
        convert(model.SerializeToString(), tmp_path / "out.onnx", dims={"q": 300})
    onnx.save(model, tmp_path / "in.onnx")
    written = command("convert", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--dim", "t=300")
    assert "the same model only if" in written.stdout


def test_the_command_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(encoder(), tmp_path / "in.onnx")
    monkeypatch.chdir(tmp_path)

    done = command("convert", "in.onnx", "out.onnx", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert report["path"] == "out.onnx"
    assert report["after"]["LayerNormalization"] == 1
    assert "out.onnx: " in command("convert", "in.onnx", "out.onnx", "--external").stdout
    assert (tmp_path / "out.onnx.data").exists()
    refused = command("convert", "in.onnx", "none/out.onnx")
    assert refused.returncode == 1
    assert "there is no folder 'none'" in refused.stderr
