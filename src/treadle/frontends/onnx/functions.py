"""Model-local functions: found by name, called no deeper than the limit, never in a circle."""

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import AttributeProto

from treadle.errors import LimitError
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.names import graphs_of
from treadle.frontends.onnx.opsets import domain_of, title

MAX_CALL_DEPTH = 100

Key = tuple[str, str, str]
"""Domain, name, overload."""

Functions = dict[Key, onnx.FunctionProto]


def key_of(node: onnx.NodeProto) -> Key:
    """The key of the function that `node` calls, if there is one."""
    return (domain_of(node.domain), node.op_type, node.overload)


def index(functions: Iterable[onnx.FunctionProto]) -> Functions:
    """The functions by key, each behind those it calls.

    Raises Fault for two of one name and for functions that call each other in a circle, LimitError
    for calls nested deeper than 100.
    """
    found: Functions = {}
    for function in functions:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in found:
            raise Fault(f"function {_text(key)} is defined twice")
        found[key] = function
    return _callees_first(found)


def _text(key: Key) -> str:
    return f"{title(key[0])}.{key[1]}" + (f":{key[2]}" if key[2] else "")


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    waiting = [iter(nodes)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        yield node
        waiting.extend(iter(graph.node) for graph in graphs_of(node))


def _callees_first(functions: Functions) -> Functions:
    calls = {
        key: list(dict.fromkeys(k for k in map(key_of, _nodes(function.node)) if k in functions))
        for key, function in functions.items()
    }
    depth: dict[Key, int] = {}
    for start in functions:
        path = [] if start in depth else [(start, iter(calls[start]))]
        while path:
            key, rest = path[-1]
            for callee in rest:
                names = [entry for entry, _ in path]
                if callee in names:
                    circle = [*names[names.index(callee) :], callee]
                    raise Fault("functions call each other in a circle: " + " -> ".join(map(_text, circle)))
                if callee not in depth:
                    path.append((callee, iter(calls[callee])))
                    break
            else:
                depth[key] = 1 + max((depth[callee] for callee in calls[key]), default=0)
                path.pop()
                if depth[key] > MAX_CALL_DEPTH:
                    raise LimitError(
                        f"calls of function {_text(key)} nest {depth[key]} deep; at most {MAX_CALL_DEPTH} are allowed"
                    )
    return {key: functions[key] for key in sorted(functions, key=depth.__getitem__)}


def attributes_of(function: onnx.FunctionProto, call: onnx.NodeProto) -> dict[str, AttributeProto]:
    """The values of a function's attributes in one call: given ones, else defaults."""
    found = {attribute.name: attribute for attribute in function.attribute_proto}
    found.update({attribute.name: attribute for attribute in call.attribute})
    return found


def resolved(node: onnx.NodeProto, values: Mapping[str, AttributeProto]) -> onnx.NodeProto:
    """A copy of a function's node in which references to the function's attributes are replaced.

    A reference to an attribute that has no value is dropped: the node's own default holds.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    waiting = [copy]
    while waiting:
        current = waiting.pop()
        kept = []
        for attribute in current.attribute:
            if attribute.ref_attr_name:
                given = values.get(attribute.ref_attr_name)
                if given is None:
                    continue
                value = AttributeProto()
                value.CopyFrom(given)
                value.name = attribute.name
                kept.append(value)
            else:
                kept.append(attribute)
        if any(attribute.ref_attr_name for attribute in current.attribute):
            attributes = [_copied(attribute) for attribute in kept]
            del current.attribute[:]
            current.attribute.extend(attributes)
        waiting.extend(inner for graph in graphs_of(current) for inner in graph.node)
    return copy


def _copied(attribute: AttributeProto) -> AttributeProto:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    return copy
