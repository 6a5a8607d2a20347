"""Variables of SavedModels: constants with the values of a checkpoint.

Which variable has which tensor of the checkpoint says the graph itself: its part that restores a checkpoint assigns
the results of RestoreV2 to variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from treadle import dtypes
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.tensorflow.body import Body, Library
from treadle.frontends.tensorflow.node import FunctionName, Node, Ref
from treadle.ops.op import Array

HANDLES = ("VarHandleOp", "Variable", "VariableV2")
ASSIGNMENTS = (
    "Assign", "AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp", "AssignVariableOp",
    "ResourceScatterAdd", "ResourceScatterDiv", "ResourceScatterMax", "ResourceScatterMin", "ResourceScatterMul",
    "ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdUpdate", "ResourceScatterSub",
    "ResourceScatterUpdate", "ResourceStridedSliceAssign", "ScatterAdd", "ScatterNdUpdate", "ScatterSub",
    "ScatterUpdate",
)  # fmt: skip
_SAME = ("Identity", "IdentityN", "ReadVariableOp")


def with_values(
    body: Body, needed: Iterable[Node], array_of: Callable[[str], Array], faults: Faults
) -> dict[str, Node]:
    """Return a constant for each variable among `needed`, by the name of its node.

    Args:
        body: All nodes of the graph, calls expanded.
        needed: The nodes that outputs depend on.
        array_of: Returns the tensor of a key of the checkpoint. Raises Fault.
        faults: Gets what is wrong, also where the checkpoint has no value.
    """
    keys = _keys(body)
    found: dict[str, Node] = {}
    for node in needed:
        if node.op not in HANDLES:
            continue
        place = f"variable {node.name!r}"
        if node.name not in keys:
            faults.add(place, "no part of the graph restores it from the checkpoint")
            continue
        try:
            found[node.name] = Node(node.name, "Const", [], [], {"value": _checked(node, array_of(keys[node.name]))})
        except Fault as fault:
            faults.add(place, fault)
    return found


def _checked(node: Node, array: Array) -> Array:
    """Return `array`, the value of a variable. Raises Fault if it has another shape or element type."""
    shape, dtype = node.attr("shape"), node.dtype("dtype")
    fits = shape is None or (
        len(shape) == array.ndim and all(size in (None, given) for size, given in zip(shape, array.shape, strict=True))
    )
    if not fits or dtypes.from_numpy(array.dtype) != dtype:
        got = f"{dtypes.from_numpy(array.dtype)}{list(array.shape)}"
        raise Fault(f"it is {dtype}{'' if shape is None else list(shape)}, but the checkpoint has {got}")
    return array


def _keys(body: Body) -> dict[str, str]:
    """Return the key of the checkpoint for each variable that the graph restores, by the name of its node."""
    found: dict[str, str] = {}
    texts = cache(lambda ref: _texts(ref, body))
    for node in body.nodes.values():
        if node.op not in ("Assign", "AssignVariableOp") or len(node.inputs) < 2:
            continue
        handle, (source, index) = (_origin(ref, body) for ref in node.inputs[:2])
        restore = body.nodes.get(source)
        if handle[0] not in body.nodes or restore is None or restore.op != "RestoreV2" or len(restore.inputs) < 3:
            continue
        names, slices = map(texts, restore.inputs[1:3])
        if index < len(names) and not (index < len(slices) and slices[index]):
            found[handle[0]] = names[index]
    return found


def _origin(ref: Ref, body: Body) -> Ref:
    """Return the tensor that `ref` is a copy of."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref[0])
        if node is None or node.op not in _SAME or ref[1] >= len(node.inputs):
            return ref
        ref = node.inputs[ref[1]]
    return ref


def _texts(ref: Ref, body: Body) -> list[str]:
    """Return the texts of a constant; none for another node."""
    node = body.nodes.get(ref[0])
    array = node.attr("value") if node is not None and node.op == "Const" else None
    return [] if array is None else [str(each) for each in array.reshape(-1)]


def check_no_assignments(body: Body, outputs: Iterable[Ref], library: Library, faults: Faults) -> None:
    """Add a fault for each op that assigns a variable when `outputs` are computed.

    Functions run all of their ops with effects, also those that no result depends on.
    """
    reached = _closure(body.nodes, [name for name, _ in outputs])
    for node in _with_functions(reached, library):
        if node.op in ASSIGNMENTS:
            faults.add(node.place, Unsupported("it assigns a variable; treadle runs inference, and keeps no variables"))


def _closure(nodes: Mapping[str, Node], names: list[str]) -> list[Node]:
    """Return the nodes that run before those called `names`, and these."""
    found: dict[str, Node] = {}
    while names:
        name = names.pop()
        if name in found or name not in nodes:
            continue
        found[name] = nodes[name]
        names += [name for name, _ in nodes[name].inputs] + nodes[name].controls
    return list(found.values())


def _with_functions(nodes: Iterable[Node], library: Library) -> Iterator[Node]:
    """Yield `nodes` and those of the functions that they call, at any depth."""
    pending, visited = list(nodes), set[str]()
    while pending:
        node = pending.pop()
        yield node
        for name in {node.op, *_functions(node)} & library.names - visited:
            visited.add(name)
            pending.extend(library.body(name).nodes.values())


def _functions(node: Node) -> Iterator[str]:
    """Yield the names of the functions among the attributes of `node`."""
    for value in node.attrs.values():
        each: Any
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, FunctionName):
                yield each.text
