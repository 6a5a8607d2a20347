"""What is known of the results of a body before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.dtypes import from_numpy
from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import Body, Library, ordered
from treadle.frontends.tensorflow.control_nodes import MOST_NESTED, OPERAND_ERRORS, prepared_function
from treadle.frontends.tensorflow.declared import constant_array, declared_dtype
from treadle.frontends.tensorflow.describe import Describer
from treadle.frontends.tensorflow.node import Node, Ref
from treadle.frontends.tensorflow.nodes import NODES
from treadle.frontends.tensorflow.switches import SIDES, branch_parts
from treadle.ops.certain import common_infos
from treadle.ops.op import Info

Side = tuple[Body, Sequence[Ref], Sequence[Ref]]
"""A body, the tensors that it computes, and those that it is given."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Describes bodies, node by node. `depth` is the number of branches around them."""

    library: Library
    describer: Describer
    depth: int = 0

    def results(self, body: Body, given: Mapping[Ref, Info], wanted: Sequence[Ref]) -> list[Info]:
        """Return what is known of `wanted`, for `given` tensors. Raises Fault for an unknown element type."""
        known = dict(given)
        for node in ordered(body, wanted, known):
            try:
                operands = [self._known(body, known, ref) for ref in node.inputs]
                found = self._node(body, node, operands)
            except (Fault, *OPERAND_ERRORS):  # the build reports it
                continue
            known.update(((node.name, index), info) for index, info in enumerate(found))
        return [self._known(body, known, ref) for ref in wanted]

    def _known(self, body: Body, known: Mapping[Ref, Info], ref: Ref) -> Info:
        found = known.get(ref)
        return found if found is not None else Info(declared_dtype(body.nodes[ref[0]], ref[1]), None)

    def _node(self, body: Body, node: Node, operands: list[Info]) -> Sequence[Info]:
        """Return what is known of the first results of `node`, or of all. Raises Fault, or what rules raise."""
        if node.op in NODES:
            return self.describer.results(node.name, lambda e, values: NODES[node.op].emit(e, node, values), operands)
        if node.op == "Const":
            array = constant_array(node)
            return [Info(from_numpy(array.dtype), array.shape, array)]
        if node.op == "Print":
            return operands[:1]
        return self._with_bodies(body, node, operands)

    def _with_bodies(self, body: Body, node: Node, operands: list[Info]) -> Sequence[Info]:
        """Return what is known of the results of a branch; an empty list for other nodes with bodies."""
        if node.op in ("If", "StatelessIf"):
            names = [node.function("then_branch"), node.function("else_branch")]
            return self._branch(list(map(self._side, names)), operands)
        if node.op in ("Case", "StatelessCase"):
            return self._sides(list(map(self._side, node.functions("branches"))), operands[1:])
        if node.op == SIDES:
            no, yes = branch_parts(node)
            return self._branch([(body, wanted, list(given)) for wanted, given in (yes, no)], operands)
        return []

    def _side(self, name: str) -> Side:
        """Return what the function `name` computes, of which arguments."""
        body = prepared_function(self.library, name)
        return body, body.results, [(argument, 0) for argument in body.arguments]

    def _branch(self, sides: Sequence[Side], operands: list[Info]) -> list[Info]:
        """Return what is known of the results of both sides, or of the one that a constant chooses."""
        predicate, *values = operands
        if predicate.value is not None and predicate.value.size == 1:
            sides = sides[:1] if bool(predicate.value) else sides[1:]
        return self._sides(sides, values)

    def _sides(self, sides: Sequence[Side], values: list[Info]) -> list[Info]:
        """Return what is known of the results of all these sides."""
        inner = Outlook(self.library, self.describer, self.depth + 1)
        if self.depth >= MOST_NESTED:
            return []
        found = [inner.results(body, dict(zip(given, values, strict=True)), wanted) for body, wanted, given in sides]
        return [common_infos(cases, self.describer.facts) for cases in zip(*found, strict=True)]
