"""Branches and loops that data decide: a `call` that runs the bodies, each a Template with a session of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.exported import finish, started
from treadle.frontends.torch.tensor import MISSING, Box, Missing
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.op import Array
from treadle.runtime.control import check_run

_READS_DATA = frozenset({
    "aten::Bool", "aten::Float", "aten::FloatImplicit", "aten::Int", "aten::IntImplicit", "aten::ScalarImplicit", "aten::item",
})  # fmt: skip


def decides_by_data(body: Any) -> bool:
    """Whether the elements of a tensor may decide if the loop with `body` goes on."""
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
    """Stands for a tensor (or a number that comes with the data) among Python values."""

    number: int
    is_number: bool


def _emptied(held: Any, values: list[Value]) -> Any:
    """`held` with holes for its tensors, which go to `values`."""
    if isinstance(held, Box | Number):
        values.append(held.read() if isinstance(held, Box) else held.value)
        return _Hole(len(values) - 1, isinstance(held, Number))
    if isinstance(held, list):
        return [_emptied(entry, values) for entry in held]
    if isinstance(held, dict):
        return {key: _emptied(entry, values) for key, entry in held.items()}
    return held


def _filled(held: Any, values: Sequence[Value], owner: str) -> Any:
    """`held` with `values` in its holes."""
    if isinstance(held, _Hole):
        value = values[held.number]
        return Number(value) if held.is_number else Box(value, owner=owner)
    if isinstance(held, list):
        return [_filled(entry, values, owner) for entry in held]
    if isinstance(held, dict):
        return {key: _filled(entry, values, owner) for key, entry in held.items()}
    return held


def _carried(b: Builder, held: Any) -> Any:
    """Python numbers as numbers that come with the data: a loop may change them."""
    if isinstance(held, bool | int | float):
        return Number(b.constant(np.asarray(held, np.float32 if isinstance(held, float) else None)))
    if isinstance(held, list | dict):
        raise Unsupported("a loop whose end depends on data carries a list; carry a tensor")
    return held


class _Scope:
    """What a body sees of the code around it, and Templates of bodies that see it."""

    def __init__(self, importer: Importer, env: dict[str, Any], blocks: Sequence[Any]) -> None:
        self._importer = importer
        self.values: list[Value] = []
        names = sorted({name for block in blocks for name in _free(block)} & env.keys())
        self._held = {name: _emptied(env[name], self.values) for name in names}
        self.missing = any(isinstance(env[name], Missing) for name in names)

    def forms(self) -> list[Form]:
        """Dtype and shape of each value. Raises Unsupported where a shape depends on data."""
        return [(value.known_dtype, self._importer.b.shape(value)) for value in self.values]

    def template(self, name: str, block: Any, arguments: Sequence[Any], extra: int, structure: list[Any]) -> Template:
        """The body `block`: its inputs are those of the scope, then `extra` that fill the holes of `arguments`.

        Building it leaves what it returns, with holes, in `structure`.
        """
        count = len(self.values)
        inputs = tuple(Value(f"in_{number}") for number in range(count + extra))

        def build(forms: Sequence[Form]) -> Graph:
            from treadle.frontends.torch.interpreter import Interpreter

            graph, given = started(name, inputs, (), forms)
            faults = Faults()
            inner = Importer(graph, faults)
            owner = "a tensor of the code around its branch or loop"
            env = {known: _filled(held, given[:count], owner) for known, held in self._held.items()}
            results = Interpreter(inner).block(block, env, _filled(list(arguments), given[count:], owner))
            faults.raise_all(name)
            made: list[Value] = []
            structure[:] = [_emptied(_told(inner.b, result), made) for result in results]
            finish(inner, [f"out_{n}" for n in range(len(made))], [Box(value) for value in made])
            faults.raise_all(name)
            return graph

        return Template(name, inputs, (), build)


def _told(b: Builder, result: Any) -> Any:
    """A body's result in a form in which both branches, or all iterations, can give it."""
    return _carried(b, result) if isinstance(result, bool | int | float) else result


def _free(block: Any) -> set[str]:
    """Names that `block` reads and does not make."""
    made = {value.debugName() for value in block.inputs()}
    read: set[str] = set()
    for node in block.nodes():
        read |= {value.debugName() for value in node.inputs()} - made
        for inner in node.blocks():
            read |= _free(inner) - made
        made |= {value.debugName() for value in node.outputs()}
    return read | ({value.debugName() for value in block.outputs()} - made)


class Branch(Nested):
    """Runs one of two bodies: the first array says which, the others are what both take."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if bool(arrays[0].reshape(())) else 1](arrays[1:])


class Repeat(Nested):
    """Runs a body again and again: arrays are the most iterations, whether to begin, the scope, the state.

    The body takes the scope, the iteration's number and the state, and gives whether to go on, and the state.
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


def branch(importer: Importer, condition: Value, blocks: Sequence[Any], env: dict[str, Any]) -> list[Any]:
    """The results of an If that data decide."""
    b, name = importer.b, importer.b.name
    scope = _Scope(importer, env, blocks)
    if scope.missing:
        return [MISSING] * len(list(blocks[0].outputs()))
    found: list[list[Any]] = [[], []]
    templates = [
        scope.template(f"{name}.{word}", block, (), 0, structure)
        for word, block, structure in zip(("then", "else"), blocks, found, strict=True)
    ]
    graphs = [template.build(scope.forms()) for template in templates]
    templates = [_with_outputs(template, graph) for template, graph in zip(templates, graphs, strict=True)]
    if not _alike(found[0], found[1]):
        raise Unsupported("its branches, which data decide, return different structures")
    outputs = []
    for yes, no in zip(*(graph.outputs for graph in graphs), strict=True):
        if yes.dtype != no.dtype:
            raise Unsupported(f"its branches, which data decide, return {yes.dtype} and {no.dtype}; cast one of them")
        outputs.append((yes.known_dtype, yes.static_shape if yes.shape is not None and yes.shape == no.shape else None))
    results = b.add_call([condition, *scope.values], outputs, function=Branch(*templates), label="If")
    return [_filled(held, results, "") for held in found[0]]


def repeat(importer: Importer, loop: tuple[Any, Any, list[Any]], body: Any, env: dict[str, Any]) -> list[Any]:
    """The results of a Loop whose end data decide. `loop` is (most iterations, whether to begin, state)."""
    b, name = importer.b, importer.b.name
    most, going, first = loop
    scope = _Scope(importer, env, [body])
    if scope.missing or any(isinstance(held, Missing) for held in first):
        return [MISSING] * len(first)
    values: list[Value] = []
    state = [_emptied(_carried(b, held), values) for held in first]
    structure: list[Any] = []
    shifted = [_Hole(0, is_number=True), *(_shifted(held) for held in state)]
    template = scope.template(f"{name}.body", body, shifted, 1 + len(values), structure)
    forms: list[Form] = [(dtypes.i64, ()), *((value.known_dtype, b.shape(value)) for value in values)]
    graph = template.build([*scope.forms(), *forms])
    if not _alike(structure[1:], state):
        raise Unsupported("its loop, whose end depends on data, changes the structure of what it carries")
    outputs: list[Any] = []
    for value, result in zip(values, graph.outputs[1:], strict=True):
        if value.dtype != result.dtype:
            raise Unsupported(f"its loop carries {value.dtype} into an iteration and {result.dtype} out of it; cast it")
        outputs.append((value.known_dtype, value.static_shape if result.shape == value.shape else None))
    head = [_number(b, most, dtypes.i64), _number(b, going, dtypes.boolean)]
    function = Repeat(_with_outputs(template, graph), len(scope.values))
    results = b.add_call([*head, *scope.values, *values], outputs, function=function, label="Loop")
    return [_filled(held, results, "") for held in state]


def _with_outputs(template: Template, graph: Graph) -> Template:
    return replace(template, outputs=tuple(Value(value.name, value.dtype) for value in graph.outputs))


def _number(b: Builder, number: Any, dtype: dtypes.DType) -> Value:
    return b.cast(number.value, dtype) if isinstance(number, Number) else b.scalar(number, dtype)


def _shifted(held: Any) -> Any:
    return _Hole(held.number + 1, held.is_number) if isinstance(held, _Hole) else held


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, _Hole) and isinstance(other, _Hole):
        return one.is_number == other.is_number
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and bool(one == other)
