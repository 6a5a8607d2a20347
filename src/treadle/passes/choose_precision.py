"""Lets convolutions and products with constant weights multiply bf16, where the user and the CPU allow it."""

from __future__ import annotations

from collections import Counter

from treadle.dtypes import bf16, f32
from treadle.graph.dim import divides
from treadle.graph.expr import Expr, Step, cast_operand, cast_result
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes, sample_elements
from treadle.graph.value import Value
from treadle.ops.pool import POOLS
from treadle.passes.base import PassContext
from treadle.passes.lower.attention_operands import can_bf16_dot
from treadle.passes.lower.base import bytes_of_weights, stay_in
from treadle.passes.lower.conv.epilogue import has_readable_epilogue
from treadle.passes.lower.conv.lower import blocked_output, prefers_winograd, takes_bf16
from treadle.passes.lower.expr import is_native
from treadle.passes.lower.matmul import bf16_product
from treadle.plan.target import Target

_VIEWS = ("reshape", "flatten", "squeeze", "unsqueeze", "identity")
_ROUND = Expr((f32,), (Step("cast", (0,), bf16),), (1,))
_WORTH_ROUNDING = 64
"""Multiplications that each element must take part in, of all products together, to be worth a loop that rounds it."""


class ChoosePrecision:
    """%c = conv(%x, %w); %y = conv(%c, %v)  ->  %c: bf16 = conv(%x, %w) epilogue cast; %y = conv(%c, %v)

    Only under precision="bf16", on CPUs with an instruction for it. Every value that such a product reads is rounded to
    bf16 when it is stored; sums, epilogues, softmax and normalisation stay in f32. Between convolutions everything is
    stored as bf16; elsewhere only what nothing but products reads, and other values get a rounded copy. Graph inputs
    and outputs are as declared.
    """

    name = "choose_precision"

    def run(self, graph: Graph, context: PassContext) -> bool:
        if context.precision != "bf16" or not context.target.has_bf16_dot:
            return False
        values = _Values(graph, context.target)
        stored = values.stored_rounded()
        for value in stored:
            _round_where_made(value)
        copies = _round_copies(graph, context, values.convolved)
        return bool(stored) or copies


class _Values:
    """Which values can be stored as bf16. `blocked` are those that will be stored in blocks of channels; only
    `convolved` ones, which depend on a convolution, may be."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.blocked: set[Value] = set()
        self.convolved: set[Value] = set()
        for node in graph.nodes:
            if node.op == "conv" or any(value in self.convolved for value in node.inputs):
                self.convolved.update(node.outputs)
            if self._is_blocked(node):
                self.blocked.update(node.outputs)

    def stored_rounded(self) -> list[Value]:
        """Every value to be stored as bf16, in order."""
        chosen = {value for node in self.graph.nodes for value in node.outputs if self._can_round(value)}
        joins = [values for node in self.graph.nodes if (values := _stored_alike(node))]
        settled = False
        while not settled:
            settled = True
            for values in joins:
                if values & chosen and not values <= chosen:
                    chosen -= values
                    settled = False
        return [value for node in self.graph.nodes for value in node.outputs if value in chosen]

    def _can_round(self, value: Value) -> bool:
        """Whether the kernel that makes `value` can round it, and all that read it gain."""
        node = value.producer
        if node is None or value.dtype != f32 or not value.users or self.graph.is_output(value):
            return False
        if value in self.blocked:
            return all(self._reads_blocked(user, value) for user in value.users)
        writes = node.op in ("matmul", *_VIEWS) or (node.op == "elementwise" and is_native(node.attrs["expr"]))
        return writes and all(self._multiplies(user, value) or user.op in _VIEWS for user in value.users)

    def _multiplies(self, user: Node, value: Value) -> bool:
        """Whether `user` reads `value` as the left factor of bf16 products, and not otherwise, or for attention."""
        if user.op == "attention":
            return value in user.inputs[:3] and value not in user.inputs[3:] and can_bf16_dot(user, self.target)
        if sum(operand is value for operand in user.inputs) != 1 or user.inputs[0] is not value:
            return False
        return multiplies(user, self.target, blocked=value in self.convolved)

    def _reads_blocked(self, user: Node, value: Value) -> bool:
        places = [index for index, operand in enumerate(user.inputs) if operand is value]
        if user.op == "conv":
            if blocked_output(user, self.target) is None:
                return False
            return all(index > 2 or takes_bf16(user, self.target, blocked=True) for index in places)
        if user.op == "reduce_mean":
            axes = user.attrs["axes"]
            return axes is not None and sorted(axes) == list(range(2, len(value.static_shape)))
        return self._is_blocked(user)

    def _is_blocked(self, node: Node) -> bool:
        """Whether `node` will write blocks of channels because it is, or follows, a convolution."""
        if node.op == "conv":
            return (
                node.output.dtype == f32
                and has_readable_epilogue(node)
                and blocked_output(node, self.target) is not None
            )
        if node.op in POOLS:
            return node.operand(0) in self.blocked and len(node.outputs) == 1
        out = node.outputs[0].shape if node.outputs else None
        full = [v for v in node.inputs if v is not None and equal_shapes(v.shape, out)]
        if node.op == "concat":
            full = [v for v in node.inputs if v is not None]
            lanes = self.target.lanes(f32)
            return node.attrs["axis"] == 1 and all(
                v in self.blocked and divides(lanes, v.static_shape[1]) for v in full
            )
        if node.op != "elementwise" or len(node.outputs) != 1 or not is_native(node.attrs["expr"]):
            return False
        return bool(full) and all(v in self.blocked for v in full) and node.output.dtype == f32


def _stored_alike(node: Node) -> set[Value]:
    """The values that are all stored as bf16, or none of them: what `node` moves, or multiplies with each other."""
    if node.op == "attention":
        return {node.operand(number) for number in range(3)}
    if node.op == "concat":
        return {value for value in (*node.inputs, *node.outputs) if value is not None}
    return {node.operand(0), node.output} if node.op in _VIEWS else set()


def multiplies(node: Node, target: Target, *, blocked: bool) -> bool:
    """Whether a kernel of `node` multiplies pairs of bf16 once its first operand, which may be `blocked`, is stored
    so."""
    if node.op == "matmul":
        return bf16_product(node) is not None
    if node.op != "conv" or blocked_output(node, target) is None:
        return False
    return takes_bf16(node, target, blocked=blocked)


def _round_where_made(value: Value) -> None:
    """Let the producer of `value` store it as bf16, and its readers know."""
    node = value.producer
    assert node is not None, "a graph's inputs stay as they are"
    if node.op == "elementwise":
        node.attrs["expr"] = cast_result(node.attrs["expr"], node.outputs.index(value), bf16)
    elif node.op in ("conv", "matmul"):
        node.attrs["epilogue"] = cast_result(node.attrs.get("epilogue") or Expr((f32,), (), (0,)), 0, bf16)
    value.dtype = bf16
    for user in (user for user in value.users if user.op == "attention"):
        user.attrs["sums"] = f32
    for user in dict.fromkeys(value.users):
        first, name = {"conv": (3, "epilogue"), "matmul": (2, "epilogue"), "elementwise": (0, "expr")}.get(
            user.op, (0, "")
        )
        if not name:
            continue
        for index, operand in enumerate(user.inputs):
            if operand is value and index >= first:
                user.attrs[name] = cast_operand(user.attrs[name], index - first + (name == "epilogue"), bf16)


def _round_copies(graph: Graph, context: PassContext, convolved: set[Value]) -> bool:
    """Give products whose left factor is stored as f32 a rounded copy of it, where that pays."""
    uses: Counter[Value] = Counter()
    weights = bytes_of_weights(graph) if context.weight_bytes is None else context.weight_bytes
    streamed = not stay_in(context.target.last_cache, weights)
    readers = {node for node in graph.nodes if _can_read_rounded(node, context, convolved, streamed=streamed)}
    for node in readers:
        uses[node.operand(0)] += _uses_of_each(node)
    copies: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in readers and uses[node.operand(0)] >= _WORTH_ROUNDING:
            x = node.operand(0)
            if x not in copies:
                copies[x] = graph.value(f"{x.name}.bf16", bf16, x.shape)
                nodes.append(
                    graph.make("elementwise", [x], {"expr": _ROUND}, name=f"round {x.name}", outputs=[copies[x]])
                )
            graph.set_input(node, 0, copies[x])
        nodes.append(node)
    graph.rebuild(nodes)
    return bool(copies)


def _can_read_rounded(node: Node, context: PassContext, convolved: set[Value], *, streamed: bool) -> bool:
    """Whether `node` reads f32 and would be faster if it read bf16."""
    x = node.inputs[0] if node.inputs else None
    if x is None or x.dtype != f32 or x.is_constant:
        return False
    if not multiplies(node, context.target, blocked=x in convolved):
        return False
    return not prefers_winograd(
        node, context.target, context.math, streamed=streamed, batch_invariant=context.batch_invariant
    )


def _uses_of_each(node: Node) -> int:
    """In how many multiplications each element of the first operand takes part, for the sample sizes."""
    x, weights = node.operand(0).static_shape, node.operand(1).static_shape
    if node.op == "matmul":
        return sample_elements(weights) // max(1, sample_elements(x[-1:]))
    out = node.output.static_shape
    return sample_elements((*out, *weights[1:])) // max(1, sample_elements(x))
