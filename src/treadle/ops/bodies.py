"""Bodies of branches and loops: graphs whose inputs stand for operands of the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treadle.errors import InternalError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.op import Array, Info
from treadle.records import dataclass


@dataclass(slots=True)
class Interpreter:
    """How nodes are inferred and graphs evaluated.

    `ops.evaluate`, which imports the rules of all ops, sets both: the ops that have bodies are among these.
    """

    infer: Callable[[Node, Sequence[Info | None]], Sequence[Info]] | None = None
    evaluate: Callable[[Graph, Mapping[str, Array]], dict[str, Array]] | None = None


INTERPRETER = Interpreter()


def infer_body(body: Graph, operands: Sequence[Info | None]) -> list[Info]:
    """What is known of the outputs of `body`, given what is known of its inputs.

    Raises ShapeError, naming a node of the body, if operands do not fit it.
    """
    if INTERPRETER.infer is None:
        raise InternalError("a body is inferred before ops.evaluate is imported")
    infos = dict(zip(body.inputs, operands, strict=True))

    def info(value: Value | None) -> Info | None:
        if value is not None and value.data is not None:
            return Info(value.known_dtype, value.data.shape, value.data)
        return None if value is None else infos[value]

    for node in body.nodes:
        found = INTERPRETER.infer(node, [info(value) for value in node.inputs])
        if not found:
            found = [Info(value.known_dtype, None) for value in node.outputs]
        infos.update(zip(node.outputs, found, strict=True))
    outputs = [info(value) for value in body.outputs]
    return [output for output in outputs if output is not None]


def run_body(body: Graph, operands: Sequence[Array]) -> list[Array]:
    """The outputs of `body` by the references of its ops. Raises as `ops.evaluate.evaluate`."""
    if INTERPRETER.evaluate is None:
        raise InternalError("a body is evaluated before ops.evaluate is imported")
    given = {value.name: array for value, array in zip(body.inputs, operands, strict=True)}
    results = INTERPRETER.evaluate(body, given)
    return [results[value.name] for value in body.outputs]
