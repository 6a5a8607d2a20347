"""Splits a graph where shapes depend on data, so that each part is planned when its shapes are known."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dtypes import string
from treadle.errors import GraphError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape, is_static, normalize_axis
from treadle.graph.value import Value
from treadle.passes.specialize import copied, copy_node
from treadle.plan.packed import kept
from treadle.records import dataclass


@dataclass(slots=True)
class Region:
    """The part of a graph that can be planned now, and what comes after it.

    `graph` computes the values called `keeps`, in the order of its outputs: everything that later
    parts need, and the outputs of the whole that are known. `dynamic` are the nodes to run by their
    reference next (their operands are constants, inputs of the whole, or in `keeps`). `rest` is what
    remains, if anything: its inputs, by name, are inputs of the whole, kept values and results of
    `dynamic`; specialise it with their shapes, infer, and cut again.

    Outputs of the whole are found by their name in the inputs, `keeps`, the results of `dynamic`,
    and the outputs of `rest` by position (`rest_outputs`). `constants` holds outputs that are constants.
    """

    graph: Graph
    keeps: tuple[str, ...]
    dynamic: list[Node]
    rest: Graph | None
    rest_outputs: tuple[str, ...]
    constants: dict[str, Value]


def is_known(value: Value) -> bool:
    """Whether dtype and static shape of `value` are known."""
    return value.dtype is not None and value.shape is not None and is_static(value.shape)


def is_planned(node: Node) -> bool:
    """Whether `node` can be part of a plan: its outputs are known, and no operand or output is a string.

    Strings are Python objects, which cannot lie in memory that the plan lays out.
    """
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    return all(is_known(value) for value in node.outputs) and all(value.dtype is not string for value in values)


def returns_strings(graph: Graph) -> bool:
    """Whether an output holds strings: an input or a constant, if every node is planned."""
    return any(value.dtype is string for value in graph.outputs)


def first_region(graph: Graph) -> Region:
    """Cut `graph`, whose shapes were inferred as far as they go (InferShapes or FoldConstants).

    Without data-dependent shapes and strings `graph` itself is the region. Raises GraphError if a node is stuck
    although its operands' shapes are known in none of the ways above, which inference rules out.
    """
    if all(map(is_planned, graph.nodes)) and not returns_strings(graph):
        names = tuple(value.name for value in graph.outputs)
        return Region(graph, names, [], None, (), {})
    ready = {value for value in graph.inputs if is_known(value)}
    inside: list[Node] = []
    dynamic: list[Node] = []
    later: list[Node] = []
    for node in graph.nodes:
        if not all(value is None or value.is_constant or value in ready for value in node.inputs):
            later.append(node)
        elif is_planned(node):
            inside.append(node)
            ready.update(node.outputs)
        else:
            dynamic.append(node)
    if later and not dynamic:
        raise GraphError(f"graph {graph.name!r}: the shape of {later[0].name!r} ({later[0].op}) cannot be inferred")
    return _cut(graph, inside, dynamic, later)


def _cut(graph: Graph, inside: Sequence[Node], dynamic: list[Node], later: Sequence[Node]) -> Region:
    made = {value for node in inside for value in node.outputs}
    read_later = [value for node in (*dynamic, *later) for value in node.inputs if value is not None]
    keeps = list(dict.fromkeys(value for value in (*read_later, *graph.outputs) if value in made))
    region = Graph(graph.name)
    copies: dict[Value, Value] = {}
    for value in graph.inputs:
        copies[value] = region.input(value.name, value.known_dtype, value.static_shape)
    for node in inside:
        copy_node(region, node, copies)
    region.outputs = [copies[value] for value in keeps]
    constants = {value.name: value for value in graph.outputs if value.is_constant}
    for used in (*constants.values(), *(value for node in dynamic for value in node.inputs)):
        if used is not None and used.data is not None:
            used.data = kept(used.data)
    rest, rest_outputs = _rest(graph, later)
    return Region(region, tuple(value.name for value in keeps), dynamic, rest, rest_outputs, constants)


def named_shape(value: Value) -> Shape | None:
    """The shape of a result of `counted`, whose size has a name; None for other values."""
    node = value.producer
    if node is None or node.op != "counted" or not is_known(node.operand(0)):
        return value.shape
    shape = node.operand(0).static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    return (*shape[:axis], value.name, *shape[axis + 1 :])


def _rest(graph: Graph, later: Sequence[Node]) -> tuple[Graph | None, tuple[str, ...]]:
    """The nodes `later` as a graph, whose inputs are the values they read from earlier parts."""
    if not later:
        return None, ()
    rest = Graph(f"{graph.name}.rest")
    made = {value for node in later for value in node.outputs}
    copies: dict[Value, Value] = {}
    for value in dict.fromkeys(value for node in later for value in node.inputs):
        if value is not None and value not in made and not value.is_constant:
            copies[value] = Value(rest.unique_name(value.name), value.dtype, value.shape or named_shape(value))
            rest.inputs.append(copies[value])
    for node in later:
        copy_node(rest, node, copies, forget_shapes=True)
    outputs = list(dict.fromkeys(value for value in graph.outputs if value in made))
    rest.outputs = [copied(rest, value, copies) for value in outputs]
    return rest, tuple(value.name for value in outputs)
