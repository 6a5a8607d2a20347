"""What a model says of itself, in the terms of ONNX: the types of its inputs and outputs, and its metadata."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto

from treadle.frontends.onnx.reader import read


@dataclass(frozen=True, slots=True)
class Declared:
    """An input or output as a model declares it.

    Attributes:
        name: Its name.
        type: Its type as operator schemas write it, such as "tensor(float)" or "seq(tensor(int64))"; "" if not stated.
        shape: A size, a name, or None for each axis; None if even the rank is unknown, or if it is no tensor.
        denotations: The denotation of each axis, "" for none.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None
    denotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """What a model says of itself.

    Attributes:
        inputs: The inputs that a run needs.
        optional: The inputs that have an initialiser, which a run may override.
        outputs: The outputs.
        producer: The name of the program that wrote the model.
        graph_name: The name of the graph.
        domain: The model's namespace.
        text: The model's documentation.
        graph_text: The graph's documentation.
        version: The model's version.
        metadata: The model's metadata properties.
    """

    inputs: tuple[Declared, ...]
    optional: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    producer: str
    graph_name: str
    domain: str
    text: str
    graph_text: str
    version: int
    metadata: dict[str, str]


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
        version=proto.model_version,
        metadata={entry.key: entry.value for entry in proto.metadata_props},
    )


def _declared(values: Iterable[onnx.ValueInfoProto]) -> tuple[Declared, ...]:
    return tuple(_one(value) for value in values)


def _one(value: onnx.ValueInfoProto) -> Declared:
    kind = value.type
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return Declared(value.name, type_text(kind), None)
    dims = kind.tensor_type.shape.dim
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
