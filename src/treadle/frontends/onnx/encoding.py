"""Refuses models with names that are not UTF-8: protobuf returns those as bytes, which no other code expects."""

from collections.abc import Iterable, Iterator

import onnx

from treadle.errors import ModelFormatError


def check_text(model: onnx.ModelProto, title: str) -> None:
    """Raise ModelFormatError if a name in `model` is not UTF-8."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise ModelFormatError(
                f"{title} is damaged: it holds the name {text!r}, which is not UTF-8; export or download it again"
            )


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    yield from (entry.domain for entry in model.opset_import)
    graphs = [model.graph]
    bodies: list[Iterable[onnx.NodeProto]] = []
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (*function.attribute, *(entry.domain for entry in function.opset_import))
        yield from (attribute.name for attribute in function.attribute_proto)
        bodies.append(function.node)
    while graphs or bodies:
        if graphs:
            graph = graphs.pop()
            yield from _graph_texts(graph)
            bodies.append(graph.node)
        for node in bodies.pop():
            yield from (node.op_type, node.domain, node.name, node.overload, *node.input, *node.output)
            for attribute in node.attribute:
                yield attribute.name
                yield attribute.ref_attr_name
                yield from _tensor_texts((attribute.t, *attribute.tensors))
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                graphs.extend(attribute.graphs)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from _tensor_texts(graph.initializer)
    yield from _tensor_texts(
        tensor for sparse in graph.sparse_initializer for tensor in (sparse.values, sparse.indices)
    )


def _tensor_texts(tensors: Iterable[onnx.TensorProto]) -> Iterator[object]:
    for tensor in tensors:
        yield tensor.name
        for entry in tensor.external_data:
            yield entry.key
            yield entry.value
