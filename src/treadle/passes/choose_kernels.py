"""Graph to calls: every node becomes generated kernels, an alias, or a Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from treadle.errors import InternalError
from treadle.graph.dim import ceil_div, maximum
from treadle.graph.graph import Graph
from treadle.graph.mapping import release
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.call import CalledFunction, call_function
from treadle.ops.op import Attrs, Evaluate
from treadle.ops.table import OPS
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.open_attrs import sizes_in, with_numbers
from treadle.passes.lower.table import LOWERINGS, is_empty
from treadle.plan.call import Call
from treadle.plan.kernels.copy_bytes import CopyBytesArgs, CopyBytesSpec
from treadle.plan.plan import Plan
from treadle.plan.target import Target
from treadle.provider import Provider
from treadle.records import dataclass
from treadle.runtime.control import check_compile

PYTHON_NS = 20_000.0
"""What a Python task is assumed to cost at least, unless its node says otherwise (attribute `cost`, in ns)."""

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Lowered:
    """The calls of a graph in topological order, and values that lie in others' memory."""

    calls: list[Call] = field(default_factory=list)
    aliases: dict[Value, tuple[Value, int]] = field(default_factory=dict)

    def root(self, value: Value) -> tuple[Value, int]:
        """The value whose memory holds `value`, and the byte offset in it."""
        offset = 0
        while value in self.aliases:
            value, more = self.aliases[value]
            offset += more
        return value, offset


def choose_kernels(
    graph: Graph,
    target: Target,
    math: str,
    provider: Provider | None = None,
    *,
    weight_bytes: int | None = None,
    plans: Mapping[Node, tuple[Plan, ...]] | None = None,
    batch_invariant: bool = False,
) -> Lowered:
    """Lower every node of `graph` (static shapes, optimised). Each graph output gets memory of its own.

    `plans` are those of the bodies of nodes that have such. `batch_invariant` is as in PassContext.
    """
    ctx = LowerContext(
        graph,
        target,
        math,
        provider,
        weight_bytes=weight_bytes,
        plans=plans,
        batch_invariant=batch_invariant,
    )
    lowered = Lowered(aliases=ctx.aliases)
    for node in graph.nodes:
        if node.op == "sizes":
            continue
        check_compile()
        lowered.calls.extend(_calls(node, ctx))
        for value in node.inputs:
            if value is not None and value.data is not None:
                release(value.data)
    lost = ctx.in_place - ctx.aliases.keys()
    if lost:
        raise InternalError(f"written in place, but in none: {sorted(value.name for value in lost)}")
    lowered.calls[:0] = _calls_of_sizes(graph, ctx, lowered)
    _separate_outputs(graph, ctx, lowered)
    return lowered


def _calls_of_sizes(graph: Graph, ctx: LowerContext, lowered: Lowered) -> list[Call]:
    """The calls of the `sizes` nodes whose results are read from memory. Most give shapes alone, to lowerings."""
    read = {lowered.root(value)[0] for call in lowered.calls for value in call.reads}
    read.update(lowered.root(value)[0] for value in graph.outputs)
    nodes = [node for node in graph.nodes if node.op == "sizes" and lowered.root(node.output)[0] in read]
    return [call for node in nodes for call in _calls(node, ctx)]


def _calls(node: Node, ctx: LowerContext) -> list[Call]:
    """The node's calls, with the caps on its workers; none if an earlier node's call computes it."""
    calls = [] if ctx.is_done(node) else _lowered(node, ctx)
    for call in calls:
        call.caps = node.origins
    return calls


def _lowered(node: Node, ctx: LowerContext) -> list[Call]:
    """The node's calls: none where there is no element to compute, unless it is a Python function, which is called."""
    if node.outputs and is_empty(node) and OPS[node.op].evaluate is not None:
        return []
    lowering = LOWERINGS.get(node.op)
    calls = lowering(node, ctx) if lowering is not None else None
    return python_calls(node) if calls is None else calls


@dataclass(frozen=True, slots=True, eq=False)
class _Reference:
    """An op's reference as the function of a step. Of `count` operands those at the places `present` are there."""

    evaluate: Evaluate
    attrs: Attrs
    present: tuple[int, ...]
    count: int

    @property
    def detachable(self) -> bool:
        """Whether any thread may call it: unless it is a function of a user."""
        return self.evaluate is not call_function or bool(getattr(self.attrs["function"], "detachable", False))

    def __call__(self, sizes: Sequence[int], arrays: list[Array]) -> Sequence[Array]:
        """The results of the op."""
        operands: list[Array | None] = [None] * self.count
        for index, array in zip(self.present, arrays, strict=True):
            operands[index] = array
        return self.evaluate(with_numbers(self.attrs, sizes), operands)


def python_calls(node: Node) -> list[Call]:
    """The node as a Python task: its own function, or the NumPy reference of its op."""
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.layout is not None:
            raise InternalError(f"{node.op} {node.name!r} has no kernel for %{value.name} in layout {value.layout}")
    present = [index for index, value in enumerate(node.inputs) if value is not None]
    count, attrs = len(node.inputs), node.attrs
    evaluate = OPS[node.op].evaluate or call_function
    without_sizes = node.op == "call" and not sizes_in(attrs) and len(present) == count
    function = CalledFunction(attrs) if without_sizes else _Reference(evaluate, attrs, tuple(present), count)
    reads = tuple(value for value in node.inputs if value is not None)
    moved = sum(nbytes(value) for value in (*node.outputs, *reads))
    return [
        Call(
            node=node.name,
            op=node.attrs.get("label", node.op),
            writes=tuple(node.outputs),
            reads=reads,
            function=function,
            sizes=sizes_in(attrs),
            cost=float(node.attrs.get("cost", PYTHON_NS)) + moved,
            traffic=moved,
            blocking=bool(node.attrs.get("blocking", False)),
        )
    ]


def _separate_outputs(graph: Graph, ctx: LowerContext, lowered: Lowered) -> None:
    """Copy outputs that would otherwise lie in an input, a constant, or another output's memory."""
    taken: set[Value] = set()
    inputs = set(graph.inputs)
    for position, value in enumerate(graph.outputs):
        root, offset = lowered.root(value)
        free = root not in inputs and not root.is_constant and root not in taken
        if free and offset == 0 and nbytes(root) == nbytes(value) and (root is value or not graph.is_output(root)):
            taken.add(root)
            continue
        copy = graph.value(f"{value.name}.copy", value.dtype, value.shape)
        lowered.calls.append(copy_call(ctx, value, copy))
        graph.outputs[position] = copy
        taken.add(copy)


def copy_call(ctx: LowerContext, source: Value, target: Value) -> Call:
    """A call that copies the bytes of `source` to `target`."""
    size = nbytes(source)
    per_chunk = 1 << 18
    return Call(
        node=source.name,
        op="copy",
        writes=(target,),
        reads=(source,),
        spec=CopyBytesSpec(),
        args=CopyBytesArgs(bytes=size, bytes_per_chunk=per_chunk),
        chunks=maximum(1, ceil_div(size, per_chunk)),
        cost=ctx.flops_ns(0.0, 2 * size),
        traffic=2 * size,
    )
