"""Bodies of branches and loops of scripts as graphs: what they read of the code around them, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.exported import add_outputs, start_graph
from treadle.frontends.torch.stacks import Stack, stacked
from treadle.frontends.torch.tensor import Box, Missing
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value

RunBlock = Callable[[Importer, Any, dict[str, Any], Sequence[Any]], list[Any]]
"""(importer, block, values by name, arguments) -> the block's results, as `interpreter.run_block`."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Placeholder for the value of a tensor, of a number known only at run time or of a stack, in a structure."""

    number: int
    kind: type[Box | Number | Stack] = Box
    depth: int = 1


def with_holes(held: Any, values: list[Value]) -> Any:
    """Returns `held` with a hole in place of each tensor, number and stack, and appends their values to `values`."""
    if isinstance(held, Box | Number | Stack):
        values.append(held.read() if isinstance(held, Box) else held.value)
        return Hole(len(values) - 1, type(held), held.depth if isinstance(held, Stack) else 1)
    if isinstance(held, list):
        return [with_holes(entry, values) for entry in held]
    if isinstance(held, dict):
        return {key: with_holes(entry, values) for key, entry in held.items()}
    return held


def filled(held: Any, values: Sequence[Value], owner: str) -> Any:
    """Returns `held` with each hole replaced by its entry of `values`; `owner` is that of its tensors."""
    if isinstance(held, Hole):
        value = values[held.number]
        if held.kind is Stack:
            return Stack(value, held.depth)
        return Box(value, owner=owner) if held.kind is Box else Number(value)
    if isinstance(held, list):
        return [filled(entry, values, owner) for entry in held]
    if isinstance(held, dict):
        return {key: filled(entry, values, owner) for key, entry in held.items()}
    return held


def as_variable(b: Builder, held: Any) -> Any:
    """Returns a loop variable as one known only at run time: iterations may change it."""
    if isinstance(held, bool | int | float):
        return Number(b.constant(np.asarray(held, np.float32 if isinstance(held, float) else None)))
    if is_expression(held):
        return Number(b.number(held))
    if isinstance(held, list | dict):
        raise Unsupported("a loop whose end depends on data carries a list; carry a tensor")
    return held


class Scope:
    """The values outside a body that the body reads, and the Templates of such bodies."""

    def __init__(self, importer: Importer, env: dict[str, Any], blocks: Sequence[Any], run_block: RunBlock) -> None:
        self._importer = importer
        self._run_block = run_block
        self.values: list[Value] = []
        names = sorted({name for block in blocks for name in _free(block)} & env.keys())
        self._held = {name: with_holes(env[name], self.values) for name in names}
        self.missing = any(isinstance(env[name], Missing) for name in names)

    def forms(self) -> list[Form]:
        """Returns dtype and shape of each value. Raises Unsupported if a shape depends on data."""
        return [(value.known_dtype, self._importer.b.shape(value)) for value in self.values]

    def template(
        self,
        name: str,
        block: Any,
        arguments: Sequence[Any],
        extra: int,
        structure: list[Any],
        appended: dict[str, int] | None = None,
    ) -> Template:
        """Returns the Template of the body `block`.

        Its inputs are the values of the scope, then `extra` ones that fill the holes of `arguments`. Building it
        stores the structure of the body's results, with holes, in `structure`. With `appended` the body may append
        tensors, or lists of them, to each list: these follow the results, one Stack for each list, whose depths are
        stored there by the names of the lists.
        """
        count = len(self.values)
        inputs = tuple(Value(f"in_{number}") for number in range(count + extra))

        def build(forms: Sequence[Form]) -> Graph:
            graph, given = start_graph(name, inputs, (), forms)
            faults = Faults()
            inner = Importer(graph, faults, fx.run)
            owner = "a tensor of the code around its branch or loop"
            env = {known: filled(held, given[:count], owner) for known, held in self._held.items()}
            before = {known: _entries(held) for known, held in env.items()}
            around = [held for held in env.values() if isinstance(held, list)]
            results = self._run_block(inner, block, env, filled(list(arguments), given[count:], owner))
            changed = [known for known, entries in before.items() if _entries(env[known]) != entries]
            if changed and appended is None:
                raise Unsupported("a body that data decide about changes a list or dictionary of the code around it")
            if appended is not None:
                stacks = {known: _appended(inner.b, env[known], before[known], around) for known in changed}
                appended.update((known, stack.depth) for known, stack in stacks.items())
                results = [*results, *(Box(stack.value) for stack in stacks.values())]
            faults.raise_all(name)
            made: list[Value] = []
            structure[:] = [with_holes(_result(inner.b, result), made) for result in results]
            add_outputs(inner, [f"out_{n}" for n in range(len(made))], [Box(value) for value in made])
            faults.raise_all(name)
            return graph

        return Template(name, inputs, (), build)


def _entries(held: Any) -> Any:
    """Returns what identifies the entries of lists and dictionaries in `held`, and of those in them."""
    if isinstance(held, list):
        return [_entries(entry) for entry in held]
    if isinstance(held, dict):
        return {key: _entries(entry) for key, entry in held.items()}
    return id(held)


def _appended(b: Builder, held: Any, before: Any, around: Sequence[list[Any]]) -> Stack:
    """Returns what a body has appended to a list, whose entries were `before`, as a Stack.

    Raises Unsupported if it has changed the list otherwise, or appended one of the lists `around` it.
    """
    if isinstance(held, Stack) and before == []:
        return held
    if not isinstance(held, list) or not isinstance(before, list) or _entries(held[: len(before)]) != before:
        raise Unsupported("a body changes a list or dictionary of the code around it by more than appending to it")
    added = held[len(before) :]
    if any(entry is other for entry in added for other in around):
        raise Unsupported("a body appends a list of the code around it, which may change later")
    return stacked(b, added)


def _result(b: Builder, result: Any) -> Any:
    """Returns a body's result; a Python number becomes a value, so that branches may differ in it."""
    return as_variable(b, result) if isinstance(result, bool | int | float) or is_expression(result) else result


def _free(block: Any) -> set[str]:
    """Returns the names that `block` reads and does not define."""
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
    return replace(held, number=held.number + 1) if isinstance(held, Hole) else held


def same_structure(one: Any, other: Any) -> bool:
    """Returns True if two structures have holes of one kind in the same places, and equal Python values."""
    if isinstance(one, Hole) and isinstance(other, Hole):
        return (one.kind, one.depth) == (other.kind, other.depth)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_structure, one, other))
    return type(one) is type(other) and bool(one == other)
