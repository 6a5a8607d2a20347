"""What the driver makes: compiled graphs, for some sizes or for all that their guards allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treadle import _native
from treadle.errors import RunError
from treadle.graph.facts import MOST_ELEMENTS, Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import Numbers
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.ops.call import call_function
from treadle.ops.table import OPS
from treadle.passes.lower.searches import FUNCTIONS
from treadle.passes.specialize import specialize
from treadle.plan.bound import bound
from treadle.plan.call import Call
from treadle.plan.control_flow import Rest
from treadle.plan.plan import Plan
from treadle.records import dataclass
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.data_stage import DataStage
from treadle.runtime.executable import Body, Executable
from treadle.runtime.outputs import ArraySpec
from treadle.runtime.program_template import ProgramTemplate
from treadle.runtime.python_calls import Caller, call_for_node
from treadle.runtime.runner import Runner
from treadle.runtime.stages_step import stages_body
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan and the executable made of it."""

    plan: Plan
    executable: Executable

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()


@dataclass(frozen=True, slots=True)
class Open:
    """A plan that is valid for all sizes that its guards allow."""

    plan: Plan
    facts: Facts
    template: ProgramTemplate
    nodes: tuple[str, ...]
    """The names of the model's nodes."""

    @property
    def samples(self) -> dict[str, int]:
        """The sizes by which decisions were taken that no proof settled, by the names of the open dimensions."""
        return {name: symbol.hint for name, symbol in self.facts.symbols.items()}

    @property
    def guards(self) -> list[str]:
        """The conditions under which the plan is valid, such as "length <= 512"."""
        symbols = self.facts.symbols.items()
        least = [f"{name} >= {symbol.least}" for name, symbol in symbols if symbol.least > 0]
        most = [
            f"{name} {'<=' if symbol.most > 0 else '=='} {symbol.most}"
            for name, symbol in symbols
            if symbol.most < MOST_ELEMENTS
        ]
        return list(dict.fromkeys((*least, *most, *map(str, self.facts.guards))))

    def serves(self, sizes: Mapping[str, int]) -> bool:
        """Whether the plan is valid for these sizes of the open dimensions, by name."""
        symbols, numbers = self.facts.symbols.items(), Numbers(sizes, FUNCTIONS)
        within = all(symbol.least <= sizes[name] <= symbol.most for name, symbol in symbols)
        return within and all(map(numbers.satisfy, self.facts.guards))

    def bind(self, sizes: Mapping[str, int]) -> Bound | None:
        """Return the executable for these sizes of the symbols, by name; None if a guard does not hold for them."""
        executable = self.template.try_bind([sizes[name] for name in self.facts.symbols])
        if executable is None:
            return None
        return Bound(self.plan, executable, sizes, self.nodes, self.template, tuple(self.facts.symbols))


@dataclass(frozen=True, slots=True)
class Bound:
    """An executable made of a plan with open sizes for one combination of sizes."""

    open_plan: Plan
    executable: Executable
    sizes: Mapping[str, int]
    nodes: tuple[str, ...]
    template: ProgramTemplate
    """What the executable was made by."""
    symbols: tuple[str, ...]
    """The names of the template's symbols, in order."""

    @property
    def plan(self) -> Plan:
        """The plan with numbers for all sizes."""
        return bound(self.open_plan, self.sizes, FUNCTIONS)

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()


def labels_of(nodes: Sequence[Node]) -> tuple[StepLabel, ...]:
    """Return the names of `nodes` with their ops."""
    return tuple(StepLabel(node.name, str(node.attrs.get("label", node.op))) for node in nodes)


def stages_of(plan: Plan) -> Iterator[DataStage]:
    """Yield the stages that a plan runs, the bodies of loops and branches in front of them included."""
    for call in plan.calls:
        if isinstance(call.control, Rest):
            stage: DataStage = call.control.stage
            yield from stage.bodies
            yield stage


def in_stages(graph: Graph, shapes: Sequence[StaticShape], nested: Callable[[Graph], Runner]) -> Body:
    """Return a program that runs `graph` with Python between its parts, as a part of the run around it.

    Args:
        graph: A graph that the native core cannot run for these sizes, though it can for sample sizes.
        shapes: Of its inputs.
        nested: Returns a runner.
    """
    fixed = specialize(graph, {value.name: shape for value, shape in zip(graph.inputs, shapes, strict=True)})
    reads = [ArraySpec(shape, value.known_dtype.numpy) for value, shape in zip(graph.inputs, shapes, strict=True)]
    writes = [value.known_dtype.numpy for value in graph.outputs]
    return stages_body(StepLabel(graph.name, "stages"), nested(fixed).run_nested, reads, writes)


def run_reference(node: Node, known: dict[str, Array]) -> None:
    """Run `node` by its NumPy reference. Operands are constants or in `known`, to which the results are added."""
    operands = [
        None if value is None else value.data if value.data is not None else known[value.name] for value in node.inputs
    ]
    caller = Caller(node.name, node.attrs.get("label", node.op), bool(node.attrs.get("blocking")))
    results = call_for_node(caller, OPS[node.op].evaluate or call_function, node.attrs, operands)
    if len(results) != len(node.outputs):
        what = f"{caller}: wanted {len(node.outputs)} results, one for each output it has, got {len(results)}"
        raise RunError(what, node=node.name)
    known.update(
        (value.name, np.asarray(result, order="C")) for value, result in zip(node.outputs, results, strict=True)
    )


def reference_call(node: Node) -> Call:
    """Return the step that runs `node` by its reference between two plans; the sizes of its results are not known."""
    evaluate = OPS[node.op].evaluate or call_function

    def function(_: Sequence[int], arrays: list[Array]) -> Sequence[Array]:
        return evaluate(node.attrs, arrays)

    return Call(node.name, str(node.attrs.get("label", node.op)), (), (), function=function)
