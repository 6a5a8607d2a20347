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

    `reads` are those that it is given as operands, `lists` the lists among these, of which the operands are the items.
    The others that it reads are `constants`.
    """

    title: str
    body: Body
    reads: tuple[Ref, ...]
    lists: Mapping[Ref, Items]
    constants: Mapping[Ref, Value]
    wanted: tuple[Ref, ...]
    translation: Translates

    def build(self, infos: Sequence[Info]) -> Graph:
        """Return the graph for operands of which this is known. Raises ModelError if they do not fit."""
        faults = Faults()
        inner = self.translation.inner(faults)
        e = inner.emitter
        env = dict(self.constants)
        for ref, info in zip(self.reads, infos, strict=True):
            value = given(e, tensor_name(ref), info)
            items = self.lists.get(ref)
            if items is not None:
                node = Node(ref[0], "TensorListFromTensor", [])
                value = inner.lists.add(e, node, replace(items, tensor=value, count=value.static_shape[0]))
            env[ref] = value
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
    lists = {ref: translation.lists.of(env[ref]) for ref in reads if env[ref].dtype is dtypes.string}
    known = {ref: items for ref, items in lists.items() if items is not None and items.tensor is not None}
    constants = {ref: env[ref] for ref in reads if env[ref].data is not None}
    if len(known) < len(set(lists).difference(constants)):
        return False
    operands = [ref for ref in reads if ref not in constants]
    wanted = tuple(ref for ref, _ in results)
    part = DeferredPart(title, body, tuple(operands), known, constants, wanted, translation)
    places = [operands.index(ref) for ref in numbers]
    nodes = DeferredNodes(part.build, [dtype for _, dtype in results], places)
    values = [known[ref].tensor if ref in known else env[ref] for ref in operands]
    made = add_deferred(translation.emitter, [value for value in values if value is not None], nodes)
    env.update(zip(wanted, made, strict=True))
    return True


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
