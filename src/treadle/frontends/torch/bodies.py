"""Bodies of branches and loops of scripts as graphs: what they read of the code around them, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.frontends.core_bodies import is_known
from treadle.frontends.deferred_nodes import given
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.graphs import add_outputs
from treadle.frontends.torch.made_bodies import key_of_forms, key_of_held
from treadle.frontends.torch.scalars import scalar
from treadle.frontends.torch.stacks import Joined, Stack, stacked
from treadle.frontends.torch.tensor import Box, Missing
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.deferred import Build, DeferredNodes
from treadle.ops.op import Info
from treadle.ops.sizes import known_value

RunBlock = Callable[[Importer, Any, dict[str, Any], Sequence[Any], Sequence[str]], list[Any]]
"""(importer, block, values by name, arguments, names of lists) -> the block's results, then what it has appended to
each of the lists: a list or a Stack, empty if it has not changed; as `interpreter.run_block`."""


@dataclass(frozen=True, slots=True)
class CapturedBody:
    """A body that PyTorch has captured as a graph: in place of a block of a script."""

    module: Any
    operands: tuple[str, ...]
    """The names of the values that it takes."""

    def outputs(self) -> Sequence[Any]:
        """Returns what stands for its results."""
        found = next(node for node in self.module.graph.nodes if node.op == "output").args[0]
        return found if isinstance(found, list | tuple) else [found]


@dataclass(frozen=True, slots=True)
class Appended:
    """How what a body appends to a list lies in one value.

    Attributes:
        depth: Of the list that is appended, as of a Stack; 0 for tensors joined along their first axis.
        count: How many entries it has, if it is a list of tensors.
    """

    depth: int
    count: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Placeholder for the value of a tensor, of a number known only at run time or of a list, in a structure.

    Attributes:
        number: Of the value.
        kind: What has it. Those of int are the Python numbers that follow from open sizes.
        depth: That of a Stack, the rank of a Joined.
        count: That of a Joined: a number, or a hole.
    """

    number: int
    kind: type[Box | int | Joined | Number | Stack] = Box
    depth: int = 1
    count: Any = None


def with_holes(held: Any, values: list[Value], b: Builder | None = None) -> Any:
    """Returns `held` with a hole in place of each tensor, number and stack, and appends their values to `values`.

    With `b`, which adds nodes for these, Python numbers that follow from open sizes have holes too.
    """
    if b is not None and is_expression(held):
        values.append(b.number(held))
        return Hole(len(values) - 1, int)
    if isinstance(held, Joined):
        values.append(held.value)
        return Hole(len(values) - 1, Joined, held.rank, with_holes(held.count, values, b))
    if isinstance(held, Box | Number | Stack):
        values.append(held.read() if isinstance(held, Box) else held.value)
        return Hole(len(values) - 1, type(held), held.depth if isinstance(held, Stack) else 1)
    if isinstance(held, list):
        return [with_holes(entry, values, b) for entry in held]
    if isinstance(held, dict):
        return {key: with_holes(entry, values, b) for key, entry in held.items()}
    return held


def filled(held: Any, values: Sequence[Value], owner: str) -> Any:
    """Returns `held` with each hole replaced by its entry of `values`; `owner` is that of its tensors."""
    if isinstance(held, Hole):
        return _in_hole(held, values, owner)
    if isinstance(held, list):
        return [filled(entry, values, owner) for entry in held]
    if isinstance(held, dict):
        return {key: filled(entry, values, owner) for key, entry in held.items()}
    return held


def _in_hole(hole: Hole, values: Sequence[Value], owner: str) -> Any:
    value = values[hole.number]
    if hole.kind is Stack:
        return Stack(value, hole.depth)
    if hole.kind is Joined:
        return Joined(value, hole.depth, filled(hole.count, values, owner))
    if hole.kind is int:
        return scalar(value)
    return Box(value, owner=owner) if hole.kind is Box else Number(value)


def as_variable(b: Builder, held: Any) -> Any:
    """Returns a loop variable as one known only at run time: iterations may change it."""
    if isinstance(held, bool | int | float):
        return Number(b.constant(np.asarray(held, np.float32 if isinstance(held, float) else None)))
    if is_expression(held):
        return Number(b.number(held))
    if isinstance(held, list | dict):
        raise Unsupported("a loop whose end depends on data carries a list; carry a tensor")
    return held


@dataclass(frozen=True, slots=True)
class Body:
    """A body. `build` returns its graph for inputs of which something is known. It raises as a Template's."""

    name: str
    inputs: tuple[Value, ...]
    build: Build

    def later(self, graph: Graph) -> DeferredNodes:
        """Returns it as nodes that are made once the shapes of its operands are known. `graph` is it for some."""
        return DeferredNodes(self.build, [value.known_dtype for value in graph.outputs])

    def template(self, graph: Graph) -> Template:
        """Returns it as a Template with the names and dtypes of the outputs of `graph`."""
        outputs = tuple(Value(value.name, value.dtype) for value in graph.outputs)
        return Template(self.name, self.inputs, outputs, lambda forms: self.build([Info(*form) for form in forms]))


def known_info(b: Builder, value: Value) -> Info:
    """Returns what is known of `value`. Raises NeedsShapeError if its shape depends on data."""
    return Info(value.known_dtype, b.shape(value), None if value.data is not None else known_value(value))


class Scope:
    """The values outside a body that the body reads, and such bodies."""

    def __init__(self, importer: Importer, env: dict[str, Any], blocks: Sequence[Any], run_block: RunBlock) -> None:
        self._importer = importer
        self._run_block = run_block
        self.follows_data = importer.follows_data
        self.values: list[Value] = []
        names = sorted({name for block in blocks for name in _names_read(block)} & env.keys())
        self._held = {name: with_holes(env[name], self.values, importer.b) for name in names}
        self.missing = any(isinstance(env[name], Missing) for name in names)

    def key(self, *more: Any) -> Hashable:
        """Returns a key for what is made of its bodies: of the values that they read, and of `more`.

        None if no size depends on data: then nothing is kept. Raises NeedsShapeError as infos().
        """
        infos = self.infos()
        return (key_of_held(self._held), key_of_forms(infos), *more) if self.follows_data else None

    def infos(self) -> list[Info]:
        """Returns what is known of each value. Raises NeedsShapeError if a shape depends on data."""
        return [known_info(self._importer.b, value) for value in self.values]

    def body(
        self,
        name: str,
        block: Any,
        arguments: Sequence[Any],
        extra: int,
        structure: list[Any],
        appended: dict[str, Appended] | None = None,
    ) -> Body:
        """Returns the body `block`.

        Its inputs are the values of the scope, then `extra` ones that fill the holes of `arguments`. Building it
        stores the structure of the body's results, with holes, in `structure`. With `appended` the body may append
        tensors, or lists of them, to each list: these follow the results, one value for each list, whose forms are
        stored there by the names of the lists.
        """
        count = len(self.values)
        inputs = tuple(Value(f"in_{number}") for number in range(count + extra))

        def build(infos: Sequence[Info]) -> Graph:
            graph, faults = Graph(name), Faults()
            inner = self._importer.inner(graph, faults, follows_data=self.follows_data)
            operands = [given(inner.b, value.name, info) for value, info in zip(inputs, infos, strict=True)]
            owner = "a tensor of the code around its branch or loop"
            env = {known: filled(held, operands[:count], owner) for known, held in self._held.items()}
            lists = [known for known, held in env.items() if isinstance(held, list | dict)]
            results = self._run_block(inner, block, env, filled(list(arguments), operands[count:], owner), lists)
            added = {
                known: more for known, more in zip(lists, results[len(results) - len(lists) :], strict=True) if more
            }
            results = results[: len(results) - len(lists)]
            if added and appended is None:
                raise Unsupported("a body that data decide about changes a list or dictionary of the code around it")
            if appended is not None:
                stacks = {known: _stacked(inner.b, more) for known, more in added.items()}
                appended.update((known, form) for known, (_, form) in stacks.items())
                results = [*results, *(Box(value) for value, _ in stacks.values())]
            faults.raise_all(name)
            made: list[Value] = []
            structure[:] = [with_holes(as_result(inner.b, result), made) for result in results]
            add_outputs(inner, [f"out_{n}" for n in range(len(made))], [Box(value) for value in made])
            faults.raise_all(name)
            return graph

        return Body(name, inputs, build)


def _stacked(b: Builder, added: Any) -> tuple[Value, Appended]:
    """Returns what a body has appended to a list as one value, and its form."""
    if isinstance(added, list) and all(isinstance(entry, Box) for entry in added):
        values = [entry.read() for entry in added]
        if not all(map(is_known, values)):
            return values[0] if len(values) == 1 else b.add("concat", *values, axis=0), Appended(0, len(added))
    stack = added if isinstance(added, Stack) else stacked(b, added)
    return stack.value, Appended(stack.depth, 1 if isinstance(added, Stack) else len(added))


def as_result(b: Builder, result: Any) -> Any:
    """Returns a body's result; a Python number becomes a value, so that branches may differ in it."""
    return as_variable(b, result) if isinstance(result, bool | int | float) or is_expression(result) else result


def _names_read(body: Any) -> set[str]:
    """Returns the names that a body, a block of a script or a CapturedBody, reads and does not define."""
    return set(body.operands) if isinstance(body, CapturedBody) else _free(body)


def _free(block: Any) -> set[str]:
    made = {value.debugName() for value in block.inputs()}
    read: set[str] = set()
    for node in block.nodes():
        read |= {value.debugName() for value in node.inputs()} - made
        for inner in node.blocks():
            read |= _free(inner) - made
        made |= {value.debugName() for value in node.outputs()}
    return read | ({value.debugName() for value in block.outputs()} - made)


def loop_body(graph: Graph, captured: int) -> Graph:
    """Returns the body of a loop, whose first `captured` inputs are those of its scope, as that of a core loop."""
    graph.inputs = [*graph.inputs[captured:], *graph.inputs[:captured]]
    again = graph.outputs[0].producer
    assert again is not None
    if again.operand(0).data is not None:
        graph.outputs[0] = again.operand(0)
    return graph


def number_value(b: Builder, number: Any, dtype: DType) -> Value:
    """Returns a number as a value of rank 0."""
    return b.cast(number.value, dtype) if isinstance(number, Number) else b.scalar(number, dtype)


def next_hole(held: Any) -> Any:
    """Returns the hole after `held`; what is no hole as it is."""
    return replace(held, number=held.number + 1, count=next_hole(held.count)) if isinstance(held, Hole) else held


def same_structure(one: Any, other: Any) -> bool:
    """Returns True if two structures have holes of one kind in the same places, and equal Python values."""
    if isinstance(one, Hole) and isinstance(other, Hole):
        return (one.kind, one.depth) == (other.kind, other.depth)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_structure, one, other))
    return type(one) is type(other) and bool(one == other)
