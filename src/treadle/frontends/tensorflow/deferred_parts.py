"""Parts of bodies whose shapes depend on data, as core nodes that are made once these are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from treadle import dtypes
from treadle.frontends.deferred_nodes import add_deferred, given
from treadle.frontends.faults import Faults
from treadle.frontends.tensorflow.body import Body
from treadle.frontends.tensorflow.core_lists import Items, ListItems
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.list_parts import ListParts
from treadle.frontends.tensorflow.node import Node, Ref, tensor_name
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info
from treadle.ops.sizes import may_be_numbers

MAKES_LISTS = ("TensorListReserve", "EmptyTensorList", "TensorArrayV3")
"""Ops that make lists without items."""


class Translates(Protocol):
    """Translates bodies into the graph of an emitter, as `translate.Translation` does."""

    emitter: Emitter
    lists: ListItems

    def run(self, body: Body, env: dict[Ref, Value], wanted: Sequence[Ref]) -> None:
        """Add the tensors that `wanted` depend on to `env`."""
        ...

    def inner(self, faults: Faults) -> Translates:
        """Return what translates a part of the same body into a graph of its own."""
        ...

    def finish(self, values: Sequence[Value]) -> None:
        """Make `values` the outputs of the graph."""
        ...


@dataclass(frozen=True, slots=True)
class DeferredPart:
    """The part of a body that computes `wanted` from tensors that are there already.

    `reads` are those that it is given as operands. `lists` are the lists among these, of which the operands are the
    items, or the tensors that a list is. The others that it reads are `constants`.
    """

    title: str
    body: Body
    reads: tuple[Ref, ...]
    lists: Mapping[Ref, Items | ListParts]
    constants: Mapping[Ref, Value]
    wanted: tuple[Ref, ...]
    translation: Translates

    def build(self, infos: Sequence[Info]) -> Graph:
        """Return the graph for operands of which this is known. Raises ModelError if they do not fit."""
        faults = Faults()
        inner = self.translation.inner(faults)
        e = inner.emitter
        env = dict(self.constants)
        rest = iter(infos)
        for ref in self.reads:
            held = self.lists.get(ref)
            count = len(held.operands) if isinstance(held, ListParts) else 1
            values = [given(e, tensor_name(ref), next(rest)) for _ in range(count)]
            node = Node(ref[0], "TensorListFromTensor", [])
            env[ref] = values[0] if held is None else _list(inner, node, held, values)
        inner.run(self.body, env, self.wanted)
        faults.raise_all(self.title)
        inner.finish([env[ref] for ref in self.wanted])
        return e.graph


def add_deferred_part(
    translation: Translates,
    title: str,
    body: Body,
    env: dict[Ref, Value],
    names: set[str],
    results: Sequence[tuple[Ref, dtypes.DType]],
    numbers: Sequence[Ref],
) -> bool:
    """Add one node for the nodes of `body` called `names`, and its results to `env`; False if it has to be Python.

    `results` are the tensors that something else reads, with their dtypes. The elements of the tensors `numbers` decide
    sizes.
    """
    if any(dtype is dtypes.string for _, dtype in results):
        return False
    names = _with_makers_of_lists(body, env, names)
    reads = dict.fromkeys(ref for name in sorted(names) for ref in body.nodes[name].inputs if ref[0] not in names)
    lists = [ref for ref in reads if env[ref].dtype is dtypes.string]
    known = {ref: held for ref in lists if (held := _held(translation.lists, env[ref])) is not None}
    constants = {ref: env[ref] for ref in reads if env[ref].data is not None}
    if len(known) < len(set(lists).difference(constants)):
        return False
    operands = [ref for ref in reads if ref not in constants]
    wanted = tuple(ref for ref, _ in results)
    part = DeferredPart(title, body, tuple(operands), known, constants, wanted, translation)
    values: list[Value] = []
    first: dict[Ref, int] = {}
    for ref in operands:
        first[ref] = len(values)
        values += _values(known[ref]) if ref in known else [env[ref]]
    nodes = DeferredNodes(part.build, [dtype for _, dtype in results], [first[ref] for ref in numbers])
    made = add_deferred(translation.emitter, values, nodes)
    env.update(zip(wanted, made, strict=True))
    return True


def _held(lists: ListItems, value: Value) -> Items | ListParts | None:
    """Return the items of a list, if some were written, or the tensors that it is."""
    items = lists.of(value)
    return items if items is not None and items.tensor is not None else lists.parts_of(value)


def _values(held: Items | ListParts) -> list[Value]:
    if isinstance(held, ListParts):
        return list(held.operands)
    assert held.tensor is not None
    return [held.tensor]


def _list(inner: Translates, node: Node, held: Items | ListParts, values: Sequence[Value]) -> Value:
    """Return a list like `held` of these values."""
    if isinstance(held, ListParts):
        return inner.lists.add_parts(inner.emitter, node, held.of(values))
    items = replace(held, tensor=values[0], count=values[0].static_shape[0])
    return inner.lists.add(inner.emitter, node, items)


def _with_makers_of_lists(body: Body, env: Mapping[Ref, Value], names: set[str]) -> set[str]:
    """Return `names` with those of the nodes that make the lists without items which they read."""
    found = set(names)
    for name in names:
        for maker, _ in body.nodes[name].inputs:
            node = body.nodes.get(maker)
            if node is not None and node.op in MAKES_LISTS and (maker, 0) in env:
                found.add(maker)
    return found


def asked_operand(values: Sequence[Value], value: Value | None) -> int | None:
    """Return which of the operands `values` of a rule `value` was computed from, if the rule asked for its elements.

    None if there is no such operand, or its elements cannot decide sizes.
    """
    while value is not None:
        if value in values:
            return values.index(value) if may_be_numbers(value) else None
        made = value.producer
        operands = [] if made is None else [each for each in made.inputs if each is not None and each.data is None]
        value = operands[0] if len(operands) == 1 else None
    return None
