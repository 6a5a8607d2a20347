"""Branches, loops and maps of ONNX models: as core nodes with bodies, or in place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from treadle.frontends.faults import Fault, Faults, Misfit
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.foreign import Binding
from treadle.frontends.onnx.known import Known
from treadle.frontends.onnx.list_loops import MOST_COPIES, WithoutLists, without_lists
from treadle.frontends.onnx.lists import TensorList, items_of, length_of, of_items, of_stack, stack_of, with_lists
from treadle.frontends.onnx.loops import (
    Formal,
    Imported,
    LoopNode,
    Retries,
    add_loop,
    loop_node,
    scan_node,
    scan_results,
)
from treadle.frontends.onnx.names import captured, graph_of
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules import flex_attention
from treadle.frontends.onnx.scope import Scope, stored, values_by_name
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.branch import refusing_body
from treadle.ops.op import Info
from treadle.records import dataclass

OPERATORS = ("If", "Loop", "Scan", "SequenceMap")
"""The operators with bodies, which become core nodes where the bodies and all operands can."""


@dataclass(frozen=True, slots=True)
class BodyForm:
    """What the body of a node reads, and what the node wants of it.

    Attributes:
        outside: The values and lists that the body reads from around the node, by name.
        formals: The inputs that each iteration of a loop sets, at least one; none for a branch.
        stacks: The names of the formals that are lists. Each is one stacked value.
        going: The name of the input that says that the loop goes on; empty if there is none.
        decides: False if the loop ends without a condition: then the body gets a first output that is always true.
    """

    outside: Mapping[str, Value | TensorList]
    formals: Sequence[Formal] = ()
    stacks: frozenset[str] = frozenset()
    going: str = ""
    decides: bool = True


class ControlFlow(ABC):
    """The part of an importer that translates nodes with bodies into nodes of `graph`."""

    def __init__(self, graph: Graph, retries: Retries) -> None:
        self._graph = graph
        self._retries = retries
        self._known = Known()
        self._builder = Builder(graph, self._known)

    @abstractmethod
    def _nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope) -> None:
        """Translate `nodes` in `scope`."""

    @abstractmethod
    def _look_up(self, name: str, scope: Scope) -> Binding:
        """Return what `name` stands for in `scope`."""

    @abstractmethod
    def _body(
        self, proto: onnx.GraphProto, name: str, scope: Scope, form: BodyForm, faults: Faults | None = None
    ) -> Imported | None:
        """Import the body `proto` of node `name` as a graph of its own; None if it cannot be one.

        Faults of the body are added to `faults`, if given. They are no faults of the model.
        """

    def _inlined(self, proto: onnx.NodeProto, name: str, scope: Scope, *, taken: bool) -> Sequence[Binding]:
        """The results of an If whose condition is known: the branch taken, in place."""
        graph = graph_of(proto, "then_branch" if taken else "else_branch")
        inner = Scope(ChainMap({}, scope.env), scope.versions, f"{name}/", None, stored(graph))
        self._nodes(graph.node, inner)
        return [self._look_up(value.name, inner) for value in graph.output]

    def _modified_attention(self, node: OnnxNode, name: str, scope: Scope) -> list[Value] | None:
        """The result of a FlexAttention, its modifiers in place; None if core nodes cannot express it."""
        value = flex_attention.scores(node, self._builder)
        value = None if value is None else self._modified(node, "score_mod", value, name, scope)
        value = None if value is None else self._builder.add("softmax", value, axis=-1)
        value = None if value is None else self._modified(node, "prob_mod", value, name, scope)
        return None if value is None else [flex_attention.mixed(node, value, self._builder)]

    def _modified(self, node: OnnxNode, attribute: str, value: Value, name: str, scope: Scope) -> Value | None:
        """What the graph in `attribute` makes of `value`, which it is without one; None if that is no tensor."""
        if not node.has(attribute):
            return value
        graph = graph_of(node.proto, attribute)
        if len(graph.input) != 1 or len(graph.output) != 1:
            counts = f"{len(graph.input)} and {len(graph.output)}"
            raise Fault(f"attribute {attribute!r} must be a graph with one input and one output, got {counts}")
        env: ChainMap[str, Binding] = ChainMap({graph.input[0].name: value}, scope.env)
        inner = Scope(env, scope.versions, f"{name}/{attribute}/", None, stored(graph))
        self._nodes(graph.node, inner)
        found = self._look_up(graph.output[0].name, inner)
        self._builder.name = name
        return self._builder.cast(found, value.dtype) if isinstance(found, Value) else None

    def _branch(self, proto: onnx.NodeProto, name: str, scope: Scope) -> Sequence[Binding] | None:
        """The results of an If with both branches as bodies; None if they cannot be graphs of core nodes.

        If the operands do not fit one of them, runs fail that take it, as those of ONNX Runtime do. Raises Misfit if
        the operands fit neither.
        """
        outside = self._outside(proto, scope)
        if outside is None:
            return None
        bodies: list[Imported | None] = []
        misfits: list[str] = []
        for branch in ("then_branch", "else_branch"):
            faults = Faults()
            bodies.append(self._body(graph_of(proto, branch), name, scope, BodyForm(outside), faults))
            if faults and faults.only_misfits:
                misfits.append("; ".join(faults.sentences()))
        if len(misfits) == len(bodies):
            raise Misfit("; ".join(misfits))
        yes, no = bodies
        if misfits:
            yes = yes or _refusing(no, name, self._operands(outside), misfits[0])
            no = no or _refusing(yes, name, self._operands(outside), misfits[0])
        if yes is None or no is None or not _fit(yes, no):
            return None
        self._builder.name = name
        condition = _value(scope.env[proto.input[0]])
        values = self._builder.add_branch(condition, self._operands(outside), yes.graph, no.graph)
        return with_lists(values, yes.lists)

    def _loop(
        self,
        proto: onnx.NodeProto,
        name: str,
        scope: Scope,
        inputs: Sequence[Binding],
        without: WithoutLists | None = None,
    ) -> list[Value] | None:
        """The results of a Loop or Scan as a core loop; None if its body cannot be a graph of core nodes.

        `inputs` are tensors. `without` is what `proto` was made of, if that is a node with lists.
        """
        outside = self._outside(proto, scope, stacked=True)
        is_loop = proto.op_type == "Loop"
        values = [None if binding is None else _value(binding) for binding in inputs]
        node = (loop_node if is_loop else scan_node)(proto, values, self._builder)
        if outside is None or node is None:
            return None
        going = graph_of(proto).input[1].name if is_loop else ""
        form = BodyForm(outside, going=going, decides=is_loop)
        if without is not None:
            form, node = replace(form, stacks=without.stacks), replace(node, uniform=without.uniform)
        results = self._add_loop(proto, name, scope, node, form)
        if results is not None and not is_loop:
            results = scan_results(proto, results, self._builder)
        return results and results[: len(proto.output)]

    def _list_loop(
        self, proto: onnx.NodeProto, name: str, scope: Scope, lists: Mapping[int, TensorList]
    ) -> Sequence[Binding] | None:
        """The results of a Loop that carries lists; None where _loop() gives None, and if a list cannot be stacked."""
        without = without_lists(proto, lists)
        if without is None:
            return None
        inner = replace(scope, env=ChainMap(dict(without.unchanged), scope.env))
        inputs: list[Binding] = []
        for number in without.operands:
            if number in without.stacked:
                inputs.append(stack_of(lists[number], self._builder))
            else:
                inputs.append(scope.env[proto.input[number]] if proto.input[number] else None)
        if any(inputs[without.operands.index(number)] is None for number in without.stacked):
            return None
        found = self._loop(without.proto, name, inner, inputs, without)
        results = None if found is None else without.results(found, self._builder)
        return results and results[: len(proto.output)]

    def _mapped(
        self, proto: onnx.NodeProto, name: str, scope: Scope, lists: Mapping[int, TensorList]
    ) -> Sequence[Binding] | None:
        """The results of a SequenceMap: its body for each element in place, or as a loop over stacked elements."""
        graph = graph_of(proto)
        if 0 not in lists or len(graph.input) != len(proto.input) or len(graph.output) != len(proto.output):
            return None
        counts = {length_of(found, self._builder) for found in lists.values()}
        known = counts.difference([None])
        if len(known) > 1:
            raise Fault(f"its sequences must have the same length, got {known}")
        formals = [value.name for value in graph.input]
        given = {formals[number]: scope.env[read] for number, read in enumerate(proto.input) if number not in lists}
        named = {formals[number]: found for number, found in lists.items()}
        results = None
        if None not in counts and counts.issubset(range(MOST_COPIES + 1)):
            results = self._mapped_in_place(graph, name, scope, given, named)
        return self._mapped_by_loop(proto, name, scope, given, named) if results is None else results

    def _mapped_in_place(
        self,
        graph: onnx.GraphProto,
        name: str,
        scope: Scope,
        given: Mapping[str, Binding],
        lists: Mapping[str, TensorList],
    ) -> list[Binding] | None:
        """The lists that the body gives for each element of `lists`; None if a result of the body is no tensor."""
        rows = list(zip(*(items_of(found, self._builder) or () for found in lists.values()), strict=True))
        if not rows:
            return None
        results: list[list[Value]] = [[] for _ in graph.output]
        for number, row in enumerate(rows):
            own = dict(zip(lists, row, strict=True))
            env: ChainMap[str, Binding] = ChainMap({**own, **given}, scope.env)
            inner = Scope(env, scope.versions, f"{name}/{number}/", None, stored(graph))
            self._nodes(graph.node, inner)
            for made, value in zip(results, graph.output, strict=True):
                binding = self._look_up(value.name, inner)
                if not isinstance(binding, Value) or binding.dtype is None:
                    return None
                made.append(binding)
        return [of_items(made[0].known_dtype, made) for made in results]

    def _mapped_by_loop(
        self,
        proto: onnx.NodeProto,
        name: str,
        scope: Scope,
        given: Mapping[str, Binding],
        lists: Mapping[str, TensorList],
    ) -> list[Binding] | None:
        """The lists that a loop makes of the elements of `lists`, each stacked; None where _loop() gives None."""
        stacks = [stack_of(found, self._builder) for found in lists.values()]
        outside = self._outside(proto, scope, stacked=True)
        values = [stack for stack in stacks if stack is not None]
        tensors = {read: each for read, each in given.items() if isinstance(each, Value) and each.dtype is not None}
        if len(values) < len(stacks) or outside is None or len(tensors) < len(given):
            return None
        outside = {**outside, **tensors}
        if not all(self._known.is_multiple(values[0], 1, stack) for stack in values):
            return None
        names = set(outside).union(lists)
        number = next(
            each for each in ("iteration", *(f"iteration{n}" for n in range(len(names) + 1))) if each not in names
        )
        node = LoopNode(None, None, (), tuple(values), number, tuple(lists), uniform=len(proto.output))
        results = self._add_loop(proto, name, scope, node, BodyForm(outside, decides=False))
        return None if results is None else [of_stack(value) for value in results[: len(proto.output)]]

    def _add_loop(
        self, proto: onnx.NodeProto, name: str, scope: Scope, node: LoopNode, form: BodyForm
    ) -> list[Value] | None:
        """The results of `node` as a core loop of the body of `proto`; None if that cannot be a graph of core nodes."""
        graph = graph_of(proto)

        def make_body(formals: Sequence[Formal]) -> Imported | None:
            return self._body(graph, name, scope, replace(form, formals=formals))

        return add_loop(node, make_body, self._operands(form.outside), self._retries, self._builder)

    def _outside(
        self, proto: onnx.NodeProto, scope: Scope, *, stacked: bool = False
    ) -> dict[str, Value | TensorList] | None:
        """What a node's bodies read from outside, by name; None if it is not all tensors and lists of known dtypes.

        With `stacked`, lists whose elements have one shape become lists of one stacked value.
        """
        outside: dict[str, Value | TensorList] = {}
        for read in captured(proto):
            binding = scope.env[read]
            if isinstance(binding, TensorList):
                stack = stack_of(binding, self._builder) if stacked else None
                outside[read] = binding if stack is None else of_stack(stack)
            elif isinstance(binding, Value) and binding.dtype is not None:
                outside[read] = binding
            else:
                return None
        return outside

    def _operands(self, outside: Mapping[str, Value | TensorList]) -> list[Value]:
        """The values in `outside` that are not known: operands of the node whose bodies read them."""
        values = (value for _, value in values_by_name(outside))
        return [value for value in values if self._known.array(value) is None]


def _refusing(other: Imported | None, name: str, operands: Sequence[Value], why: str) -> Imported | None:
    """A body of node `name` that fails as `why` says if it is taken, with results like those of the `other` one."""
    if other is None or any(value.dtype is None for value in operands):
        return None
    inputs = [Info(value.known_dtype, None) for value in operands]
    results = [Info(value.known_dtype, None) for value in other.graph.outputs]
    return replace(other, graph=refusing_body(name, inputs, results, why))


def _fit(yes: Imported, no: Imported) -> bool:
    """Whether both bodies of an If give values of the same dtypes, in lists of the same form."""
    forms = [
        [(each is not None, -1 if each is None or each.items is None else len(each.items)) for each in body.lists]
        for body in (yes, no)
    ]
    return forms[0] == forms[1] and [v.dtype for v in yes.graph.outputs] == [v.dtype for v in no.graph.outputs]


def _value(binding: Binding) -> Value:
    assert isinstance(binding, Value)
    return binding
