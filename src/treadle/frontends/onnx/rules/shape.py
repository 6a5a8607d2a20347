"""Operators on shapes, and those that make tensors from shapes or from nothing."""

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.reader import External
from treadle.frontends.onnx.tensors import MAX_SPARSE_BYTES, sparse_to_array
from treadle.frontends.onnx.types import DTYPES
from treadle.graph.value import Value
from treadle.ops.op import Array

_PLAIN: dict[str, tuple[str, type | None]] = {
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
    "value_string": ("s", None),
    "value_strings": ("strings", None),
}
"""Attribute of Constant -> the field of AttributeProto that holds it, and its dtype (None: text)."""


def constant(node: OnnxNode, b: Builder) -> Value | None:
    """Constant: its value may stand in one of eight attributes."""
    attribute = node.attribute("value")
    if attribute is not None:
        if attribute.t.data_type not in DTYPES:
            return None
        array = node.tensor("value")
        assert array is not None
        return b.constant(array)
    sparse = node.attribute("sparse_value")
    if sparse is not None:
        return b.constant(sparse_to_array(sparse.sparse_tensor, External(None)))
    for name, (field, dtype) in _PLAIN.items():
        found = node.attribute(name)
        if found is not None:
            value = getattr(found, field)
            return b.constant(np.asarray(value, dtype) if dtype is not None else _texts(value))
    raise Fault("it has no value attribute")


def _texts(value: bytes | Sequence[bytes]) -> Array:
    if isinstance(value, bytes):
        return np.array(value.decode("utf-8", "replace"), dtype=object)
    return np.array([entry.decode("utf-8", "replace") for entry in value], dtype=object)


def shape(node: OnnxNode, b: Builder) -> Value:
    end = node.integer("end", 0) if node.has("end") else None
    return b.add("shape", node.input(0), start=node.integer("start", 0), end=end)


def size(node: OnnxNode, b: Builder) -> Value:
    return b.add("size", node.input(0))


def range_(node: OnnxNode, b: Builder) -> Value:
    return b.add("range", node.input(0), node.input(1), node.input(2))


def constant_of_shape(node: OnnxNode, b: Builder) -> Value | None:
    """ConstantOfShape -> constant_of_shape, filled with the float 0 unless `value` says otherwise."""
    attribute = node.attribute("value")
    if attribute is not None and attribute.t.data_type not in DTYPES:
        return None
    value = node.tensor("value")
    value = np.zeros(1, np.float32) if value is None else value
    if value.size != 1:
        raise Fault(f"attribute 'value' must hold one element, got {value.size}")
    return b.add("constant_of_shape", node.input(0), value=value.reshape(1))


def expand(node: OnnxNode, b: Builder) -> Value:
    return b.add("expand", node.input(0), node.input(1))


def tile(node: OnnxNode, b: Builder) -> Value:
    return b.add("tile", node.input(0), node.input(1))


def trilu(node: OnnxNode, b: Builder) -> Value:
    return b.add("trilu", node.input(0), node.optional(1), upper=node.flag("upper", default=True))


def dropout(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Dropout(x) -> x, and a mask of trues if it is read. Training mode is left to the reference."""
    x = node.input(0)
    if node.optional(2) is not None:
        training = node.array(2)
        if training is None or training.size != 1 or bool(training.reshape(-1)[0]):
            return None
    if len(node.outputs) < 2:
        return [x]
    ones = np.ones(1, np.bool_)
    mask = b.add("constant_of_shape", b.add("shape", x, start=0, end=None), value=ones)
    return [x, mask if node.version >= 10 else b.cast(mask, x.dtype)]


def eye_like(node: OnnxNode, b: Builder) -> Value | None:
    """EyeLike(x [rows, columns]): ones on a diagonal; of a known shape, a constant."""
    dims, number = node.dims(), node.integer("dtype", 0)
    dtype = DTYPES.get(number) if number else node.dtype()
    if dims is None or len(dims) != 2 or dtype is None or dtype == dtypes.string:
        return None
    rows, columns = dims
    if rows is None or columns is None or rows * columns * dtype.size > MAX_SPARSE_BYTES:
        ones = b.add(
            "constant_of_shape", b.add("shape", node.input(0), start=0, end=None), value=np.ones(1, np.float32)
        )
        k = node.integer("k", 0)
        above = b.add("trilu", ones, b.scalar(k, dtypes.i64), upper=True)
        return b.cast(b.add("trilu", above, b.scalar(k, dtypes.i64), upper=False), dtype)
    return b.constant(np.eye(rows, columns, node.integer("k", 0)).astype(dtype.numpy))


def present(node: OnnxNode, b: Builder) -> Value | None:
    """OptionalHasElement of a tensor, which is the content of an optional: true."""
    return b.constant(np.asarray(True)) if node.inputs and node.inputs[0] is not None else None
