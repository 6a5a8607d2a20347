"""Small models, as bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

FLOAT, INT, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initial: Sequence[onnx.TensorProto] = (),
    domains: Sequence[str] = (),
    **properties: str,
) -> bytes:
    """A model of opset 17, also of other `domains`."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initial, doc_string="of the graph")
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    made = helper.make_model(graph, opset_imports=imports, producer_name="tests", doc_string="text", ir_version=8)
    made.model_version, made.domain = 5, "domain"
    for key, value in properties.items():
        made.metadata_props.add(key=key, value=value)
    content: bytes = made.SerializeToString()
    return content


def tensor(name: str, kind: int, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def _of_two(op: str, a: Sequence[int | str], b: Sequence[int | str], **attributes: int) -> bytes:
    node = helper.make_node(op, ["a", "b"], ["c"], name="of_two", **attributes)
    return model([node], [tensor("a", FLOAT, a), tensor("b", FLOAT, b)], [tensor("c", FLOAT, None)])


def joined(a: Sequence[int | str], b: Sequence[int | str]) -> bytes:
    """c is a of this shape with b behind."""
    return _of_two("Concat", a, b, axis=0)


def added(a: Sequence[int | str], b: Sequence[int | str]) -> bytes:
    """c = a + b of these shapes."""
    return _of_two("Add", a, b)


def classifier() -> bytes:
    """x + x as a list of maps from the labels 7, 8, 9, and x + x."""
    maps = onnx.ValueInfoProto(name="maps")
    maps.type.sequence_type.elem_type.map_type.key_type = INT
    maps.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = FLOAT
    nodes = [
        helper.make_node("Add", ["x", "x"], ["x2"]),
        helper.make_node("ZipMap", ["x2"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[7, 8, 9]),
    ]
    outputs = [maps, tensor("x2", FLOAT, ["batch", 3])]
    return model(nodes, [tensor("x", FLOAT, ["batch", 3])], outputs, domains=["ai.onnx.ml"])


def rows() -> bytes:
    """The rows of x as a sequence, each [1, 3]."""
    split = helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0)
    sequence = helper.make_tensor_sequence_value_info("rows", FLOAT, None)
    return model([split], [tensor("x", FLOAT, ["batch", 3])], [sequence])


def optional_sum() -> bytes:
    """Whether o is there, and o itself."""
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    o, same = (helper.make_value_info(name, kind) for name in ("o", "same"))
    nodes = [helper.make_node("OptionalHasElement", ["o"], ["there"]), helper.make_node("Identity", ["o"], ["same"])]
    return model(nodes, [o], [tensor("there", TensorProto.BOOL, []), same])


def element() -> bytes:
    """y is the element number i of the sequence s."""
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    return model([node], [sequence, tensor("i", INT, [])], [tensor("y", FLOAT, None)])


def sparse_product() -> bytes:
    """y = a @ b, where a is sparse."""
    a = helper.make_sparse_tensor_value_info("a", FLOAT, [2, 3])
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    return model([node], [a, tensor("b", FLOAT, [3, 2])], [tensor("y", FLOAT, [2, 2])], domains=["com.microsoft"])


def two_outputs() -> bytes:
    """y = x @ w (3 x 4: 0 to 11), j = i + i."""
    weights = np.arange(12, dtype=np.float32)
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm"), helper.make_node("Add", ["i", "i"], ["j"])],
        [tensor("x", FLOAT, ["batch", 3]), tensor("i", INT, [2, None])],
        [tensor("y", FLOAT, ["batch", 4]), tensor("j", INT, [2, None])],
        [helper.make_tensor("w", FLOAT, [3, 4], weights.tolist())],
        key="value",
    )


def same(kind: int, shape: Sequence[int | str | None] | None) -> bytes:
    """s = a."""
    return model([helper.make_node("Identity", ["a"], ["s"])], [tensor("a", kind, shape)], [tensor("s", kind, shape)])


def overridable() -> bytes:
    """s = a + b, where b is [1, 2] unless it is given."""
    values = helper.make_tensor("b", FLOAT, [2], [1.0, 2.0])
    inputs = [tensor("a", FLOAT, [2]), tensor("b", FLOAT, [2])]
    return model([helper.make_node("Add", ["a", "b"], ["s"])], inputs, [tensor("s", FLOAT, [2])], [values])


def old() -> bytes:
    """s = relu(a), in an operator set that treadle does not know."""
    made = onnx.ModelProto.FromString(
        model([helper.make_node("Relu", ["a"], ["s"])], [tensor("a", FLOAT, [2])], [tensor("s", FLOAT, [2])])
    )
    made.opset_import[0].version = 6
    content: bytes = made.SerializeToString()
    return content


def reshaped() -> bytes:
    """s = a reshaped to b."""
    inputs = [tensor("a", FLOAT, ["n"]), tensor("b", INT, ["k"])]
    node = helper.make_node("Reshape", ["a", "b"], ["s"], name="reshape")
    return model([node], inputs, [tensor("s", FLOAT, None)])
