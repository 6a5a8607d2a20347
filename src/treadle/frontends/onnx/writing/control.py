"""Branches and loops as ONNX nodes with bodies, and nodes of the model that have stayed what they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.dtypes import DType
from treadle.frontends.onnx.from_bytes import FROM_BYTES
from treadle.frontends.onnx.loop import LoopFunction
from treadle.frontends.onnx.names import graphs_of
from treadle.frontends.onnx.opsets import domain_of
from treadle.frontends.onnx.reference import ForeignFunction, Fragment
from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.layers import LAYERS
from treadle.frontends.onnx.writing.microsoft import MICROSOFT
from treadle.frontends.onnx.writing.recurrent import RECURRENT
from treadle.frontends.onnx.writing.scalars import SCALARS
from treadle.frontends.onnx.writing.tensors import TENSORS, Write
from treadle.frontends.onnx.writing.writer import Unwritable, Writer, operand, optional
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.loop import form_of


def write_node(node: Node, w: Writer) -> None:
    """Write `node`. Raises Unwritable if ONNX cannot express it, naming the node inside if it is one of a body."""
    write = WRITERS.get(node.op)
    if write is None:
        raise Unwritable("ONNX has no operator for it")
    w.begin(node)
    write(node, w)


def _nodes(body: Graph, w: Writer) -> None:
    for node in body.nodes:
        try:
            write_node(node, w)
        except Unwritable as fault:
            raise Unwritable(f"{node.place} in its body: {fault}") from None


def _results(body: Graph, w: Writer) -> list[onnx.ValueInfoProto]:
    """The results of a body, each of a name of its own that a node of the body gives."""
    made = []
    for value in body.outputs:
        name = w.emit("Identity", [w.name(value)])
        kind = TensorProto.UNDEFINED if value.dtype is None else NUMBERS[value.dtype]
        made.append(helper.make_tensor_value_info(name, kind, None))
    return made


def _branch(node: Node, w: Writer) -> None:
    bodies = {}
    for name, attribute in (("yes", "then_branch"), ("no", "else_branch")):
        body: Graph = node.attrs[name]
        for value, given in zip(body.inputs, node.inputs[1:], strict=True):
            assert given is not None, "its shape rule wants this operand"
            w.set_name(value, w.name(given))
        with w.body() as nodes:
            _nodes(body, w)
            results = _results(body, w)
            bodies[attribute] = helper.make_graph(nodes, body.name or name, [], results)
    w.emit("If", [w.name(operand(node, 0))], [w.name(value) for value in node.outputs], **bodies)


def _loop(node: Node, w: Writer) -> None:
    """Write a loop. Items of sliced values are picked in the body, and iterations are counted by one more value."""
    if node.attrs["padded"]:
        raise Unwritable("what it stacks has room for more iterations than it makes")
    form, body = form_of(node.attrs), node.attrs["body"]
    number, *inner = body.inputs
    carried, items, captured = _parts(inner, form.carried, form.sliced)
    given = [operand(node, index) for index in range(2, len(node.inputs))]
    first, sliced, outer = _parts(given, form.carried, form.sliced)
    for value, other in zip(captured, outer, strict=True):
        w.set_name(value, w.name(other))
    formals = [_formal(w.name(number), TensorProto.INT64, []), _formal(w.fresh("going"), TensorProto.BOOL, [])]
    formals += [_formal(w.name(value), NUMBERS[_known(value)], None) for value in carried]
    count_in = w.fresh("count")
    formals.append(_formal(count_in, TensorProto.INT64, []))
    with w.body() as nodes:
        for value, whole in zip(items, sliced, strict=True):
            w.emit("Gather", [w.name(whole), w.name(number)], [w.name(value)], axis=0)
        _nodes(body, w)
        results = _results(body, w)
        count = w.emit("Add", [count_in, w.constant(np.array(1, np.int64), "one")])
        results.insert(1 + form.carried, _formal(count, TensorProto.INT64, []))
        written = helper.make_graph(nodes, body.name or "body", formals, results)
    names = [w.name(value) for value in node.outputs]
    outputs = names[: form.carried] + names[form.carried + form.stacked :] + names[form.carried :][: form.stacked]
    if len(names) == form.carried + form.stacked:
        outputs.insert(form.carried, w.fresh("count"))
    zero = w.constant(np.array(0, np.int64), "zero")
    limit, condition = (_scalar(optional(node, index), w) for index in (0, 1))
    if not limit and sliced:
        limit = _scalar_name(w.emit("Shape", [w.name(sliced[0])], start=0, end=1), w)
    w.emit("Loop", [limit, condition, *(w.name(value) for value in first), zero], outputs, body=written)


def _parts(values: Sequence[Value], *counts: int) -> list[list[Value]]:
    """`values` in parts of these lengths, and the rest."""
    left = list(values)
    parts = []
    for count in counts:
        parts.append(left[:count])
        left = left[count:]
    return [*parts, left]


def _known(value: Value) -> DType:
    if value.dtype is None:
        raise Unwritable(f"the element type of {value.name!r} in its body is not known")
    return value.dtype


def _formal(name: str, kind: int, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _scalar(value: Value | None, w: Writer) -> str:
    return "" if value is None else _scalar_name(w.name(value), w)


def _scalar_name(name: str, w: Writer) -> str:
    return w.emit("Reshape", [name, w.integers([])])


def _call(node: Node, w: Writer) -> None:
    """A node that the model's own operators compute is written as these."""
    function = node.attrs["function"]
    if not isinstance(function, ForeignFunction | LoopFunction):
        raise Unwritable("a Python function computes it")
    fragment = function.fragment
    _check(fragment, w)
    given = [value for value in node.inputs if value is not None]
    names = dict(zip(fragment.inputs, map(w.name, given), strict=True))
    names |= dict(zip(fragment.outputs, map(w.name, node.outputs), strict=True))
    for proto in fragment.nodes:
        for made in filter(None, proto.output):
            if made not in names:
                names[made] = w.fresh(made)
    for proto in fragment.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(proto)
        _rename(copy, names)
        w.nodes.append(copy)
    for each in fragment.functions:
        w.functions[each.domain, each.name] = each


def _check(fragment: Fragment, w: Writer) -> None:
    """Raise Unwritable if the nodes are none of ONNX, or of another operator set than the file."""
    for proto in fragment.nodes:
        domain = domain_of(proto.domain)
        version = fragment.versions.get(domain, 1)
        if proto.op_type == FROM_BYTES:
            raise Unwritable("it reads an input of small elements")
        if not domain and version != w.version:
            raise Unwritable(f"{proto.op_type} is of operator set {version}, the file of {w.version}")
        if domain and w.domains.setdefault(domain, version) != version:
            raise Unwritable(f"domain {domain} is used in versions {version} and {w.domains[domain]}")


def _rename(proto: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give what `proto` and its bodies read and make these names; names that bodies define hide those outside."""
    for side in (proto.input, proto.output):
        for index, name in enumerate(side):
            side[index] = names.get(name, name)
    for graph in graphs_of(proto):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for node in graph.node for name in node.output}
        left = {name: other for name, other in names.items() if name not in own}
        for node in graph.node:
            _rename(node, left)
        for value in graph.output:
            value.name = left.get(value.name, value.name)


WRITERS: dict[str, Write] = {
    **SCALARS,
    **TENSORS,
    **LAYERS,
    **RECURRENT,
    **MICROSOFT,
    "branch": _branch,
    "call": _call,
    "loop": _loop,
}
"""Core op -> the function that writes a node of it."""
