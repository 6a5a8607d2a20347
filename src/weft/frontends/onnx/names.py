"""Names in ONNX graphs: of nodes, of what nested graphs read from outside, and the order of nodes."""

from collections.abc import Container, Iterator, Sequence

import onnx
from onnx import AttributeProto

from weft.frontends.onnx.opsets import domain_of


def node_name(node: onnx.NodeProto, index: int) -> str:
    """The node's name, or `<op>_<index>` for a nameless one."""
    return str(node.name) or f"{node.op_type}_{index}"


def place(node: onnx.NodeProto, name: str) -> str:
    """How messages call a node."""
    domain = domain_of(node.domain)
    return f"node {name!r} ({node.op_type}{f' of {domain}' if domain else ''})"


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The nested graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured(node: onnx.NodeProto) -> list[str]:
    """The names a node's nested graphs read from outside, each once. Nesting must have been checked."""
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


class Cycle(Exception):  # noqa: N818 - a finding, not an error: its catcher words it
    """Nodes that wait for each other, by index, in the order in which they read each other."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        self.indices = tuple(indices)


def execution_order(nodes: Sequence[onnx.NodeProto], outside: Container[str]) -> list[int]:
    """Indices of `nodes` so that each stands behind what it reads; the given order if that is one.

    Names neither in `outside` nor made by a node are passed over. Raises Cycle if there is no order.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs: list[list[int]] = []
    for node in nodes:
        names = dict.fromkeys(name for name in reads(node) if name in makers and name not in outside)
        needs.append([makers[name] for name in names])
    if all(need < index for index, found in enumerate(needs) for need in found):
        return list(range(len(nodes)))
    return _depth_first(needs)


def _depth_first(needs: Sequence[Sequence[int]]) -> list[int]:
    """Indices in an order in which every index follows its needs (iterative: chains may be long)."""
    order: list[int] = []
    state = [0] * len(needs)  # 0 new, 1 on the path, 2 placed
    for start in range(len(needs)):
        path: list[tuple[int, Iterator[int]]] = []
        if state[start] == 0:
            state[start] = 1
            path.append((start, iter(needs[start])))
        while path:
            index, rest = path[-1]
            for need in rest:
                if state[need] == 1:
                    chain = [entry for entry, _ in path]
                    raise Cycle(chain[chain.index(need) :])
                if state[need] == 0:
                    state[need] = 1
                    path.append((need, iter(needs[need])))
                    break
            else:
                state[index] = 2
                order.append(index)
                path.pop()
    return order
