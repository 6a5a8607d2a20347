"""Names in ONNX graphs: node names, names captured by nested graphs, and the execution order that they imply."""

from collections.abc import Container, Iterator, Sequence

import onnx
from onnx import AttributeProto

from treadle.frontends.onnx.opsets import domain_of
from treadle.frontends.order import depth_first


def node_name(node: onnx.NodeProto, index: int) -> str:
    """The node's name, or `<op>_<index>` for a nameless one."""
    return str(node.name) or f"{node.op_type}_{index}"


def place(node: onnx.NodeProto, name: str) -> str:
    """Describes a node for messages."""
    domain = domain_of(node.domain)
    return f"node {name!r} ({node.op_type}{f' of {domain}' if domain else ''})"


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The nested graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graph_of(node: onnx.NodeProto, name: str = "body") -> onnx.GraphProto:
    """The nested graph in the attribute `name`, which the node has."""
    (graph,) = (attribute.g for attribute in node.attribute if attribute.name == name)
    assert isinstance(graph, onnx.GraphProto)
    return graph


def captured(node: onnx.NodeProto) -> list[str]:
    """The names a node's nested graphs read from outside, each once. Nesting must have been checked."""
    if not node.attribute:
        return []
    found: dict[str, None] = {}
    for graph in graphs_of(node):
        found.update(dict.fromkeys(_free(graph)))
    return list(found)


def _free(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in (*node.input, *captured(node))]
    read += [value.name for value in graph.output]
    return [name for name in dict.fromkeys(read) if name and name not in own]


def reads(node: onnx.NodeProto) -> list[str]:
    """Every name a node reads, itself or in a nested graph."""
    return [name for name in node.input if name] + captured(node)


def execution_order(nodes: Sequence[onnx.NodeProto], outside: Container[str]) -> list[int]:
    """Returns the indices of `nodes` ordered so that each follows what it reads; the given order if it is valid.

    Names neither in `outside` nor made by a node are passed over. Raises Cycle if there is no order.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs: list[list[int]] = []
    for node in nodes:
        names = dict.fromkeys(name for name in reads(node) if name in makers and name not in outside)
        needs.append([makers[name] for name in names])
    if all(need < index for index, found in enumerate(needs) for need in found):
        return list(range(len(nodes)))
    return depth_first(needs)
