"""Joins scalar ops into `elementwise` nodes, each of which becomes one loop over memory."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.order import topological
from treadle.graph.shape import StaticShape, equal_shapes
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.base import Limits, PassContext
from treadle.passes.build_expr import build_expr, count_steps, is_scalar, outer_operands
from treadle.passes.match import join_names
from treadle.records import dataclass

_OF_A_BYTE = 4
"""How many times as long a program of one byte may be: if its result is a byte too, it becomes a table."""


class GroupElementwise:
    """%a = exp(%x); %b = add(%a, %y); %c = neg(%b)  ->  %c = elementwise(%x, %y) expr

    A group's nodes have one shape and are connected; what others read of them becomes a result. No
    group depends on itself through a node outside. Each lone scalar node becomes a group of its own.
    """

    name = "group_elementwise"

    def run(self, graph: Graph, context: PassContext) -> bool:
        if not any(is_scalar(node) and node.op != "elementwise" for node in graph.nodes):
            return False
        grouping = Grouping(graph, context.limits)
        for node in graph.nodes:
            grouping.place(node)
        rest = [node for node in graph.nodes if node not in grouping.group_of]
        place = {node: i for i, node in enumerate(graph.nodes)}
        made = [(place[group.nodes[-1]], _fused(graph, group)) for group in grouping.groups()]
        numbered = [*((place[node], node) for node in rest), *made]
        graph.rebuild(topological([node for _, node in sorted(numbered, key=lambda pair: pair[0])]))
        return True


@dataclass(slots=True, eq=False)
class Group:
    """Scalar nodes that will be one.

    `bit` marks it in dependence masks, `before` is what it depends on. `steps` is the length of its program.
    `operands` is what it reads of others, without constants of one element, `results` what others read of it.
    """

    nodes: list[Node]
    shape: StaticShape
    bit: int
    before: int
    steps: int
    operands: list[Value]
    results: list[Value]


class Grouping:
    """The groups made so far, and for every node met the mask of groups it depends on."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self.graph = graph
        self.limits = limits
        self.group_of: dict[Node, Group] = {}
        self.before: dict[Node, int] = {}
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.bits = 0

    def groups(self) -> list[Group]:
        return list(dict.fromkeys(self.group_of.values()))

    def place(self, node: Node) -> None:
        """Take the next node of the graph: into a group of its own if scalar, then joined with its makers'."""
        before = 0
        for value in node.inputs:
            before |= self._of(value)
        if not is_scalar(node):
            self.before[node] = before
            return
        operands = outer_operands([node])
        group = Group([node], node.outputs[0].static_shape, 0, before, count_steps(node), operands, node.outputs)
        self.group_of[node] = group
        makers = {self.group_of[v.producer] for v in operands if v.producer in self.group_of}
        for maker in sorted(makers, key=lambda made: -self.position[made.nodes[-1]]):
            if self._may_join(maker, group):
                group = self._join(maker, group)
        if not group.bit:
            group.bit = 1 << self.bits
            self.bits += 1

    def _of(self, value: Value | None) -> int:
        """The groups that `value` depends on, the one that makes it included."""
        if value is None or value.producer is None:
            return 0
        group = self.group_of.get(value.producer)
        return self.before[value.producer] if group is None else group.before | group.bit

    def _may_join(self, maker: Group, group: Group) -> bool:
        steps = maker.steps + group.steps
        if maker is group or steps > self.limits.expr_steps * _OF_A_BYTE:
            return False
        if not equal_shapes(maker.shape, group.shape):
            return False
        if maker.before & group.bit or self._by_detour(maker, group):
            return False
        operands = self._operands(maker, group)
        tabulable = len(operands) == 1 and operands[0].dtype in BYTES
        return (
            steps <= self.limits.expr_steps * (_OF_A_BYTE if tabulable else 1)
            and len(operands) <= self.limits.expr_operands
            and len(self._results(maker, group)) <= self.limits.expr_results
        )

    def _by_detour(self, maker: Group, group: Group) -> bool:
        """Whether `group` depends on `maker` through a node of neither."""
        return any(
            self._of(value) & maker.bit
            for value in group.operands
            if value.producer is not None and self.group_of.get(value.producer) is not maker
        )

    def _operands(self, *groups: Group) -> list[Value]:
        """What groups that are joined read of others."""
        values = dict.fromkeys(value for group in groups for value in group.operands)
        return [v for v in values if v.producer is None or self.group_of.get(v.producer) not in groups]

    def _results(self, *groups: Group) -> list[Value]:
        """What others read of groups that are joined."""
        return [
            value
            for group in groups
            for value in group.results
            if self.graph.is_output(value) or any(self.group_of.get(user) not in groups for user in value.users)
        ]

    def _join(self, maker: Group, group: Group) -> Group:
        nodes = sorted((*maker.nodes, *group.nodes), key=self.position.__getitem__)
        bits = maker.bit | group.bit
        before = (maker.before | group.before) & ~bits
        operands, results = self._operands(maker, group), self._results(maker, group)
        joined = Group(nodes, maker.shape, bits, before, maker.steps + group.steps, operands, results)
        for node in nodes:
            self.group_of[node] = joined
        if self._read_elsewhere(joined):
            self._update_dependants(joined)
        return joined

    def _read_elsewhere(self, joined: Group) -> bool:
        """Whether a node met before reads what `joined` makes."""
        return any(
            user in self.before or (user in self.group_of and self.group_of[user] is not joined)
            for value in joined.results
            for user in value.users
        )

    def _update_dependants(self, joined: Group) -> None:
        added = joined.bit | joined.before
        for node, before in self.before.items():
            if before & joined.bit:
                self.before[node] = before | added
        for group in self.groups():
            if group is not joined and group.before & joined.bit:
                group.before |= added


def _fused(graph: Graph, group: Group) -> Node:
    """The `elementwise` node that stands for `group`, made but not linked."""
    inside = set(group.nodes)
    results = [
        value
        for node in group.nodes
        for value in node.outputs
        if graph.is_output(value) or any(user not in inside for user in value.users)
    ]
    expr, operands = build_expr(group.nodes, results)
    made = graph.make("elementwise", operands, {"expr": expr}, name=join_names(group.nodes), outputs=results)
    made.take_over(group.nodes)
    for value in results:
        value.producer = made
    return made
