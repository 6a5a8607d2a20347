"""Inputs of ONNX models that are no tensors of core values: sequences, optionals, sparse tensors, small elements."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models.small import node
from treadle.errors import InputError, ModelError, RunError, UnsupportedModelError
from treadle.graph.graph import all_nodes
from treadle.tracing.record import record

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def tensor(name: str, kind: int = FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name: str, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, kind, None)


def optional(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, helper.make_optional_type_proto(kind))


def session_of(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: onnx.ValueInfoProto, opset: int = 18
) -> treadle.Session:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "graph", inputs, list(outputs))
    return treadle.Session(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def joiner() -> treadle.Session:
    """x + the elements of a sequence joined, their number, and the sequence with x behind."""
    nodes = [
        node("ConcatFromSequence", ["parts"], "joined", axis=0),
        node("Add", ["joined", "x"], "sum"),
        node("SequenceLength", ["parts"], "count"),
        node("SequenceInsert", ["parts", "x"], "longer"),
    ]
    inputs = [sequence("parts"), tensor("x", FLOAT, ["n", 4])]
    return session_of(nodes, inputs, tensor("sum"), tensor("count", INT64), sequence("longer"))


def test_a_sequence_is_a_list_of_arrays() -> None:
    """
    Its elements may differ in shape, and each length is compiled once, without Python steps.
    """
    session = joiner()
    assert str(session.inputs[0]) == "parts: seq(tensor(float))"
    for _ in range(2):
        found = session.run({"parts": [X[:1], X[1:4], X[4:]], "x": X})
        assert np.array_equal(found["sum"], X + X)
        assert found["count"] == 3
        assert [part.shape for part in found["longer"]] == [(1, 4), (3, 4), (2, 4), (6, 4)]
    before = session.compiles
    assert np.array_equal(session.run({"parts": (X,), "x": X}, ["sum"])["sum"], X + X)
    assert session.compiles > before
    assert all(each.op != "call" for each in all_nodes(session.graph))
    before = session.compiles
    session.run({"parts": [X[:1], X[1:2], X[2:]], "x": X})
    assert session.compiles - before <= 1  # other shapes of elements, at most
    assert session.run_async({"parts": [X], "x": X}).result()["count"] == 1
    assert session.plans()
    assert session.plans_for({"parts": [X], "x": X})
    session.trim()


def test_limits_and_threads_do_not_change_the_bits() -> None:
    session = joiner()
    x = np.tile(X, (10000, 1))
    feeds = {"parts": [x[:30000], x[30000:]], "x": x}
    results = [session.run(feeds, intra_op=threads)["sum"].tobytes() for threads in (1, 2, 5)]
    assert len(set(results)) == 1
    with record() as recording:
        session.run(feeds, intra_op=2)
    chunks = Counter(event.node for event in recording.events for _ in range(event.chunks))
    assert max(chunks.values()) > 1


def test_what_does_not_fit_a_sequence_is_told() -> None:
    session = joiner()
    with pytest.raises(InputError, match="input 'parts': wanted a list of arrays, got ndarray"):
        session.run({"parts": X, "x": X})
    with pytest.raises(InputError, match=r"input 'parts\[1\]': wanted dtype float32, got float64"):
        session.run({"parts": [X, X.astype(np.float64)], "x": X})
    with pytest.raises(
        InputError, match=r"input 'x' is missing.*\n.*there is no input 'y'; the inputs are 'parts', 'x'"
    ):
        session.run({"parts": [X], "y": X})
    with pytest.raises(InputError, match="there is no output 'nothing'"):
        session.run({"parts": [X], "x": X}, ["nothing"])
    with pytest.raises(InputError, match="wanted a mapping"):
        session.run([X])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the model has no graph before it has inputs"):
        _ = joiner().graph
    with pytest.raises(ModelError, match="it joins a sequence without elements"):
        session.run({"parts": [], "x": X})


def test_texts_come_in_sequences() -> None:
    session = session_of(
        [node("SequenceAt", ["texts", "i"], "y")],
        [sequence("texts", TensorProto.STRING), tensor("i", INT64, [])],
        tensor("y", TensorProto.STRING),
    )
    found = session.run({"texts": [np.array(["a", "b"]), ["c"]], "i": np.array(1)})
    assert found["y"].tolist() == ["c"]


@pytest.mark.parametrize("opset", [16, 18])
def test_an_optional_is_its_content_or_none(opset: int) -> None:
    """
    Whether it is there is known when a form is compiled, so that the branch taken stands in its place.
    """
    kind = helper.make_tensor_type_proto(FLOAT, ["n", 4])
    content = helper.make_graph([node("OptionalGetElement", ["bias"], "given")], "yes", [], [tensor("given")])
    zero = helper.make_graph([node("Sub", ["x", "x"], "zero")], "no", [], [tensor("zero")])
    nodes = [
        node("OptionalHasElement", ["bias"], "there"),
        node("If", ["there"], "added", then_branch=content, else_branch=zero),
        node("Add", ["x", "added"], "y"),
        node("Identity", ["bias"], "same"),
    ]
    inputs = [tensor("x", FLOAT, ["n", 4]), optional("bias", kind)]
    outputs = [tensor("y"), tensor("there", TensorProto.BOOL), optional("same", kind)]
    session = session_of(nodes, inputs, *outputs, opset=opset)
    found = session.run({"x": X, "bias": X})
    assert np.array_equal(found["y"], X + X)
    assert found["there"]
    assert np.array_equal(found["same"], X)
    found = session.run({"x": X, "bias": None})
    assert np.array_equal(found["y"], X)
    assert not found["there"]
    assert found["same"] is None
    assert all(each.op != "call" for each in all_nodes(session.graph))


def test_an_optional_may_hold_a_sequence() -> None:
    """
    Taking the content of one without a value is a fault of the run or of its graph.
    """
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    nodes = [node("OptionalGetElement", ["o"], "parts"), node("ConcatFromSequence", ["parts"], "y", axis=0)]
    session = session_of(nodes, [optional("o", kind)], tensor("y"))
    assert np.array_equal(session.run({"o": [X[:2], X[2:]]})["y"], X)
    with pytest.raises(RunError, match="the optional has no value"):
        session.run({"o": None})


FLOATS = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"]
INTEGERS = ["int4", "uint4", "int2", "uint2"]


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_elements_smaller_than_a_byte_come_and_go(name: str) -> None:
    """
    They are numbers of ml_dtypes. Those that come are read by kernels.
    """
    dtype = np.dtype(getattr(ml_dtypes, name))
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    nodes = [node("Cast", ["x"], "wide", to=FLOAT), node("Cast", ["f"], "narrow", to=kind)]
    session = session_of(
        nodes,
        [tensor("x", kind, ["n"]), tensor("f", FLOAT, ["n"])],
        tensor("wide", FLOAT, ["n"]),
        tensor("narrow", kind, ["n"]),
        opset=25,
    )
    numbers = np.float32([1, 0, 1, -1, -2] if not name.startswith("uint") else [1, 0, 3, 2, 1]).astype(dtype)
    found = session.run({"x": numbers, "f": numbers.astype(np.float32)})
    assert np.array_equal(found["wide"], numbers.astype(np.float32))
    assert found["narrow"].dtype == dtype
    assert np.array_equal(found["narrow"].astype(np.float32), numbers.astype(np.float32))
    assert all(each.op != "call" or "narrow" in each.name for each in all_nodes(session.graph))
    with pytest.raises(InputError, match=f"input 'x': wanted dtype {name} .of ml_dtypes., got float32"):
        session.run({"x": numbers.astype(np.float32), "f": numbers.astype(np.float32)})


def test_weights_of_four_bits_may_be_inputs() -> None:
    """
    DequantizeLinear reads them without Python.
    """
    inputs = [tensor("x", TensorProto.INT4, [2, 3]), tensor("scale", FLOAT, [])]
    session = session_of([node("DequantizeLinear", ["x", "scale"], "y")], inputs, tensor("y"), opset=21)
    x = np.array([[-8, 7, 0], [1, -1, 3]]).astype(ml_dtypes.int4)
    found = session.run({"x": x, "scale": np.float32(0.5)})["y"]
    assert np.array_equal(found, x.astype(np.float32) * np.float32(0.5))
    assert all(each.op != "call" for each in all_nodes(session.graph))


def test_maps_of_other_keys_are_no_inputs() -> None:
    kind = helper.make_map_type_proto(TensorProto.INT32, helper.make_tensor_type_proto(FLOAT, []))
    with pytest.raises(UnsupportedModelError, match=r"input 'm': it is a map\(int32,tensor\(float\)\)"):
        session_of([node("Identity", ["x"], "y")], [helper.make_value_info("m", kind), tensor("x")], tensor("y"))


def test_tensors_beside_objects_need_a_core_dtype() -> None:
    inputs = [sequence("parts"), tensor("c", TensorProto.COMPLEX64, [2]), tensor("d", TensorProto.COMPLEX128, [2])]
    with pytest.raises(UnsupportedModelError, match=r"input 'c': its element type is COMPLEX64(.*\n.*)input 'd'"):
        session_of([node("SequenceLength", ["parts"], "n")], inputs, tensor("n", INT64, []))


def test_a_state_needs_tensors() -> None:
    with pytest.raises(InputError, match="states are of models whose inputs are all tensors"):
        joiner().state()


def test_a_process_finds_the_plans_of_an_earlier_one(tmp_path: Any) -> None:
    """
    Each form has artifacts of its own in the cache folder.
    """
    parts = helper.make_tensor_sequence_value_info("parts", FLOAT, [2, 2])
    nodes = [node("SequenceAt", ["parts", "i"], "part"), node("Tanh", ["part"], "y")]
    graph = helper.make_graph(nodes, "g", [parts, tensor("i", INT64, [])], [tensor("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "model.onnx")
    program = (
        "import numpy as np, treadle; s = treadle.Session('model.onnx');"
        "x = np.ones((2, 2), np.float32); found = s.run({'parts': [x, x], 'i': np.array(1)});"
        "assert np.allclose(found['y'], np.tanh(1)); print(s.compiles)"
    )
    counts = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "TREADLE_DEBUG": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert counts == ["1", "0"]


def mapping(op: str, key: int, value: int, **attributes: Any) -> treadle.Session:
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
    made = helper.make_node(op, ["map"], ["row"], domain="ai.onnx.ml", name="row", **attributes)
    cast = {"TO_FLOAT": FLOAT, "TO_INT64": INT64, "TO_STRING": TensorProto.STRING}
    row = tensor("row", cast.get(attributes.get("cast_to", ""), value))
    graph = helper.make_graph([made], "graph", [helper.make_value_info("map", kind)], [row])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    return treadle.Session(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


@pytest.mark.parametrize(
    ("op", "types", "attributes", "given", "row"),
    [
        ("DictVectorizer", "STRING FLOAT", {"string_vocabulary": ["a", "b"]}, {"b": 2.5, "z": 9.0}, [0.0, 2.5]),
        ("DictVectorizer", "INT64 INT64", {"int64_vocabulary": [7, 5]}, {5: 3}, [0, 3]),
        ("DictVectorizer", "INT64 STRING", {"int64_vocabulary": [7, 5]}, {5: "x"}, ["", "x"]),
        ("DictVectorizer", "STRING FLOAT", {"string_vocabulary": ["a", "b"]}, {}, [0.0, 0.0]),
        ("CastMap", "INT64 FLOAT", {}, {9: 2.0, 3: 1.5}, [1.5, 2.0]),
        ("CastMap", "INT64 FLOAT", {"map_form": "SPARSE", "max_map": 4}, {9: 2.0, 1: 1.5}, [0.0, 1.5, 0.0, 0.0]),
        ("CastMap", "INT64 FLOAT", {"cast_to": "TO_INT64"}, {3: -1.75}, [-1]),
        ("CastMap", "INT64 STRING", {"cast_to": "TO_FLOAT"}, {3: "1.5"}, [1.5]),
        ("CastMap", "INT64 FLOAT", {"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 1}, {1: 1.5}, ["0.f"]),
        ("CastMap", "INT64 FLOAT", {"cast_to": "TO_STRING"}, {1: 1.5}, ["1.500000"]),
    ],
)
def test_a_map_is_a_dict(
    op: str, types: str, attributes: dict[str, Any], given: dict[Any, Any], row: list[Any]
) -> None:
    """Of any number of keys. The rows are those of ONNX Runtime 1.32, which takes maps to float alone."""
    key, value = map(TensorProto.DataType.Value, types.split())
    session = mapping(op, key, value, **attributes)
    assert str(session.inputs[0]).startswith("map: map(")
    found = session.run({"map": given})["row"]
    assert found.tolist() == [row]
    if value == FLOAT and "cast_to" not in attributes:
        assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a", 1.0)], "wanted a dict, got list"),
        ({1: 1.0}, "its keys must be string, got 1 of type int"),
        ({"a": "x"}, "its values must be f32, got 'x' of type str"),
    ],
)
def test_what_is_no_such_map_is_refused(given: Any, message: str) -> None:
    session = mapping("DictVectorizer", TensorProto.STRING, FLOAT, string_vocabulary=["a"])
    with pytest.raises(InputError, match=message):
        session.run({"map": given})


def test_a_sparse_map_has_no_negative_keys() -> None:
    session = mapping("CastMap", INT64, FLOAT, map_form="SPARSE", max_map=2)
    with pytest.raises(RunError, match="must have no negative keys, got -1"):
        session.run({"map": {-1: 1.0}})
