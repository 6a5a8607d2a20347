"""Results of ONNX models that are no tensors: lists of tensors, lists of maps, optionals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from treadle.errors import InputError
from treadle.frontends.onnx.exposed import expose
from treadle.tune.measure import _plain

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def classifier() -> onnx.ModelProto:
    """A label for each row, and a list of maps from labels to scores, as skl2onnx writes them."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["scores"], axis=1),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[3, 1, 4, 2]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    maps = onnx.ValueInfoProto(name="maps")
    maps.type.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    maps.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [maps, helper.make_tensor_value_info("label", TensorProto.INT64, ["rows"])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def pieces() -> onnx.ModelProto:
    """The rows of x + x as a list, and x + x."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["sum"]), helper.make_node("SplitToSequence", ["sum"], ["rows"], axis=0)],
        "pieces",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["rows", 4]),
            helper.make_tensor_sequence_value_info("rows", TensorProto.FLOAT, None),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_results_come_in_the_order_of_the_model() -> None:
    """
    A result that is no tensor has the type that ONNX's schemas write. One plan serves all sizes.
    """
    session = treadle.Session(classifier().SerializeToString())
    results = session.run({"x": X})
    compiles = session.compiles
    few = session.run({"x": X[:2]})

    assert [(each.name, each.type) for each in session.outputs] == [
        ("maps", "seq(map(int64,tensor(float)))"),
        ("label", ""),
    ]
    assert str(session.outputs[0]) == "maps: seq(map(int64,tensor(float)))"
    assert list(results) == ["maps", "label"]
    labels = np.array([3, 1, 4, 2])[results["label"]]
    assert [max(row, key=row.__getitem__) for row in results["maps"]] == labels.tolist()
    assert few["maps"] == results["maps"][:2]
    assert session.compiles == compiles


def test_every_way_to_run_gives_the_same_objects() -> None:
    """
    run(), run_async(), with names and with options.
    """
    session = treadle.Session(pieces().SerializeToString())
    wanted = [(row + row)[np.newaxis] for row in X]

    for results in (
        session.run({"x": X}),
        session.run({"x": X}, ["rows"]),
        session.run({"x": X}, ["rows", "sum"], intra_op=1),
        session.run_async({"x": X}, ["rows"]).result(),
        session.run_async({"x": X}).result(),
    ):
        assert all(np.array_equal(found, row) for found, row in zip(results["rows"], wanted, strict=True))
    assert list(session.run({"x": X}, ["sum"])) == ["sum"]


def test_names_of_hidden_tensors_are_unknown() -> None:
    """
    The tensors that an object is made from are no outputs of the model.
    """
    session = treadle.Session(classifier().SerializeToString())

    with pytest.raises(InputError, match="there is no output 'scores'; the outputs are 'maps', 'label'"):
        session.run({"x": X}, ["scores"])


@pytest.mark.parametrize("make", [classifier, pieces])
def test_they_come_from_an_artifact(tmp_path: Path, make) -> None:
    """
    A second process returns equal objects, compiles nothing, and imports onnx only to make what is no map.
    """
    path = tmp_path / "model.onnx"
    onnx.save(make(), path)
    treadle.Session(path).run({"x": X})
    np.save(tmp_path / "x.npy", X)
    program = (
        "import sys, numpy, treadle; from treadle.tune.measure import _plain\n"
        f"session = treadle.Session({str(path)!r})\n"
        "loaded = 'onnx' in sys.modules\n"
        f"results = session.run({{'x': numpy.load({str(tmp_path / 'x.npy')!r})}})\n"
        "print([session.compiles, loaded, {name: _plain(each) for name, each in results.items()}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    results = treadle.Session(path).run({"x": X})

    assert done.stdout.strip() == str([0, False, {name: _plain(each) for name, each in results.items()}])


def test_a_list_of_inputs_and_constants() -> None:
    """
    What the list holds may be computed, given or stored.
    """
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("SequenceConstruct", ["x", "c", "y"], ["list"])],
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None)],
        [helper.make_tensor("c", TensorProto.FLOAT, [1], [7.0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = treadle.Session(model).run({"x": np.float32([1, 2])}).values()

    assert [each.tolist() for each in found] == [[1, 2], [7], [-1, -2]]


def test_exposed_models_return_every_value(tmp_path: Path) -> None:
    """
    Each value that a node computes is an output, once; those of the model come first.
    """
    path = tmp_path / "model.onnx"
    onnx.save(classifier(), path)
    exposed = onnx.load_model_from_string(expose(path).model)

    assert [value.name for value in exposed.graph.output] == ["maps", "label", "scores"]
