"""Evaluates nodes whose operands are constant.

Shapes and constants are found in one walk, because each needs the other: a reshape's target is the
result of shape arithmetic, whose operands are the shapes of values computed earlier.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from treadle.errors import TreadleError
from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.shape import elements, is_open
from treadle.graph.value import Value
from treadle.ops.branch import taken_body
from treadle.ops.evaluate import results_of
from treadle.ops.matmul import operand_shape
from treadle.ops.op import Info
from treadle.ops.sizes import add_sizes, evaluate_on_sizes, known_value
from treadle.ops.table import OPS
from treadle.passes.base import Limits, PassContext
from treadle.passes.bodies import inline, made_nodes
from treadle.passes.infer_shapes import infer_into
from treadle.passes.match import replace

Array = np.ndarray[Any, Any]

_SUMS_OF_PRODUCTS = frozenset({"matmul", "conv", "conv_transpose"})


class FoldConstants:
    """%s = shape(%x: f32[2, 3]); %n = gather(%s, 0); %y = f(%n)  ->  %y = f(2)

    A branch whose condition is known becomes the body that is taken. What a front end has deferred is made, once it is
    known of its operands what that needs.

    Infers dtypes and shapes on the way, like InferShapes. A node is evaluated if all its operands are
    constants, it is deterministic, and its results are within the folding budget (Limits).
    """

    name = "fold_constants"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if a node was folded or a value learned its shape. Raises ShapeError, naming the node."""
        budget = _Budget(graph, context.limits)
        changed = False
        kept: list[Node] = []
        pending = deque(graph.nodes)
        while pending:
            node = pending.popleft()
            condition = known_value(node.operand(0)) if node.op == "branch" else None
            if condition is not None:
                pending.extendleft(reversed(inline(graph, node, node.inputs[1:], taken_body(node.attrs, condition))))
                changed = True
                continue
            made = made_nodes(node)
            if made is not None:
                pending.extendleft(reversed(inline(graph, node, node.inputs, made)))
                changed = True
                continue
            infos = None
            if any(value.dtype is None or value.shape is None for value in node.outputs):
                infos = infer_into(node)
                changed |= all(value.shape is not None for value in node.outputs)
            arrays = _known(node, infos, budget)
            if arrays is None:
                kept.append(node)
                continue
            for value, array in zip(node.outputs, arrays, strict=True):
                known = add_sizes(graph, array, value.known_dtype, value.name)
                if isinstance(known, Node):
                    link(known)
                    kept.append(known)
                    known = known.output
                replace(graph, value, known)
            unlink(node)
            changed = True
        if changed:
            graph.nodes = kept
            graph.drop_unread()
        return changed


class _Budget:
    """The remaining work and bytes for folding."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.limits = limits
        self.graph = graph
        self.bytes: int | None = None
        self.work = limits.fold_work

    def allows(self, node: Node) -> bool:
        """Whether the results of `node`, of static shape, may become constants; if so, the work is spent."""
        for value in node.outputs:
            if value.shape is None or value.dtype is None or is_open(value.shape):
                return False
            size = elements(value.static_shape) * value.dtype.size
            if size > self.limits.fold_small and size > self._most():
                return False
        work = _work(node)
        if work > self.work:
            return False
        self.work -= work
        return True

    def _most(self) -> int:
        if self.bytes is None:
            model = sum(value.data.nbytes for value in self.graph.constants() if value.data is not None)
            self.bytes = min(self.limits.fold_bytes, self.limits.fold_growth * model)
        return self.bytes


def _work(node: Node) -> int:
    """The numbers that evaluating `node`, whose operands are known, reads, writes and multiplies, about."""
    read = sum(elements(value.static_shape) for value in node.inputs if value is not None)
    written = sum(elements(value.static_shape) for value in node.outputs)
    return read + written * _depth(node)


def _depth(node: Node) -> int:
    """The products that each result of `node` is a sum of; 1 for what is no sum of products."""
    if node.op not in _SUMS_OF_PRODUCTS or len(node.inputs) < 2:
        return 1
    if node.op == "matmul":
        return max(1, operand_shape(node.attrs, "a", node.operand(0).static_shape)[-1])
    return max(1, elements(node.operand(1).static_shape[1:]))


def _known(node: Node, infos: list[Info] | None, budget: _Budget) -> list[Array] | None:
    """The results of `node`, if they are known or may be computed now; of Python objects where some are expressions."""
    if infos is None and node.op in ("shape", "size"):
        infos = infer_into(node)
    if node.op == "sizes":
        return None
    if infos and all(info.value is not None for info in infos):
        return [np.asarray(info.value) for info in infos]
    arrays = [None if value is None else known_value(value) for value in node.inputs]
    if any(array is None and value is not None for array, value in zip(arrays, node.inputs, strict=True)):
        return None
    if not budget.allows(node):
        return None
    if not all(value is None or value.is_constant for value in node.inputs):
        return evaluate_on_sizes(node, arrays, OPS[node.op].evaluate)
    return _evaluate(node)


def _evaluate(node: Node) -> list[Array] | None:
    """The results of `node` by its reference; None where it has none, is not pure, or fails (the run will tell)."""
    if node.op == "reorder" or not OPS[node.op].folds or (node.op == "call" and not node.attrs.get("pure")):
        return None
    try:
        results = results_of(node, [None if value is None else value.data for value in node.inputs])
    except (TreadleError, ArithmeticError, ValueError, IndexError, MemoryError):
        return None
    return [_contiguous(value, result) for value, result in zip(node.outputs, results, strict=True)]


def _contiguous(value: Value, result: Array) -> Array:
    return np.asarray(result, dtype=value.known_dtype.numpy, order="C")
