"""Branches and loops whose conditions depend on data.

Each becomes a branch or loop of the native core where no body needs Python, and a loop keeps the known shapes of what
it carries; results of a branch may have other sizes on each side. Else it becomes one `call` node, which runs its
bodies as sessions of their own, compiled from Templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.frontends.core_bodies import knows_sizes, needs_python, same_forms
from treadle.frontends.deferred_nodes import later_body
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.bodies import RunBlock, Scope, filled, same_structure
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.rules.elementwise import to_bool
from treadle.frontends.torch.tensor import MISSING
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.op import Array


class Branch(Nested):
    """Runs one of two bodies: the first array is the condition, the others are the inputs of either body."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return self.bodies[0 if bool(arrays[0].reshape(())) else 1](arrays[1:])


@dataclass(frozen=True, slots=True)
class _Made:
    """The sides of a branch, made once shapes are known, and what they return, with holes."""

    yes: Graph
    no: Graph
    structure: list[Any]


def branch(
    importer: Importer, condition: Value, blocks: Sequence[Any], env: dict[str, Any], run_block: RunBlock
) -> list[Any]:
    """Adds an If whose condition depends on data, and returns its results."""
    b, name = importer.b, importer.b.name
    scope = Scope(importer, env, blocks, run_block)
    if scope.missing:
        return [MISSING] * len(list(blocks[0].outputs()))
    key = scope.key("branch", *blocks)
    kept: _Made | None = importer.made.get(key)
    if kept is not None:
        results = b.add_branch(b.reshape(to_bool(b, condition), []), scope.values, kept.yes, kept.no)
        return [filled(held, results, "") for held in kept.structure]
    found: list[list[Any]] = [[], []]
    bodies = [
        scope.body(f"{name}.{word}", block, (), 0, structure)
        for word, block, structure in zip(("then", "else"), blocks, found, strict=True)
    ]
    graphs = [body.build(scope.infos()) for body in bodies]
    if not same_structure(found[0], found[1]):
        raise Unsupported("its branches, which data decide, return different structures")
    outputs = []
    for one, other in zip(*(graph.outputs for graph in graphs), strict=True):
        if one.dtype != other.dtype:
            raise Unsupported(
                f"its branches, which data decide, return {one.dtype} and {other.dtype}; cast one of them"
            )
        is_same = one.shape is not None and one.shape == other.shape
        outputs.append((one.known_dtype, one.static_shape if is_same else None))
    yes, no = graphs
    if not outputs:
        return list(found[0])
    if all(map(_may_agree, yes.outputs, no.outputs)) and not (needs_python(yes) or needs_python(no)):
        if not (same_forms(yes.outputs, no.outputs) and knows_sizes(yes) and knows_sizes(no)):
            scope.follows_data = True
            yes, no = (
                later_body(name, scope.values, body.later(graph)) for body, graph in zip(bodies, graphs, strict=True)
            )
            importer.made.put(key, _Made(yes, no, found[0]))
        test = b.reshape(to_bool(b, condition), [])
        results = b.add_branch(test, scope.values, yes, no)
        for result, (_, shape) in zip(results, outputs, strict=True):
            result.shape = shape
    else:
        function = Branch(*(body.template(graph) for body, graph in zip(bodies, graphs, strict=True)))
        results = b.add_call([condition, *scope.values], outputs, function=function, label="If")
    return [filled(held, results, "") for held in found[0]]


def _may_agree(yes: Value, no: Value) -> bool:
    """Returns False if two results have different ranks. Their sizes may differ: the run tells them then."""
    return yes.shape is None or no.shape is None or len(yes.shape) == len(no.shape)
