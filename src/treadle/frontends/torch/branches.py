"""Branches and loops whose conditions depend on data.

Each becomes a branch or loop of the native core where no body needs Python, and a loop keeps the known shapes of what
it carries; results of a branch may have other sizes on each side. Else it becomes one `call` node, which runs its
bodies as sessions of their own, compiled from Templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.bodies import (
    Hole,
    RunBlock,
    Scope,
    as_variable,
    filled,
    loop_body,
    next_hole,
    number_value,
    same_structure,
    with_holes,
)
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.tensor import MISSING, Missing
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
    scope = Scope(importer, env, blocks, run_block)
    if scope.missing:
        return [MISSING] * len(list(blocks[0].outputs()))
    found: list[list[Any]] = [[], []]
    templates = [
        scope.template(f"{name}.{word}", block, (), 0, structure)
        for word, block, structure in zip(("then", "else"), blocks, found, strict=True)
    ]
    graphs = [template.build(scope.forms()) for template in templates]
    templates = [_with_outputs(template, graph) for template, graph in zip(templates, graphs, strict=True)]
    if not same_structure(found[0], found[1]):
        raise Unsupported("its branches, which data decide, return different structures")
    outputs = []
    for yes, no in zip(*(graph.outputs for graph in graphs), strict=True):
        if yes.dtype != no.dtype:
            raise Unsupported(f"its branches, which data decide, return {yes.dtype} and {no.dtype}; cast one of them")
        outputs.append((yes.known_dtype, yes.static_shape if yes.shape is not None and yes.shape == no.shape else None))
    yes, no = graphs
    if not yes.outputs:
        return list(found[0])
    if all(map(_may_agree, yes.outputs, no.outputs)) and not (needs_python(yes) or needs_python(no)):
        test = b.reshape(to_bool(b, condition), [])
        results = b.add_branch(test, scope.values, yes, no)
        for result, (_, shape) in zip(results, outputs, strict=True):
            result.shape = shape
    else:
        results = b.add_call([condition, *scope.values], outputs, function=Branch(*templates), label="If")
    return [filled(held, results, "") for held in found[0]]


def repeat(
    importer: Importer, loop: tuple[Any, Any, list[Any]], body: Any, env: dict[str, Any], run_block: RunBlock
) -> list[Any]:
    """Adds a Loop whose condition depends on data, and returns its results.

    `loop` is (trip count, first condition, loop variables).
    """
    b, name = importer.b, importer.b.name
    most, going, first = loop
    scope = Scope(importer, env, [body], run_block)
    if scope.missing or any(isinstance(held, Missing) for held in first):
        return [MISSING] * len(first)
    values: list[Value] = []
    state = [with_holes(as_variable(b, held), values) for held in first]
    structure: list[Any] = []
    shifted = [Hole(0, Number), *(next_hole(held) for held in state)]
    template = scope.template(f"{name}.body", body, shifted, 1 + len(values), structure)
    forms: list[Form] = [(dtypes.i64, ()), *((value.known_dtype, b.shape(value)) for value in values)]
    graph = template.build([*scope.forms(), *forms])
    if not same_structure(structure[1:], state):
        raise Unsupported("its loop, whose end depends on data, changes the structure of what it carries")
    outputs: list[Any] = []
    for value, result in zip(values, graph.outputs[1:], strict=True):
        if value.dtype != result.dtype:
            raise Unsupported(f"its loop carries {value.dtype} into an iteration and {result.dtype} out of it; cast it")
        outputs.append((value.known_dtype, value.static_shape if result.shape == value.shape else None))
    if same_forms(values, graph.outputs[1:]) and not needs_python(graph):
        limit = None if most == _ANY_NUMBER else number_value(b, most, dtypes.i64)
        operands = [limit, number_value(b, going, dtypes.boolean), *values, *scope.values]
        results = b.add_loop(operands, loop_body(graph, len(scope.values)), len(values))
        return [filled(held, results, "") for held in state]
    head = [number_value(b, most, dtypes.i64), number_value(b, going, dtypes.boolean)]
    function = Repeat(_with_outputs(template, graph), len(scope.values))
    results = b.add_call([*head, *scope.values, *values], outputs, function=function, label="Loop")
    return [filled(held, results, "") for held in state]


def _may_agree(yes: Value, no: Value) -> bool:
    """Returns False if two results have different ranks. Their sizes may differ: the run tells them then."""
    return yes.shape is None or no.shape is None or len(yes.shape) == len(no.shape)


def _with_outputs(template: Template, graph: Graph) -> Template:
    return replace(template, outputs=tuple(Value(value.name, value.dtype) for value in graph.outputs))
