"""Infers the types of node results from operand types alone, in nested graphs too.

ONNX's own inference is not used: it crashes or does not end on some hostile models.
"""

from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, TensorProto

from treadle.frontends.onnx.opsets import domain_of, signature
from treadle.frontends.onnx.result_types import RULES, tensor
from treadle.frontends.onnx.types import NUMBERS, SCHEMA_NAMES

Types = dict[str, onnx.TypeProto]
"""Name of a value -> its type. The shapes in these types are not used."""

_FIXED = {text: NUMBERS[dtype] for dtype, text in SCHEMA_NAMES.items()}
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")
_CONSTANTS = {
    "value_float": TensorProto.FLOAT, "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64, "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING, "value_strings": TensorProto.STRING,
}  # fmt: skip


def is_stated(kind: onnx.TypeProto | None) -> bool:
    """Whether `kind` is a complete type: a tensor type needs an element type."""
    if kind is None or kind.WhichOneof("value") is None:
        return False
    return not kind.HasField("tensor_type") or kind.tensor_type.elem_type != TensorProto.UNDEFINED


def node_types(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto], versions: Mapping[str, int]) -> Types:
    """Types of those results of `node` that follow from its attributes and the types of its operands."""
    if domain_of(node.domain) == "" and node.op_type in ("If", "Loop", "Scan"):
        return _control_flow(node, known, versions)
    rule = RULES.get(node.op_type)
    if rule is not None:
        kinds = rule(node, known)
        return {name: kind for name, kind in zip(node.output, kinds, strict=False) if name and kind is not None}
    found = signature(domain_of(node.domain), node.op_type, versions.get(domain_of(node.domain), 0))
    if found is None:
        return {}
    bound: dict[str, onnx.TypeProto] = {}
    for index, name in enumerate(node.input):
        if name in known:
            bound.setdefault(found.input(index).variable, known[name])
    types: Types = {}
    for index, name in enumerate(node.output):
        formal = found.output(index)
        only = next(iter(formal.types)) if len(formal.types) == 1 else formal.variable
        kind = bound.get(formal.variable) or tensor(_FIXED.get(only) or _stated_element(node))
        if name and kind is not None:
            types[name] = kind
    return types


def _stated_element(node: onnx.NodeProto) -> int | None:
    """The element type that an attribute of `node` gives its results."""
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT:
            return int(attribute.i)
        if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
            return int(attribute.t.data_type)
        if attribute.name == "sparse_value":
            return int(attribute.sparse_tensor.values.data_type)
        if attribute.name in _CONSTANTS:
            return int(_CONSTANTS[attribute.name])
    return TensorProto.FLOAT if node.op_type == "ConstantOfShape" else None


def _control_flow(node: onnx.NodeProto, known: Mapping[str, onnx.TypeProto], versions: Mapping[str, int]) -> Types:
    graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
    graph = graphs.get("then_branch") or graphs.get("body") or onnx.GraphProto()
    inner = dict(known)
    operands = [known.get(name) for name in node.input]
    formals: Iterable[onnx.ValueInfoProto] = graph.input
    if node.op_type == "Loop":
        operands = [tensor(TensorProto.INT64), tensor(TensorProto.BOOL), *operands[2:]]
    inner.update((f.name, kind) for f, kind in zip(formals, operands, strict=False) if kind is not None)
    inner.update((f.name, f.type) for f in formals if f.name not in inner and is_stated(f.type))
    inner.update((t.name, kind) for t in graph.initializer if (kind := tensor(t.data_type)) is not None)
    for child in graph.node:
        inner.update(node_types(child, inner, versions))
    results = graph.output[1:] if node.op_type == "Loop" else graph.output
    types = {}
    for name, value in zip(node.output, results, strict=False):
        kind = value.type if is_stated(value.type) else inner.get(value.name)
        if name and kind is not None:
            types[name] = kind
    return types
