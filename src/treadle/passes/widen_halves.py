"""Computes with f16 in f32: values are stored as f16 and widened in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dtypes import DType, f16, f32
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext

_KEPT = frozenset({"branch", "call", "data_stage", "elementwise", "loop", "range"})
"""Ops that take and give f16: those with bodies or a stage, which are rewritten apart, and those that run in Python."""

_MOVES = frozenset({
    "concat", "depth_to_space", "expand", "flatten", "gather", "gather_elements", "gather_nd", "identity", "pad",
    "reshape", "reverse_sequence", "slice", "space_to_depth", "split", "squeeze", "tile", "transpose", "trilu",
    "unsqueeze",
})  # fmt: skip
"""Ops that only move elements."""

_SCATTERS = frozenset({"scatter_elements", "scatter_nd"})
"""Ops that only move elements where they have no reduction."""

_SHAPES = frozenset({"shape", "size"})


class WidenHalves:
    """%y: f16 = mul(%a: f16, %b: f16); %z: f16 = exp(%y)
    ->  %y: f32 = mul(cast(%a), cast(%b)); %z: f16 = cast(exp(%y))

    What is computed stays in f32 until something needs it as f16: an output of the graph, a cast of the model, the
    body of a loop, a Python step. So results are those of ONNX Runtime, which computes f16 on CPUs the same way.
    Under exact math each result is rounded to f16. Moved elements stay f16 where they were stored so.
    """

    name = "widen_halves"

    def run(self, graph: Graph, context: PassContext) -> bool:
        if not any(_computes(node) for node in graph.nodes):
            return False
        widening = _Widening(graph, rounds=context.math == "exact")
        for node in graph.nodes:
            widening.take(node)
        for value in graph.outputs:
            widening.narrow(value)
        graph.rebuild(widening.nodes)
        return True


def _moves(node: Node) -> bool:
    """Whether `node` only moves elements."""
    return node.op in _MOVES or (node.op in _SCATTERS and node.attrs["reduction"] == "none")


def _computes(node: Node) -> bool:
    """Whether `node` does more with f16 than store it."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.dtype == f16]
    if not values or node.op in _KEPT | _SHAPES or _moves(node):
        return False
    return node.op != "cast" or f32 not in (node.operand(0).dtype, node.output.dtype)


class _Widening:
    """The nodes of the new graph, and for each f16 value of the old one whether it is there as f16, as f32, or both."""

    def __init__(self, graph: Graph, *, rounds: bool) -> None:
        self._graph = graph
        self._rounds = rounds
        self._wide: dict[Value, Value] = {}
        self._only_wide: set[Value] = set()
        self.nodes: list[Node] = []

    def take(self, node: Node) -> None:
        """Add `node`, or what computes the same."""
        halves = [value for value in node.inputs if value is not None and value.dtype == f16]
        made = [value for value in node.outputs if value.dtype == f16]
        if not halves and not made:
            self.nodes.append(node)
        elif node.op == "cast":
            self._take_cast(node)
        elif node.op in _KEPT or ((_moves(node) or node.op in _SHAPES) and not self._are_wide(halves)):
            for value in halves:
                self.narrow(value)
            self.nodes.append(node)
        else:
            self._compute(node, rounds=self._rounds and not _moves(node))

    def _are_wide(self, values: Sequence[Value]) -> bool:
        """Whether all `values` but constants are there as f32 only."""
        varying = [value for value in values if not value.is_constant]
        return bool(varying) and self._only_wide.issuperset(varying)

    def _take_cast(self, node: Node) -> None:
        x, y = node.operand(0), node.output
        if x.dtype == f16:
            wide = self.widen(x, node)
            if y.dtype == f32:
                self._add(node, "identity", [wide], [y])
            else:
                self._add(node, "cast", [wide], [y], to=y.dtype)
            return
        if x.dtype != f32:
            x = self._new(node, "cast", x, f32)
        self._add(node, "cast", [x], [y], to=f16)

    def _compute(self, node: Node, *, rounds: bool) -> None:
        inputs = [v if v is None or v.dtype != f16 else self.widen(v, node) for v in node.inputs]
        outputs = [self._graph.value(f"{v.name}.f32", f32, v.shape) if v.dtype == f16 else v for v in node.outputs]
        attrs = node.attrs
        if node.op == "constant_of_shape":
            attrs = {**attrs, "value": attrs["value"].astype(f32.numpy)}
        self._add(node, node.op, inputs, outputs, **attrs)
        for old, new in zip(node.outputs, outputs, strict=True):
            if old is new:
                continue
            if rounds:
                self._add(node, "cast", [new], [old], to=f16)
            else:
                self._wide[old] = new
                self._only_wide.add(old)

    def widen(self, value: Value, reader: Node) -> Value:
        """`value` as f32, for `reader`."""
        found = self._wide.get(value)
        if found is None:
            if value.data is not None:
                found = self._graph.constant(value.data.astype(f32.numpy), f"{value.name}.f32")
            else:
                found = self._new(reader, "cast", value, f32)
            self._wide[value] = found
        return found

    def narrow(self, value: Value) -> None:
        """Let `value` be there as f16."""
        if value in self._only_wide:
            assert value.producer is not None, "a node has made it"
            self._add(value.producer, "cast", [self._wide[value]], [value], to=f16)
            self._only_wide.remove(value)

    def _new(self, origin: Node, op: str, x: Value, to: DType) -> Value:
        result = self._graph.value(f"{x.name}.{to}", to, x.shape)
        self._add(origin, op, [x], [result], to=to)
        return result

    def _add(
        self, origin: Node, op: str, inputs: Sequence[Value | None], outputs: Sequence[Value], **attrs: Any
    ) -> None:
        made = self._graph.make(op, inputs, attrs, name=origin.name, outputs=outputs)
        made.take_over([origin])
        self.nodes.append(made)
