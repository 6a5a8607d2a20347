"""What nodes may read while a graph is imported: values by the names of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import field

import onnx

from treadle.frontends.onnx.foreign import Binding
from treadle.frontends.onnx.lists import TensorList
from treadle.graph.value import Value
from treadle.records import dataclass


@dataclass(slots=True)
class Scope:
    """The names that nodes may read, their operator versions, and the prefix of their own names."""

    env: MutableMapping[str, Binding]
    versions: Mapping[str, int]
    prefix: str = ""
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    pending: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = field(default_factory=dict)


def stored(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
    """Returns the initialisers of `graph` by name."""
    found: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {t.name: t for t in graph.initializer}
    found.update({sparse.values.name: sparse for sparse in graph.sparse_initializer})
    return found


def values_by_name(outside: Mapping[str, Value | TensorList]) -> Iterator[tuple[str, Value]]:
    """Yields the values that `outside` holds, with names for the inputs of bodies."""
    for read, binding in outside.items():
        if isinstance(binding, Value):
            yield read, binding
        else:
            yield from ((f"{read}[{number}]", value) for number, value in enumerate(binding.values))
