"""Graphs and functions as nodes by name, with calls of functions expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.order import Cycle, depth_first
from treadle.frontends.tensorflow.made_bodies import MadeBodies
from treadle.frontends.tensorflow.messages import FunctionDef
from treadle.frontends.tensorflow.node import (
    Node,
    Ref,
    parse_node,
    python_values,
    split_inputs,
    tensor_name,
    tensor_ref,
)
from treadle.frontends.tensorflow.nodes import NODES
from treadle.ops.op import Array

MOST_NODES = 1 << 17
"""The largest number of nodes after calls are expanded. Functions that call functions multiply it."""

ARGUMENT = "_Arg"
SWITCHES = ("Switch", "RefSwitch")
BRANCHES = ("If", "StatelessIf")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_SAME = ("Identity", "StopGradient", "Snapshot", "PlaceholderWithDefault")


@dataclass(slots=True)
class Body:
    """Nodes by name. `arguments` are the nodes that stand for a function's inputs, `results` its results.

    `aliases` maps tensors of removed nodes to the tensors that replace them.
    """

    nodes: dict[str, Node]
    arguments: list[str] = field(default_factory=list)
    results: list[Ref] = field(default_factory=list)
    aliases: dict[Ref, Ref] = field(default_factory=dict)

    def resolved(self, ref: Ref) -> Ref:
        """Return the tensor that `ref` is an alias of. Raises Fault if the aliases form a circle."""
        for _ in range(len(self.aliases) + 1):
            if ref not in self.aliases:
                return ref
            ref = self.aliases[ref]
        raise Fault(f"the tensor {tensor_name(ref)!r} depends on itself")

    def constant(self, ref: Ref) -> Array | None:
        """Return the elements of the tensor that `ref` is if it is a constant; None for others."""
        node = self.nodes.get(ref[0])
        value = None if node is None or node.op != "Const" else node.attr("value", None)
        return value if isinstance(value, np.ndarray) else None

    def resolve_aliases(self) -> None:
        """Replace aliases among the inputs of all nodes. Raises Fault if they form a circle."""
        known: dict[Ref, Ref] = {}
        for node in self.nodes.values():
            for place, ref in enumerate(node.inputs):
                if ref in self.aliases:
                    known[ref] = node.inputs[place] = known.get(ref) or self.resolved(ref)
        self.results = [self.resolved(ref) for ref in self.results]


def graph_body(nodes: Iterable[Any], faults: Faults) -> Body:
    """Return the nodes of a GraphDef. Adds what is wrong with them to `faults`."""
    found: dict[str, Node] = {}
    for message in nodes:
        node = parse_node(message)
        if node.name in found:
            faults.add(node.place, "another node has the same name")
        found[node.name] = node
    for node in found.values():
        for name in [*(name for name, _ in node.inputs), *node.controls]:
            if name not in found:
                faults.add(node.place, f"it reads {name!r}, which is no node of the graph")
    return Body(found)


class Library:
    """The functions of a graph. Each becomes a Body at its first use. `made` is what was made of bodies."""

    def __init__(self, messages: Iterable[Any]) -> None:
        copies = [
            FunctionDef.FromString(message.SerializeToString()) for message in messages
        ]  # the caller may drop the graph
        self._messages = {message.signature.name: message for message in copies}
        self._bodies: dict[str, Body] = {}
        self._prepared: dict[str, Body] = {}
        self.made = MadeBodies()

    def __contains__(self, name: str) -> bool:
        return name in self._messages

    @property
    def names(self) -> AbstractSet[str]:
        """The names of the functions."""
        return self._messages.keys()

    def body(self, name: str) -> Body:
        """Return the function `name` with its calls unexpanded. Raises Fault if there is none."""
        if name not in self._messages:
            raise Fault(f"the graph has no function {name!r}")
        if name not in self._bodies:
            self._bodies[name] = self._parse(self._messages[name])
        return self._bodies[name]

    def prepared(self, name: str, prepare: Callable[[Body, Library], Body]) -> Body:
        """Return the function `name` as `prepare` makes it, the same each time. Raises Fault, or what it raises."""
        found = self._prepared.get(name)
        return self._prepared.setdefault(name, prepare(self.body(name), self)) if found is None else found

    def _parse(self, message: Any) -> Body:
        arguments = [argument.name for argument in message.signature.input_arg]
        body = Body({name: Node(name, ARGUMENT, []) for name in arguments}, arguments)
        for item in message.node_def:
            body.nodes[item.name] = Node(item.name, item.op, [], split_inputs(item.input)[1], python_values(item.attr))
        for item in message.node_def:
            node = body.nodes[item.name]
            node.inputs = [self._ref(text, body) for text in split_inputs(item.input)[0]]
        returned = message.ret
        missing = [result.name for result in message.signature.output_arg if result.name not in returned]
        if missing:
            raise Fault(f"the function {message.signature.name!r} does not return {', '.join(missing)}")
        body.results = [self._ref(returned[result.name], body) for result in message.signature.output_arg]
        return body

    def _ref(self, text: str, body: Body) -> Ref:
        """Parse the reference of a function to a tensor: an argument, or "<node>:<output>:<index>"."""
        name, *rest = text.split(":")
        node = body.nodes.get(name)
        if node is None:
            raise Fault(f"a function reads {text!r}, which it does not have")
        if len(rest) < 2:
            return tensor_ref(text)
        output, index = rest[0], rest[1]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            raise Fault(f"a function reads {text!r}; wanted <node>:<output>:<index>")
        return name, self._offset(node, output) + int(index)

    def _offset(self, node: Node, output: str) -> int:
        if node.op in self._messages:
            names = [result.name for result in self._messages[node.op].signature.output_arg]
        else:
            names = NODES[node.op].results.split() if node.op in NODES else ["output_false", "output_true"]
        return names.index(output) if output in names else 0


def expanded(body: Body, library: Library) -> Body:
    """Return `body` with its function calls expanded.

    The new nodes are named <name of the call>/<name in the function>. Raises Fault for functions that call themselves,
    or for more than MOST_NODES nodes.
    """
    whole = Body({}, body.arguments, list(body.results))
    pending: list[tuple[str, Body, frozenset[str]]] = [("", body, frozenset())]
    while pending:
        prefix, part, callers = pending.pop()
        for node in part.nodes.values():
            if prefix and node.op == ARGUMENT:
                continue
            inputs = [(prefix + name, index) for name, index in node.inputs]
            copy = Node(prefix + node.name, node.op, inputs, [prefix + name for name in node.controls], node.attrs)
            name = callee(node, part, library)
            if name is None:
                whole.nodes[copy.name] = copy
                continue
            if name in callers:
                raise Unsupported(f"the function {name!r} calls itself")
            inner = library.body(name)
            below = f"{copy.name}/"
            inputs = inputs[1:] if node.op in BRANCHES else inputs
            if len(inner.arguments) > len(inputs):
                raise Fault(f"{copy.place} passes {len(inputs)} inputs, but {name!r} takes {len(inner.arguments)}")
            arguments = zip(inner.arguments, inputs, strict=False)
            whole.aliases.update(((below + argument, 0), ref) for argument, ref in arguments)
            results = enumerate(inner.results)
            whole.aliases.update(((copy.name, at), (below + result, index)) for at, (result, index) in results)
            pending.append((below, inner, callers | {name}))
        if len(whole.nodes) > MOST_NODES:
            raise Unsupported(f"it has more than {MOST_NODES} nodes when calls of functions are expanded")
    whole.resolve_aliases()
    return whole


def callee(node: Node, body: Body, library: Library) -> str | None:
    """Return the name of the function that `node` calls.

    None if the node is no call, or if the function depends on a predicate that is no constant.
    """
    if node.op in _CALLS:
        return node.function("f")
    if node.op in BRANCHES and node.inputs:
        known = constant_predicate(node.inputs[0], body)
        return None if known is None else node.function("then_branch" if known else "else_branch")
    return node.op if node.op in library else None


def constant_predicate(predicate: Ref, body: Body) -> int | None:
    """Return the value of a predicate that is a constant of the graph, else None."""
    turned = 0
    for _ in range(len(body.nodes)):
        node = body.nodes.get(predicate[0])
        if node is None:
            return None
        if node.op == "Const":
            array = node.attr("value")
            return bool(array.reshape(-1)[0]) ^ turned if isinstance(array, np.ndarray) and array.size == 1 else None
        if node.op == "LogicalNot":
            turned ^= 1
        elif node.op not in _SAME and node.op not in SWITCHES:
            return None
        if not node.inputs:
            return None
        predicate = node.inputs[0]
    return None


def ordered(body: Body, wanted: Iterable[Ref], given: Mapping[Ref, Any]) -> list[Node]:
    """Return the nodes that `wanted` depend on, in topological order; `given` tensors depend on nothing.

    Raises Fault if nodes depend on one another, or for a tensor of no node.
    """
    return sorted_nodes(needed(body, wanted, given), given)


def needed(body: Body, wanted: Iterable[Ref], given: Mapping[Ref, Any]) -> list[Node]:
    """Return the nodes that `wanted` depend on, in any order. Raises Fault for a tensor of no node."""
    nodes: dict[str, Node] = {}
    pending = [ref for ref in wanted if ref not in given]
    while pending:
        name = pending.pop()[0]
        if name in nodes:
            continue
        if name not in body.nodes:
            raise Fault(f"the graph has no node {name!r}")
        nodes[name] = body.nodes[name]
        pending.extend(ref for ref in nodes[name].inputs if ref not in given)
    return list(nodes.values())


def sorted_nodes(nodes: Sequence[Node], given: Mapping[Ref, Any]) -> list[Node]:
    """Return `nodes` in topological order. Raises Fault if they depend on one another."""
    places = {node.name: place for place, node in enumerate(nodes)}

    def needs() -> Iterator[list[int]]:
        for node in nodes:
            yield [places[name] for name, index in node.inputs if (name, index) not in given and name in places]

    try:
        return [nodes[place] for place in depth_first(list(needs()))]
    except Cycle as cycle:
        names = " -> ".join(repr(nodes[place].name) for place in cycle.indices[:8])
        raise Fault(f"these nodes wait for one another: {names}") from None
