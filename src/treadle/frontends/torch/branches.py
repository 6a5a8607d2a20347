"""Branches and loops whose conditions depend on data.

Each becomes a branch or loop of the native core where its results have known shapes, which a loop keeps, and no body
needs Python. Else it becomes one `call` node, which runs its bodies as sessions of their own, compiled from Templates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.exported import add_outputs, start_graph
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.tensor import MISSING, Box, Missing
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.op import Array
from treadle.runtime.control import check_run

_READS_DATA = frozenset({
    "aten::Bool", "aten::Float", "aten::FloatImplicit", "aten::Int", "aten::IntImplicit", "aten::ScalarImplicit",
    "aten::item",
})  # fmt: skip

_ANY_NUMBER = 2**63 - 1
"""The limit of a `while` loop in TorchScript."""

RunBlock = Callable[[Importer, Any, dict[str, Any], Sequence[Any]], list[Any]]
"""(importer, block, values by name, arguments) -> the block's results, as `interpreter.run_block`."""


def condition_depends_on_data(body: Any) -> bool:
    """Returns True if the loop condition that `body` returns may depend on the elements of a tensor."""
    seen: set[str] = set()

    def depends(value: Any) -> bool:
        node, name = value.node(), value.debugName()
        if name in seen:
            return False
        seen.add(name)
        if node.kind() in _READS_DATA and any("Tensor" in str(operand.type()) for operand in node.inputs()):
            return True
        inner = [output for block in node.blocks() for output in block.outputs()]
        return node.kind() != "prim::Param" and any(map(depends, (*node.inputs(), *inner)))

    return depends(next(iter(body.outputs())))


@dataclass(frozen=True, slots=True)
class _Hole:
    """Placeholder for a tensor, or for a number known only at run time, in a structure of Python values."""

    number: int
    is_number: bool


def _with_holes(held: Any, values: list[Value]) -> Any:
    """Returns `held` with a hole in place of each tensor, and appends the tensors' values to `values`."""
    if isinstance(held, Box | Number):
        values.append(held.read() if isinstance(held, Box) else held.value)
        return _Hole(len(values) - 1, isinstance(held, Number))
    if isinstance(held, list):
        return [_with_holes(entry, values) for entry in held]
    if isinstance(held, dict):
        return {key: _with_holes(entry, values) for key, entry in held.items()}
    return held


def _filled(held: Any, values: Sequence[Value], owner: str) -> Any:
    """Returns `held` with each hole replaced by its entry of `values`."""
    if isinstance(held, _Hole):
        value = values[held.number]
        return Number(value) if held.is_number else Box(value, owner=owner)
    if isinstance(held, list):
        return [_filled(entry, values, owner) for entry in held]
    if isinstance(held, dict):
        return {key: _filled(entry, values, owner) for key, entry in held.items()}
    return held


def _carried(b: Builder, held: Any) -> Any:
    """Returns a loop variable as one known only at run time: iterations may change it."""
    if isinstance(held, bool | int | float):
        return Number(b.constant(np.asarray(held, np.float32 if isinstance(held, float) else None)))
    if is_expression(held):
        return Number(b.number(held))
    if isinstance(held, list | dict):
        raise Unsupported("a loop whose end depends on data carries a list; carry a tensor")
    return held


class _Scope:
    """The values outside a body that the body reads, and the Templates of such bodies."""

    def __init__(self, importer: Importer, env: dict[str, Any], blocks: Sequence[Any], run_block: RunBlock) -> None:
        self._importer = importer
        self._run_block = run_block
        self.values: list[Value] = []
        names = sorted({name for block in blocks for name in _free(block)} & env.keys())
        self._held = {name: _with_holes(env[name], self.values) for name in names}
        self.missing = any(isinstance(env[name], Missing) for name in names)

    def forms(self) -> list[Form]:
        """Returns dtype and shape of each value. Raises Unsupported if a shape depends on data."""
        return [(value.known_dtype, self._importer.b.shape(value)) for value in self.values]

    def template(self, name: str, block: Any, arguments: Sequence[Any], extra: int, structure: list[Any]) -> Template:
        """Returns the Template of the body `block`.

        Its inputs are the values of the scope, then `extra` ones that fill the holes of `arguments`. Building it
        stores the structure of the body's results, with holes, in `structure`.
        """
        count = len(self.values)
        inputs = tuple(Value(f"in_{number}") for number in range(count + extra))

        def build(forms: Sequence[Form]) -> Graph:
            graph, given = start_graph(name, inputs, (), forms)
            faults = Faults()
            inner = Importer(graph, faults, fx.run)
            owner = "a tensor of the code around its branch or loop"
            env = {known: _filled(held, given[:count], owner) for known, held in self._held.items()}
            before = {known: _entries(held) for known, held in env.items()}
            results = self._run_block(inner, block, env, _filled(list(arguments), given[count:], owner))
            if any(_entries(env[known]) != entries for known, entries in before.items()):
                raise Unsupported("a body that data decide about changes a list or dictionary of the code around it")
            faults.raise_all(name)
            made: list[Value] = []
            structure[:] = [_with_holes(_result(inner.b, result), made) for result in results]
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


def _result(b: Builder, result: Any) -> Any:
    """Returns a body's result; a Python number becomes a value, so that branches may differ in it."""
    return _carried(b, result) if isinstance(result, bool | int | float) or is_expression(result) else result


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


class Branch(Nested):
    """Runs one of two bodies: the first array is the condition, the others are the inputs of either body."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if bool(arrays[0].reshape(())) else 1](arrays[1:])


class Repeat(Nested):
    """Runs a body repeatedly. Its arrays are the trip count, the first condition, the scope, the loop variables.

    The body takes the scope, the number of the iteration and the loop variables; it returns the next condition and
    the new loop variables.
    """

    def __init__(self, template: Template, scope: int) -> None:
        super().__init__(template)
        self._scope = scope

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        most, going = int(arrays[0].reshape(())), bool(arrays[1].reshape(()))
        scope, state = arrays[2 : 2 + self._scope], list(arrays[2 + self._scope :])
        step = 0
        while going and step < most:
            check_run()
            test, *state = self.bodies[0]([*scope, np.asarray(step), *state])
            going = bool(test.reshape(()))
            step += 1
        return state


def branch(
    importer: Importer, condition: Value, blocks: Sequence[Any], env: dict[str, Any], run_block: RunBlock
) -> list[Any]:
    """Adds an If whose condition depends on data, and returns its results."""
    b, name = importer.b, importer.b.name
    scope = _Scope(importer, env, blocks, run_block)
    if scope.missing:
        return [MISSING] * len(list(blocks[0].outputs()))
    found: list[list[Any]] = [[], []]
    templates = [
        scope.template(f"{name}.{word}", block, (), 0, structure)
        for word, block, structure in zip(("then", "else"), blocks, found, strict=True)
    ]
    graphs = [template.build(scope.forms()) for template in templates]
    templates = [_with_outputs(template, graph) for template, graph in zip(templates, graphs, strict=True)]
    if not _same_structure(found[0], found[1]):
        raise Unsupported("its branches, which data decide, return different structures")
    outputs = []
    for yes, no in zip(*(graph.outputs for graph in graphs), strict=True):
        if yes.dtype != no.dtype:
            raise Unsupported(f"its branches, which data decide, return {yes.dtype} and {no.dtype}; cast one of them")
        outputs.append((yes.known_dtype, yes.static_shape if yes.shape is not None and yes.shape == no.shape else None))
    yes, no = graphs
    if not yes.outputs:
        return list(found[0])
    if same_forms(yes.outputs, no.outputs) and not (needs_python(yes) or needs_python(no)):
        test = b.reshape(to_bool(b, condition), [])
        results = b.add_branch(test, scope.values, yes, no)
    else:
        results = b.add_call([condition, *scope.values], outputs, function=Branch(*templates), label="If")
    return [_filled(held, results, "") for held in found[0]]


def repeat(
    importer: Importer, loop: tuple[Any, Any, list[Any]], body: Any, env: dict[str, Any], run_block: RunBlock
) -> list[Any]:
    """Adds a Loop whose condition depends on data, and returns its results.

    `loop` is (trip count, first condition, loop variables).
    """
    b, name = importer.b, importer.b.name
    most, going, first = loop
    scope = _Scope(importer, env, [body], run_block)
    if scope.missing or any(isinstance(held, Missing) for held in first):
        return [MISSING] * len(first)
    values: list[Value] = []
    state = [_with_holes(_carried(b, held), values) for held in first]
    structure: list[Any] = []
    shifted = [_Hole(0, is_number=True), *(_shifted(held) for held in state)]
    template = scope.template(f"{name}.body", body, shifted, 1 + len(values), structure)
    forms: list[Form] = [(dtypes.i64, ()), *((value.known_dtype, b.shape(value)) for value in values)]
    graph = template.build([*scope.forms(), *forms])
    if not _same_structure(structure[1:], state):
        raise Unsupported("its loop, whose end depends on data, changes the structure of what it carries")
    outputs: list[Any] = []
    for value, result in zip(values, graph.outputs[1:], strict=True):
        if value.dtype != result.dtype:
            raise Unsupported(f"its loop carries {value.dtype} into an iteration and {result.dtype} out of it; cast it")
        outputs.append((value.known_dtype, value.static_shape if result.shape == value.shape else None))
    if same_forms(values, graph.outputs[1:]) and not needs_python(graph):
        limit = None if most == _ANY_NUMBER else _number(b, most, dtypes.i64)
        operands = [limit, _number(b, going, dtypes.boolean), *values, *scope.values]
        results = b.add_loop(operands, _loop_body(graph, len(scope.values)), len(values))
        return [_filled(held, results, "") for held in state]
    head = [_number(b, most, dtypes.i64), _number(b, going, dtypes.boolean)]
    function = Repeat(_with_outputs(template, graph), len(scope.values))
    results = b.add_call([*head, *scope.values, *values], outputs, function=function, label="Loop")
    return [_filled(held, results, "") for held in state]


def _loop_body(graph: Graph, captured: int) -> Graph:
    """Returns the body of `repeat` as that of a core loop: captured values come last."""
    graph.inputs = [*graph.inputs[captured:], *graph.inputs[:captured]]
    again = graph.outputs[0].producer
    assert again is not None
    if again.operand(0).data is not None:
        graph.outputs[0] = again.operand(0)
    return graph


def _with_outputs(template: Template, graph: Graph) -> Template:
    return replace(template, outputs=tuple(Value(value.name, value.dtype) for value in graph.outputs))


def _number(b: Builder, number: Any, dtype: dtypes.DType) -> Value:
    return b.cast(number.value, dtype) if isinstance(number, Number) else b.scalar(number, dtype)


def _shifted(held: Any) -> Any:
    return _Hole(held.number + 1, held.is_number) if isinstance(held, _Hole) else held


def _same_structure(one: Any, other: Any) -> bool:
    if isinstance(one, _Hole) and isinstance(other, _Hole):
        return one.is_number == other.is_number
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_structure, one, other))
    return type(one) is type(other) and bool(one == other)
