"""branch: one of two bodies, as a condition says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape, elements, text
from treadle.ops.bodies import infer_body, run_body
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, operand, present
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """The function of a `call` that fails: the operands do not fit the body of a branch."""

    why: str
    storable: ClassVar[bool] = True

    def __call__(self, _: Sequence[Array]) -> list[Array]:
        """Raises ShapeError."""
        raise ShapeError(self.why)


def refusing_body(name: str, inputs: Iterable[Info], results: Sequence[Info], why: str) -> Graph:
    """A body of a branch that fails, as operands do that do not fit it, if it is taken.

    Args:
        name: The name of its node.
        inputs: dtype and shape of each input.
        results: dtype and shape of each result; those of the other body where they are not known.
        why: What the error says.
    """
    graph = Graph(name)
    for number, info in enumerate(inputs):
        graph.inputs.append(graph.value(f"operand{number}", info.dtype, info.shape))
    infos = [Info(info.dtype, info.shape) for info in results]
    attrs = {"function": Refusal(why), "infer": lambda _: list(infos), "blocking": False, "label": "branch"}
    made = [graph.value("refused", info.dtype, info.shape) for info in infos]
    graph.outputs = list(graph.add("call", [], attrs, name=name, outputs=made).outputs)
    return graph


def refusal_of(body: Graph) -> str | None:
    """Why `body` fails if it is taken; None if it is not one that refusing_body() made."""
    function = body.nodes[0].attrs.get("function") if len(body.nodes) == 1 else None
    return function.why if isinstance(function, Refusal) else None


def infer_branch(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """The condition, a bool of one element, then the operands of both bodies; each body has an input for each.

    attrs: yes and no (graphs). A result has a shape where both bodies give it the same one. Operands that do not fit
    one body are those of runs that take the other: its results are the node's.
    """
    condition = operand(inputs, 0, "condition")
    if condition.dtype != dtypes.boolean or elements(dims(condition)) != 1:
        raise ShapeError(f"the condition must be a bool of one element, got {condition.dtype}{text(dims(condition))}")
    if condition.value is not None:
        return infer_body(taken_body(attrs, condition.value), inputs[1:])
    found: list[list[Info]] = []
    error: ShapeError | None = None
    for name in ("yes", "no"):
        if refusal_of(attrs[name]) is None:
            try:
                found.append(infer_body(attrs[name], inputs[1:]))
            except ShapeError as failure:
                error = failure
    if len(found) < 2:
        if not found and error is not None:
            raise error
        return [Info(info.dtype, info.shape) for info in found[0]]
    yes, no = found
    if any(one.dtype != other.dtype for one, other in zip(yes, no, strict=True)):
        raise ShapeError("its bodies give results of different dtypes")
    return [
        Info(one.dtype, one.shape if _is_same(one.shape, other.shape) else None)
        for one, other in zip(yes, no, strict=True)
    ]


def _is_same(one: StaticShape | None, other: StaticShape | None) -> bool:
    if one is None or other is None or len(one) != len(other):
        return False
    return all(equals(size, same) for size, same in zip(one, other, strict=True))


def evaluate_branch(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    operands = [present(arrays, index) for index in range(1, len(arrays))]
    return run_body(taken_body(attrs, present(arrays, 0)), operands)


def taken_body(attrs: Attrs, condition: Array) -> Graph:
    """The body that runs if the condition has this one element."""
    body: Graph = attrs["yes" if condition.reshape(-1)[0] else "no"]
    return body
