"""Finds branches that run in front of a stage: the sizes of their results depend on the body that is taken."""

from __future__ import annotations

from treadle.errors import TreadleError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape
from treadle.graph.value import Value
from treadle.ops.branch import refusal_of, refusing_body
from treadle.ops.op import Info
from treadle.passes.stage_bodies import (
    Search,
    StageBody,
    common_dims,
    form_of_operands,
    may_change_ranks,
    needs_python,
    numbers_or_none,
)
from treadle.passes.stage_names import Dims, SizeNames
from treadle.records import dataclass
from treadle.runtime.data_stage import BranchForm


@dataclass(frozen=True, slots=True)
class DataBranch:
    """A branch that runs in front of a stage, as native/include/treadle/data_branch.h has it.

    Attributes:
        node: The branch.
        bodies: What it computes if the condition holds, and if it does not. Their inputs are the captured values.
        results: The shapes of its results, with None for sizes that the run tells.
    """

    node: Node
    bodies: tuple[StageBody, StageBody]
    results: tuple[Dims, ...]

    @classmethod
    def of(cls, node: Node, search: Search, around: str) -> DataBranch | None:
        """Return the branch `node` of the graph `around`, whose operands have known shapes; None if no plan can serve
        all sizes of a body.

        A body that the operands do not fit fails if it is taken.
        """
        sides: tuple[Graph, Graph] = (node.attrs["yes"], node.attrs["no"])
        key = (*sides, form_of_operands(node.inputs[1:]))
        kept = search.findings.forms.get(key)
        common = cls._results(node, search, around) if kept is None else kept[0]
        if common is None:
            return None
        constants = [value for value in node.inputs if value is not None and value.is_constant]
        search.findings.forms.put(key, (common, constants))  # which the key may have by identity
        yes, no = (
            _body(node, body, f"{around}/{node.name}.{side}")
            if refusal_of(body) is None
            else _refusing(node, side, f"{around}/{node.name}.{side}", common)
            for side, body in zip(("yes", "no"), sides, strict=True)
        )
        return cls(node, (yes, no), tuple(common))

    @classmethod
    def _results(cls, node: Node, search: Search, around: str) -> list[Dims] | None:
        """Return the numbers that the results of both sides have in common; None as of()."""
        results: list[list[Dims]] = []
        for side in ("yes", "no"):
            body: Graph = node.attrs[side]
            if refusal_of(body) is not None:
                continue
            if needs_python(body):
                return None
            made = _body(node, body, f"{around}/{node.name}.{side}")
            if may_change_ranks(made.graph):
                return None
            try:
                opened, facts = made.inferred(search.context)
            except TreadleError:
                continue  # sample sizes do not fit: a run that takes it finds out whether its sizes do
            dims = search.dims_of(opened, facts)
            if dims is None:
                return None
            results.append([numbers_or_none(each) for each in dims])
        return common_dims(results[0], results[-1]) if results else None

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name

    @property
    def operands(self) -> list[Value]:
        """What the step reads, in its order."""
        return [self.node.operand(0), *self.bodies[0].captured]

    def form(self, rest_sizes: int) -> BranchForm:
        """Return how the step runs the branch in front of a stage that has `rest_sizes` sizes known before."""
        return BranchForm(
            rest_sizes=rest_sizes,
            results=tuple(tuple(-1 if dim is None else dim for dim in dims) for dims in self.results),
            captured=len(self.bodies[0].captured),
        )

    @property
    def args(self) -> list[int]:
        """The step's arguments for the branch: the sizes of both bodies, which are the same."""
        return list(self.bodies[0].names.dims.values())

    def result_shapes(self, names: SizeNames) -> list[Shape]:
        """Return the shapes of the results for a graph with these `names`.

        Sizes that data tells get names in the order in which the step tells them.
        """
        return [names.told_shape(value.name, dims) for value, dims in zip(self.node.outputs, self.results, strict=True)]


def _body(node: Node, body: Graph, name: str) -> StageBody:
    made = StageBody(Graph(name))
    for formal, value in zip(body.inputs, node.inputs[1:], strict=True):
        assert value is not None, "a body has an input for each operand"
        made.capture(formal, value)
    made.finish(body, name)
    return made


def _refusing(node: Node, side: str, name: str, results: list[Dims]) -> StageBody:
    """The body of this `side`, called `name`, which fails if it is taken. Its results never get the sizes it states."""
    why = refusal_of(node.attrs[side]) or ""
    inputs = [Info(value.known_dtype, None) for value in node.inputs[1:] if value is not None]
    infos = [
        Info(value.known_dtype, tuple(1 if dim is None else dim for dim in dims))
        for value, dims in zip(node.outputs, results, strict=True)
    ]
    return _body(node, refusing_body(node.name, inputs, infos, why), name)
