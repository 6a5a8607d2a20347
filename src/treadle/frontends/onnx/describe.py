"""Reads what a model says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import TensorProto

from treadle.frontends.onnx.description import Declared, Description
from treadle.frontends.onnx.reader import read


def describe(model: Any) -> Description:
    """Return what `model` (a path, or the bytes of an ONNX model) says of itself. Large weights are not read.

    Raises ModelFormatError if it cannot be read.
    """
    proto = read(model).proto
    graph = proto.graph
    initial = {tensor.name for tensor in graph.initializer}
    initial.update(tensor.values.name for tensor in graph.sparse_initializer)
    return Description(
        inputs=_declared(value for value in graph.input if value.name not in initial),
        optional=_declared(value for value in graph.input if value.name in initial),
        outputs=_declared(graph.output),
        producer=proto.producer_name,
        graph_name=graph.name,
        domain=proto.domain,
        text=proto.doc_string,
        graph_text=graph.doc_string,
        version=proto.model_version if proto.HasField("model_version") else None,
        metadata={entry.key: entry.value for entry in proto.metadata_props},
    )


def _declared(values: Iterable[onnx.ValueInfoProto]) -> tuple[Declared, ...]:
    return tuple(_one(value) for value in values)


def _one(value: onnx.ValueInfoProto) -> Declared:
    kind, stated = value.type, value.type
    while stated.HasField("optional_type"):
        stated = stated.optional_type.elem_type
    variant = stated.WhichOneof("value")
    tensor = getattr(stated, variant) if variant in ("tensor_type", "sparse_tensor_type") else None
    if tensor is None or not tensor.HasField("shape"):
        return Declared(value.name, type_text(kind), None)
    dims = tensor.shape.dim
    shape = tuple(_size(dim) for dim in dims)
    return Declared(value.name, type_text(kind), shape, tuple(dim.denotation for dim in dims))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return dim.dim_param or None


def type_text(kind: onnx.TypeProto) -> str:
    """Return a type as operator schemas write it, such as "seq(tensor(float))"; "" if it is not stated."""
    variant = kind.WhichOneof("value")
    if variant in ("tensor_type", "sparse_tensor_type"):
        stated = getattr(kind, variant)
        return f"{variant.removesuffix('_type')}({_ELEMENTS.get(stated.elem_type, '')})"
    if variant == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if variant == "optional_type":
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if variant == "map_type":
        key = _ELEMENTS.get(kind.map_type.key_type, "")
        return f"map({key},{type_text(kind.map_type.value_type)})"
    return ""


_ELEMENTS: dict[int, str] = {
    number: name.lower() for name, number in TensorProto.DataType.items() if number != TensorProto.UNDEFINED
}
"""Element type -> how ONNX's operator schemas write it."""
