"""Bodies of branches and loops that run in front of a stage: each is a graph of its own, and a stage of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from treadle import dtypes
from treadle.graph.dim import DimExpr, is_expression
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.node import Node
from treadle.graph.shape import Shape, StaticShape, normalize_axis
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.ops.branch import Refusal
from treadle.ops.sizes import known_value
from treadle.passes.append_in_place import appending_node
from treadle.passes.base import PassContext
from treadle.passes.certain_dims import certain_shapes
from treadle.passes.match import source
from treadle.passes.pipeline import infer
from treadle.passes.specialize import copied, copy_node, specialize_open
from treadle.passes.stage_names import Dims, SizeNames
from treadle.records import dataclass

Changing = list[dict[int, int]]
"""The axes of each value that a loop carries which change, and a sample size of each; 0: there is none."""


MOST_FOUND = 1024
"""For how many bodies, and for how many forms of their operands, is kept what was found."""

_MOST_COMPARED = 4096
"""The most bytes of constants that are compared."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found for bodies: graphs around a body are made again and again, and each time it is searched for.

    Attributes:
        changing: What the bodies of loops change. The search for one begins there.
        forms: What was found for nodes with bodies, by these and the form of their operands. It holds for all sizes.
    """

    changing: LRU[Graph, Changing] = field(default_factory=lambda: LRU(MOST_FOUND))
    forms: LRU[Hashable, Any] = field(default_factory=lambda: LRU(MOST_FOUND))


@dataclass(frozen=True, slots=True)
class Search:
    """A search for bodies that the native core can run for all sizes, in one graph that is compiled and its stages.

    Attributes:
        context: What inference asks for.
        dims: Returns the dimensions of the outputs of an inferred graph, whose symbols are those of the facts; None if
            the native core cannot run it for all sizes.
        findings: What was found before.
    """

    context: PassContext
    dims: Callable[[Graph, Facts, Search], list[Dims] | None]
    findings: Findings

    def dims_of(self, graph: Graph, facts: Facts) -> list[Dims] | None:
        """Return what `dims` does for this search."""
        return self.dims(graph, facts, self)


@dataclass(slots=True)
class StageBody:
    """A body as a graph of its own, with names for the sizes of its inputs.

    Attributes:
        graph: The graph.
        names: The names of its sizes.
        captured: The operands of the node that its last inputs are.
        hints: Sample sizes by name, as far as they are known.
    """

    graph: Graph
    names: SizeNames = field(default_factory=SizeNames)
    captured: list[Value] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)
    _copies: dict[Value, Value] = field(default_factory=dict)

    def add(self, formal: Value, shape: Shape) -> None:
        """Add an input of this shape for the input `formal` of the body."""
        made = Value(self.graph.unique_name(formal.name), formal.dtype, shape)
        self.graph.inputs.append(made)
        self._copies[formal] = made

    def add_number(self, formal: Value) -> None:
        """Have a size whose name data tells in place of the input `formal`, one i64; the input is there, but unread."""
        self.add(formal, ())
        sizes = {"elements": (self.names.tell(formal.name),), "shape": (), "dtype": dtypes.i64}
        self._copies[formal] = self.graph.add("sizes", [], sizes, name=formal.name).output

    def capture(self, formal: Value, value: Value) -> None:
        """Add the input `formal`, which stands for the operand `value`: what is known of it is no input."""
        if value.data is not None:
            self._copies[formal] = self.graph.constant(value.data, formal.name)
        elif (sizes := self.names.add_known(self.graph, value)) is not None:
            self._copies[formal] = sizes
        else:
            self.add(formal, self.names.shape(formal.name, value.static_shape))
            self.captured.append(value)

    def finish(self, body: Graph, prefix: str) -> None:
        """Add the nodes of `body`, and its outputs under names that begin with `prefix`."""
        for each in body.nodes:
            copy_node(self.graph, each, self._copies, forget_shapes=True)
        for position, value in enumerate(body.outputs):
            result = self.graph.value(f"{prefix}{position}", value.dtype)
            source = copied(self.graph, value, self._copies)
            self.graph.outputs.append(self.graph.add("identity", [source], outputs=[result]).output)

    def append_in_place(self, number: int) -> bool:
        """Have output `number` written behind input `number` in one memory; False if it does not append to this input,
        or new elements do not lie behind all old ones.

        The concatenation then leaves out its first operand: whoever runs the body gives memory that begins with it.
        """
        graph = self.graph
        kept, result = graph.inputs[number], graph.outputs[number]
        node = appending_node(result)
        if node is None or source(node.operand(0)) is not kept:
            return False
        shape = kept.shape or ()
        axis = normalize_axis(node.attrs["axis"], len(shape))
        if any(dim != 1 for dim in shape[:axis]):
            return False
        attrs = {"axis": axis, "appends": True}
        joined = graph.make("concat", [kept, *node.inputs[1:]], attrs, name=node.name, outputs=[result])
        same = graph.make("identity", [result], name=node.name, outputs=[node.output])
        for each in (joined, same):
            each.take_over([node])
        nodes = [each for each in graph.nodes if each is not result.producer]
        graph.rebuild(made for each in nodes for made in ([joined, same] if each is node else [each]))
        return True

    def inferred(self, context: PassContext) -> tuple[Graph, Facts]:
        """Return a copy with expressions for sizes whose shapes were inferred, and its facts.

        Raises TreadleError if sample sizes do not fit.
        """
        facts = Facts()
        return infer(specialize_open(self.graph, facts, {**self.names.hints, **self.hints}), context), facts


def form_of_operands(values: Sequence[Value | None]) -> Hashable:
    """Return a key of what is known of operands but for the sizes that expressions stand for.

    Large constants count by identity.
    """
    numbers: dict[int, int] = {}

    def size(given: Any) -> Any:
        if not is_expression(given):
            return given
        bounds = (given.least, given.most) if isinstance(given, DimExpr) else ()
        return "expression", numbers.setdefault(id(given), len(numbers)), bounds

    def form(value: Value | None) -> Hashable:
        if value is None:
            return None
        if value.data is not None:
            small = value.data.nbytes <= _MOST_COMPARED and value.dtype is not dtypes.string
            return value.dtype, value.data.shape, value.data.tobytes() if small else id(value.data)
        known = known_value(value)
        elements = None if known is None else tuple(map(size, known.reshape(-1).tolist()))
        return value.dtype, tuple(map(size, value.static_shape)), elements

    return tuple(map(form, values))


def needs_python(body: Graph) -> bool:
    """Return whether a node of `body` runs as Python, or reads or gives text. Bodies that only fail do not count."""
    return any(
        (node.op == "call" and not isinstance(node.attrs["function"], Refusal))
        or any(value.dtype is dtypes.string for value in _values(node))
        for node in all_nodes(body)
    )


def may_change_ranks(body: Graph) -> bool:
    """Return whether sizes may decide the rank of a value of `body`, whose inputs have shapes with names for sizes.

    Squeeze without axes removes those of size 1.
    """
    removes = (node.op == "squeeze" and all(axes is None for axes in node.inputs[1:]) for node in all_nodes(body))
    return any(removes) and certain_shapes(body) is None


def _values(node: Node) -> Iterator[Value]:
    return (value for value in (*node.inputs, *node.outputs) if value is not None)


def numbers_or_none(dims: Dims) -> Dims:
    """Return `dims` with None in place of expressions."""
    return tuple(None if dim is None or is_expression(dim) else dim for dim in dims)


def common_dims(one: Sequence[Dims], other: Sequence[Dims]) -> list[Dims] | None:
    """Return the numbers that two lists of dimensions have in common; None if ranks differ."""
    if any(len(left) != len(right) for left, right in zip(one, other, strict=True)):
        return None
    return [
        tuple(a if a == b else None for a, b in zip(numbers_or_none(left), numbers_or_none(right), strict=True))
        for left, right in zip(one, other, strict=True)
    ]


def outer_dims(shape: StaticShape | Dims, outer: Mapping[str, int], facts: Facts) -> Dims:
    """Return `shape`, whose sizes are of `facts`, in terms of the graph around it.

    `outer` has the expressions that symbols stand for around it, by name. A size is known there if it is a number, or
    if it is a sum of multiples of such symbols and their products, and no assumption was made.
    """
    known = {} if facts.guards else outer
    return tuple(dim if dim is None or not is_expression(dim) else _outer_dim(dim, known) for dim in shape)


def _outer_dim(dim: Any, outer: Mapping[str, int]) -> int | None:
    """Return an expression in terms of the graph around it; None if that does not know all of it."""
    found = 0
    for product, number in dim.terms:
        factors = [outer.get(atom.args[0]) if atom.op == "symbol" else None for atom in product]
        if None in factors:
            return None
        found = found + number * math.prod(factor for factor in factors if factor is not None)
    return found
