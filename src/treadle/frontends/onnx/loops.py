"""ONNX Loop and Scan as core loops: their operands, the shapes of carried values, and what follows the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.lists import TensorList
from treadle.frontends.onnx.names import graph_of
from treadle.graph.graph import Graph
from treadle.graph.shape import Shape
from treadle.graph.value import Value
from treadle.records import dataclass

NamedDims = tuple[int | str | None, ...]
"""Dimensions: numbers, names of sizes that are the same in all iterations, and None for others."""

MOST_PADDED_BYTES = 1 << 26
"""A loop that a condition may end gets memory for all iterations up to this size. Else its size is not known before."""

_MOST_IMPORTS = 3
"""A body is imported at most this often to find which dimensions of its carried values do not change."""

_LAST, _BEFORE_FIRST = -1, -(1 << 63)


@dataclass(frozen=True, slots=True)
class Formal:
    """An input of a body: name, dtype, and dimensions as far as they are the same in all iterations (None: no rank).

    `loop` is the name of the node, with those of the nodes around it.
    """

    name: str
    dtype: DType
    dims: NamedDims | None
    loop: str

    @property
    def shape(self) -> Shape | None:
        """The dimensions with names for those that are not known."""
        if self.dims is None:
            return None
        return tuple(self._name(axis) if dim is None else dim for axis, dim in enumerate(self.dims))

    @property
    def changing(self) -> frozenset[str]:
        """The names of the dimensions that may change from iteration to iteration."""
        dims = enumerate(self.dims or ())
        return frozenset(self._name(axis) for axis, dim in dims if dim is None)

    def _name(self, axis: int) -> str:
        return f"{self.loop}/{self.name}.{axis}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A body as a graph.

    Attributes:
        graph: The body.
        dims: The dimensions of each output, as far as they are known.
        symbols: The names of the sizes that the shape of each output depends on; None if its rank is not known.
        lists: For each result of the body None, or the form of a list, whose values are outputs.
    """

    graph: Graph
    dims: Sequence[NamedDims | None]
    symbols: Sequence[frozenset[str] | None]
    lists: Sequence[TensorList | None] = ()


MakeBody = Callable[[Sequence[Formal]], Imported | None]
"""Imports the body with these inputs, followed by those of captured values; None if it is no graph of core nodes."""


@dataclass(slots=True)
class Retries:
    """How often bodies may still be imported again, in the whole model: nested ones multiply."""

    left: int = 64


@dataclass(frozen=True, slots=True)
class LoopNode:
    """A Loop or Scan. `sliced` has the values of which each iteration takes the item of its number.

    There is no core loop unless the items of each of the last `uniform` stacked values are known to have one shape.
    """

    limit: Value | None
    condition: Value | None
    carried: tuple[Value, ...]
    sliced: tuple[Value, ...]
    number: str
    names: tuple[str, ...]
    """The body's names for the carried values and the items."""
    uniform: int = 0


def loop_node(proto: onnx.NodeProto, inputs: Sequence[Value | None], builder: Builder) -> LoopNode | None:
    """The operands of a Loop; None if its body has another number of inputs or outputs, or a dtype is not known."""
    body = graph_of(proto)
    carried = [value for value in inputs[2:] if value is not None]
    names = [value.name for value in body.input]
    if len(carried) != len(inputs) - 2 or len(names) != len(inputs) or len(body.output) <= len(carried):
        return None
    if any(value.dtype is None for value in carried) or len(proto.output) > len(body.output) - 1:
        return None
    limit, condition = inputs[:2]
    known = None if condition is None else builder.known.array(condition)
    if known is not None and known.size == 1 and known.reshape(-1)[0]:
        condition = None
    return LoopNode(limit, condition, tuple(carried), (), names[0], tuple(names[2:]))


def scan_node(proto: onnx.NodeProto, inputs: Sequence[Value | None], builder: Builder) -> LoopNode | None:
    """The operands of a Scan of operator set 9 or later, sliced along their first axis in order; None as of a Loop."""
    body, count = graph_of(proto), _integer(proto, "num_scan_inputs")
    values = [value for value in inputs if value is not None and value.dtype is not None]
    names = [value.name for value in body.input]
    if len(values) != len(inputs) or len(names) != len(inputs) or not 0 < count <= len(inputs):
        return None
    carried, given = values[: len(values) - count], values[len(values) - count :]
    if len(body.output) < len(carried) or len(proto.output) > len(body.output):
        return None
    axes, reverse = _integers(proto, "scan_input_axes", count), _integers(proto, "scan_input_directions", count)
    sliced = []
    for value, axis, backward in zip(given, axes, reverse, strict=True):
        moved = _moved(builder, value, axis, to_front=True)
        if moved is None:
            return None
        sliced.append(_reversed(builder, moved) if backward else moved)
    return LoopNode(None, None, tuple(carried), tuple(sliced), "iteration", tuple(names))


def add_loop(
    node: LoopNode, make_body: MakeBody, captured: Sequence[Value], retries: Retries, b: Builder
) -> list[Value] | None:
    """The results of the loop: carried and stacked values; None if its body cannot be a graph of core nodes.

    Raises Fault if its operands do not fit.
    """
    found = _body(node, make_body, retries, b)
    if found is None:
        return None
    body, count = found.graph, len(node.carried)
    if [value.dtype for value in body.outputs[1 : 1 + count]] != [value.dtype for value in node.carried]:
        return None
    again = body.outputs[0].data
    padded = again is None and _is_padded(node, found, b)
    carried, moved = _without_constant(body, node)
    operands = [node.limit, node.condition, *carried, *node.sliced, *captured, *moved.values()]
    name = b.name
    changed = iter(b.add_loop(operands, body, len(carried), len(node.sliced), padded=padded))
    results = [moved[number] if number in moved else next(changed) for number in range(count)]
    *stacked, made = changed
    if padded:
        end = b.add("reshape", made, b.integers([1]))
        stacked = [b.add("slice", value, b.integers([0]), end, b.integers([0])) for value in stacked]
    b.name = name
    return [*results, *stacked]


def scan_results(proto: onnx.NodeProto, results: Sequence[Value], b: Builder) -> list[Value] | None:
    """The results of a Scan, with stacked values in the wanted order along the wanted axes."""
    carried = len(proto.input) - _integer(proto, "num_scan_inputs")
    stacked = results[carried:]
    axes = _integers(proto, "scan_output_axes", len(stacked))
    reverse = _integers(proto, "scan_output_directions", len(stacked))
    placed = list(results[:carried])
    for value, axis, backward in zip(stacked, axes, reverse, strict=True):
        moved = _moved(b, _reversed(b, value) if backward else value, axis, to_front=False)
        if moved is None:
            return None
        placed.append(moved)
    return placed


def _body(node: LoopNode, make_body: MakeBody, retries: Retries, b: Builder) -> Imported | None:
    """The body for carried values whose known dimensions are the same in all iterations."""
    carried = [
        Formal(name, value.known_dtype, b.known.named_dims(value), b.name)
        for name, value in zip(node.names, node.carried, strict=False)
    ]
    items = []
    for name, value in zip(node.names[len(carried) :], node.sliced, strict=True):
        dims = b.known.named_dims(value)
        items.append(Formal(name, value.known_dtype, None if dims is None else dims[1:], b.name))
    for _ in range(_MOST_IMPORTS):
        found = make_body([Formal(node.number, dtypes.i64, (), b.name), *carried, *items])
        if found is None:
            return None
        kept = [_common(one.dims, other) for one, other in zip(carried, found.dims[1:], strict=False)]
        if kept == [one.dims for one in carried]:
            return found if _is_uniform(node.uniform, found, carried) else None
        carried = [replace(one, dims=dims) for one, dims in zip(carried, kept, strict=True)]
        retries.left -= 1
        if retries.left < 0:
            return None
    return None


def _is_uniform(count: int, found: Imported, carried: Sequence[Formal]) -> bool:
    """Whether the last `count` items of a body certainly have one shape in all iterations."""
    names = {dim for value in found.graph.inputs for dim in value.shape or () if isinstance(dim, str)}
    steady = names.difference(*(formal.changing for formal in carried))
    outputs = range(len(found.symbols) - count, len(found.symbols))
    return all((symbols := found.symbols[number]) is not None and symbols <= steady for number in outputs)


def _common(before: NamedDims | None, after: NamedDims | None) -> NamedDims | None:
    """What the dimensions of a carried value before and after an iteration have in common."""
    if before is None or after is None or len(before) != len(after):
        return None
    return tuple(one if one == other else None for one, other in zip(before, after, strict=True))


def _is_padded(node: LoopNode, body: Imported, b: Builder) -> bool:
    """Whether the loop, which a condition may end, gets memory for all iterations that its limit allows."""
    limit = None if node.limit is None else b.known.array(node.limit)
    stacked = list(zip(body.graph.outputs, body.dims, strict=True))[1 + len(node.carried) :]
    if limit is None or limit.size != 1 or not stacked:
        return False
    total = 0
    for value, dims in stacked:
        sizes = [dim for dim in dims or () if isinstance(dim, int)]
        if dims is None or len(sizes) < len(dims):
            return False
        total += max(int(limit.reshape(-1)[0]), 0) * int(np.prod(sizes)) * value.known_dtype.size
    return total <= MOST_PADDED_BYTES


def _without_constant(body: Graph, node: LoopNode) -> tuple[list[Value], dict[int, Value]]:
    """Turn carried values that the body gives as it takes them into captured ones, unless nothing limits the loop.

    A loop without results is left out, so one that may never end keeps them. Returns the operands that are still
    carried, and by their number those that are captured, in order.
    """
    carried: list[Value] = []
    moved: dict[int, Value] = {}
    inputs, outputs = body.inputs[1 : 1 + len(node.carried)], body.outputs[1 : 1 + len(node.carried)]
    for number, (operand, given, result) in enumerate(zip(node.carried, inputs, outputs, strict=True)):
        if node.limit is not None and _source(result) is given:
            moved[number] = operand
        else:
            carried.append(operand)
    still = [number for number in range(len(node.carried)) if number not in moved]
    rest = slice(1 + len(node.carried), None)
    body.inputs = [body.inputs[0], *(inputs[n] for n in still), *body.inputs[rest], *(inputs[n] for n in moved)]
    body.outputs = [body.outputs[0], *(outputs[n] for n in still), *body.outputs[rest]]
    return carried, moved


def _source(value: Value) -> Value:
    """The value that `value` is the same as."""
    while value.producer is not None and value.producer.op == "identity":
        value = value.producer.operand(0)
    return value


def _integer(proto: onnx.NodeProto, name: str) -> int:
    return next((int(attribute.i) for attribute in proto.attribute if attribute.name == name), 0)


def _integers(proto: onnx.NodeProto, name: str, count: int) -> list[int]:
    """An attribute with one number for each of `count` values: zeros if it is absent or of another length."""
    found = next((list(attribute.ints) for attribute in proto.attribute if attribute.name == name), [])
    return found if len(found) == count else [0] * count


def _moved(b: Builder, value: Value, axis: int, *, to_front: bool) -> Value | None:
    """`value` with `axis` moved to the front, or the first axis moved to `axis`; None if the rank is needed, but not
    known, or there is no such axis."""
    if axis == 0:
        return value
    dims = b.known.dims(value)
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    axis %= len(dims)
    others = [other for other in range(len(dims)) if other != (axis if to_front else 0)]
    others.insert(0 if to_front else axis, axis if to_front else 0)
    return b.add("transpose", value, perm=tuple(others))


def _reversed(b: Builder, value: Value) -> Value:
    """`value` with its items along the first axis in reverse order."""
    return b.add("slice", value, *(b.integers([number]) for number in (_LAST, _BEFORE_FIRST, 0, -1)))
