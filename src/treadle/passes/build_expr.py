"""Turns a set of scalar nodes into one scalar program (Expr)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.dtypes import DType, string
from treadle.graph.expr import Expr, Number, Step
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.elementwise import SCALAR_OPS


def is_scalar(node: Node) -> bool:
    """Whether `node` computes each element of its results from one element of each operand.

    False while a dtype or shape is unknown, and for strings.
    """
    if node.op not in SCALAR_OPS and node.op not in ("cast", "elementwise"):
        return False
    if any(value is None for value in node.inputs):
        return False
    return all(
        value is not None and value.dtype is not None and value.shape is not None and value.dtype != string
        for value in (*node.inputs, *node.outputs)
    )


def as_step_constant(value: Value) -> Number | None:
    """The number that `value` puts into a program as a `const` step, if it is a constant of one element."""
    if value.data is None or value.data.size != 1:
        return None
    return value.data.item()  # type: ignore[no-any-return]


def outer_operands(nodes: Iterable[Node]) -> list[Value]:
    """What `nodes` read from outside, each value once, without constants of one element."""
    nodes = list(nodes)
    made = {value for node in nodes for value in node.outputs}
    operands = dict.fromkeys(value for node in nodes for value in node.inputs)
    return [v for v in operands if v is not None and v not in made and as_step_constant(v) is None]


def count_steps(node: Node) -> int:
    """How many steps `node` adds to a program, constants not counted."""
    if node.op == "elementwise":
        return sum(step.op != "const" for step in node.attrs["expr"].steps)
    return 1


def build_expr(
    nodes: Sequence[Node], results: Sequence[Value], first: Sequence[Value] = ()
) -> tuple[Expr, list[Value]]:
    """The program that computes `results` by `nodes` (in topological order), and its operands.

    The operands begin with `first`. Constants of one element become `const` steps, unless the
    operands alone would not broadcast to the results' shape (a constant may add leading axes).
    """
    operands = list(dict.fromkeys((*first, *outer_operands(nodes))))
    rank = max((len(value.static_shape) for value in operands), default=-1)
    if rank < len(results[0].static_shape):
        made = {value for node in nodes for value in node.outputs}
        reads = (value for node in nodes for value in node.inputs)
        operands = list(dict.fromkeys((*first, *(v for v in reads if v is not None and v not in made))))
    builder = _Builder(operands)
    for node in nodes:
        builder.append(node)
    dtypes = tuple(value.known_dtype for value in operands)
    return Expr(dtypes, tuple(builder.steps), tuple(builder.number[value] for value in results)), operands


class _Builder:
    """A program being written: the number of each value, and equal steps written once."""

    def __init__(self, operands: Sequence[Value]) -> None:
        self.number: dict[Value, int] = {value: i for i, value in enumerate(operands)}
        self.first = len(operands)
        self.steps: list[Step] = []
        self.known: dict[tuple[str, tuple[int, ...], DType, str], int] = {}

    def append(self, node: Node) -> None:
        inputs = [self._operand(value) for value in node.inputs if value is not None]
        if node.op != "elementwise":
            self.number[node.output] = self._step(node.op, tuple(inputs), node.output.known_dtype)
            return
        expr: Expr = node.attrs["expr"]
        for step in expr.steps:
            inputs.append(self._step(step.op, tuple(inputs[a] for a in step.args), step.dtype, step.value))
        for value, result in zip(node.outputs, expr.results, strict=True):
            self.number[value] = inputs[result]

    def _operand(self, value: Value) -> int:
        found = self.number.get(value)
        if found is None:
            constant = as_step_constant(value)
            assert constant is not None, f"value {value.name!r} is no operand of the program"
            found = self.number[value] = self._step("const", (), value.known_dtype, constant)
        return found

    def _step(self, op: str, args: tuple[int, ...], dtype: DType, value: Number | None = None) -> int:
        key = (op, args, dtype, repr(value))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.first + len(self.steps)
            self.steps.append(Step(op, args, dtype, value))
        return found
