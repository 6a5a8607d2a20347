"""Bodies of branches and loops in passes: each is rewritten for the operands of its node, or takes the node's place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.ops.branch import refusal_of, refusing_body
from treadle.ops.loop import form_of
from treadle.ops.op import Array, Info
from treadle.ops.sizes import add_sizes, known_value
from treadle.passes.infer_shapes import info_of
from treadle.passes.match import replace
from treadle.passes.regions import first_region, is_planned
from treadle.passes.specialize import copied, copy_graph, copy_node
from treadle.records import dataclass

Rewrite = Callable[[Graph], Graph]
"""Rewrites a graph in place and returns it."""

BODIES = {"branch": ("yes", "no"), "loop": ("body",)}
"""The attributes of an op that hold its bodies."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of a body: dtype, shape, and elements if they are known in every execution."""

    dtype: DType
    shape: StaticShape
    known: Array | None = None
    is_constant: bool = False


def optimize_bodies(graph: Graph, infer: Rewrite, optimize: Rewrite) -> None:
    """Give each node of `graph` that has bodies the attribute `optimized`: the bodies, ready for lowering, in order.

    Where the operands of a branch do not fit one of its bodies, a body that fails takes the place of that: exporters
    leave bodies for other sizes in models. A node does not get the attribute if sizes in a body depend on data: the
    node's reference then computes it. The body of a loop loses the result that says whether there is another iteration
    if that is certain; `decides` says whether it has it.
    """
    for node in graph.nodes:
        if node.op not in BODIES or not is_planned(node):
            continue
        operands = _operands_of_loop(node) if node.op == "loop" else list(map(_captured, node.inputs[1:]))
        bodies = [_inferred(node, node.attrs[name], operands, infer) for name in BODIES[node.op]]
        if not all(first_region(body).graph is body for body in bodies):
            continue
        decides = node.op == "loop" and not _always_goes_on(bodies[0])
        if node.op == "loop" and not decides:
            del bodies[0].outputs[0]
        node.attrs = {**node.attrs, "optimized": tuple(map(optimize, bodies)), "decides": decides}


def _inferred(node: Node, body: Graph, operands: Sequence[Operand], infer: Rewrite) -> Graph:
    """`body` of `node` for inputs like `operands`; where that of a branch does not fit them, one that fails."""
    if node.op != "branch":
        return infer(_for_operands(body, operands))
    why = refusal_of(body)
    if why is None:
        try:
            return infer(_for_operands(body, operands))
        except ShapeError as error:
            why = str(error)
    results = [Info(value.known_dtype, value.static_shape) for value in node.outputs]
    return refusing_body(node.name, [Info(operand.dtype, operand.shape) for operand in operands], results, why)


def _always_goes_on(body: Graph) -> bool:
    """Whether every iteration of a loop with this body says that there is another one."""
    again = body.outputs[0].data
    return again is not None and bool(again.reshape(-1)[0])


def _captured(value: Value | None) -> Operand:
    assert value is not None, "a body has an input for each operand"
    return Operand(value.known_dtype, value.static_shape, known_value(value), value.is_constant)


def _operands_of_loop(node: Node) -> list[Operand]:
    """What the inputs of the body are in every iteration."""
    form = form_of(node.attrs)
    number = Operand(dtypes.i64, ())
    values = [_captured(value) for value in node.inputs[2:]]
    carried = [Operand(value.dtype, value.shape) for value in values[: form.carried]]
    items = [Operand(value.dtype, value.shape[1:]) for value in values[form.carried : form.carried + form.sliced]]
    return [number, *carried, *items, *values[form.carried + form.sliced :]]


def _for_operands(body: Graph, operands: Sequence[Operand]) -> Graph:
    """A copy of `body` for inputs like `operands`: of their shapes, and replaced where their elements are known."""
    copy = copy_graph(body, {i.name: operand.shape for i, operand in zip(body.inputs, operands, strict=True)})
    sizes: list[Node] = []
    for value, operand in zip(copy.inputs, operands, strict=True):
        value.dtype = operand.dtype
        known = operand.known
        if known is None:
            continue
        found: Value | Node
        if operand.is_constant:
            found = copy.constant(known, value.name)
        else:
            found = add_sizes(copy, known, value.known_dtype, "sizes")
        if isinstance(found, Node):
            sizes.append(found)
            link(found)
            found = found.output
        copy.replace_uses(value, found)
    copy.nodes[:0] = sizes
    return copy


def made_nodes(node: Node) -> Graph | None:
    """The nodes that are to take the place of a deferred one; None for other nodes, and while that is not known.

    Raises ShapeError, naming the node, if its operands do not fit.
    """
    if node.op != "deferred" or any(value is not None and value.dtype is None for value in node.inputs):
        return None
    try:
        made: Graph | None = node.attrs["nodes"].graph([info_of(value) for value in node.inputs if value is not None])
    except ShapeError as error:
        raise node.placed(error) from error
    return made


def inline(graph: Graph, node: Node, operands: Sequence[Value | None], body: Graph) -> list[Node]:
    """Let what reads the results of `node` read those of `body` on these `operands`, copied into `graph`.

    Returns the nodes that were copied. They are linked; the caller puts them in place of `node`.
    """
    copies = dict(zip(body.inputs, (value for value in operands if value is not None), strict=True))
    before = len(graph.nodes)
    made = [copy_node(graph, each, copies, forget_shapes=True) for each in body.nodes]
    del graph.nodes[before:]
    unlink(node)
    for old, new in zip(node.outputs, body.outputs, strict=True):
        replace(graph, old, copied(graph, new, copies))
    return made
