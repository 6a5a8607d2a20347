"""Joins the parts of a graph that sizes that depend on data separate: the part behind them becomes a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle import dtypes
from treadle.errors import TreadleError
from treadle.graph.dim import is_expression
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape, elements, normalize_axis
from treadle.graph.value import Value
from treadle.ops.sizes import is_arithmetic, known_value, may_be_numbers
from treadle.passes.base import PassContext
from treadle.passes.bodies import BODIES
from treadle.passes.branch_stages import DataBranch
from treadle.passes.certain_dims import certain_shapes
from treadle.passes.loop_stages import DataLoop
from treadle.passes.pipeline import infer
from treadle.passes.regions import first_region, is_known, is_planned, returns_strings
from treadle.passes.specialize import copied, copy_node, specialize_open
from treadle.passes.stage_bodies import Findings, Search, numbers_or_none, outer_dims
from treadle.passes.stage_names import Dims, SizeNames
from treadle.records import dataclass
from treadle.runtime.data_stage import BranchForm, DataStage, LoopForm

NUMBERS: dict[str, tuple[int, ...]] = {
    "constant_of_shape": (0,),
    "expand": (1,),
    "one_hot": (1,),
    "pad": (1, 3),
    "range": (0, 1, 2),
    "reshape": (1,),
    "resize": (2, 3),
    "slice": (1, 2, 3, 4),
    "split": (1,),
    "tile": (1,),
    "top_k": (1,),
}
"""The operands, by their index, whose elements decide the size of an op's results."""

_MAY_BE_DYNAMIC = frozenset(("branch", "call", "loop", "squeeze", "unsqueeze"))
"""Further ops whose results may have sizes that depend on data."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The graph behind sizes that depend on data.

    `sizes` are the names of the open dimensions of its inputs, and of the elements of its `sizes` nodes: first those
    that are known when the plan in front of it is bound, then those that data tells.
    """

    graph: Graph
    sizes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ahead:
    """A loop or branch that runs in front of the graph behind it: what its bodies compute, and how the step runs it."""

    bodies: tuple[Behind, ...]
    form: LoopForm | BranchForm


MakeStage = Callable[[Behind, Ahead | None], DataStage]
"""Makes what runs a graph behind sizes that depend on data, and the loop or branch in front of it, if there is one."""


def join_stages(graph: Graph, context: PassContext, stage_of: MakeStage, findings: Findings) -> Graph | None:
    """What of `graph` can be planned now, with a node that runs all the rest; None if that cannot be compiled so.

    Args:
        graph: A graph whose shapes were inferred, of which one depends on data.
        context: What inference asks for.
        stage_of: Makes what runs the rest.
        findings: What was found for bodies, also by the graphs that this one is behind.
    """
    graph.drop_unread()
    cut = _Cut.of(graph)
    if cut is None or not (cut.counted or cut.later):
        return None if cut is None else graph
    search = Search(context, dims_of_results, findings)
    rest = _Rest.of(cut, search)
    if rest is None or not _is_planned(rest, cut, search):
        return None
    front = Graph(graph.name)
    copies: dict[Value, Value] = {}
    for value in graph.inputs:
        copies[value] = front.input(value.name, value.known_dtype, value.static_shape)
    for node in cut.front:
        copy_node(front, node, copies)
    numbers = [_as_symbols(front, copied(front, value, copies)) for value in rest.numbers]
    first = rest.ahead
    read = [*(() if first is None else first.operands), *rest.operands]
    operands = [copied(front, value, copies) for value in read]
    ahead = None
    if first is not None:
        bodies = tuple(Behind(body.graph, body.names.all) for body in first.bodies)
        ahead = Ahead(bodies, first.form(len(rest.names.dims)))
    attrs = {
        "stage": stage_of(Behind(rest.graph, rest.names.all), ahead),
        "args": (*rest.names.dims.values(), *(() if first is None else first.args)),
        "counts": tuple(elements(value.static_shape) for value in numbers),
        "dtypes": tuple(value.known_dtype for value in rest.graph.outputs),
    }
    node = front.add("data_stage", [*numbers, *operands], attrs, name=cut.name, outputs=len(rest.graph.outputs))
    results = iter(node.outputs)
    front.outputs = [next(results) if value in rest.made else copied(front, value, copies) for value in graph.outputs]
    return front


def dims_of_results(graph: Graph, facts: Facts, search: Search) -> list[Dims] | None:
    """Return the dimensions of the outputs of `graph`; None if join_stages() could not join its parts.

    `graph` was inferred, and its sizes are expressions of `facts`. No plan is made.
    """
    if first_region(graph).graph is graph:
        return [value.static_shape for value in graph.outputs]
    graph.drop_unread()
    cut = _Cut.of(graph)
    rest = None if cut is None or not (cut.counted or cut.later) else _Rest.of(cut, search)
    if rest is None or cut is None:
        return None
    opened = rest.inferred(search.context)
    if not _serves_all_sizes(rest, cut, opened):
        return None
    if opened is None:
        shapes = certain_shapes(rest.graph)
        found = None if shapes is None else list(map(numbers_or_none, shapes.outputs))
    else:
        inner, inner_facts = opened
        dims = dims_of_results(inner, inner_facts, search)
        found = None if dims is None else [outer_dims(each, rest.names.dims, inner_facts) for each in dims]
    if found is None:
        return None
    behind = iter(found)
    return [next(behind) if value in rest.made else value.static_shape for value in graph.outputs]


def _as_symbols(graph: Graph, value: Value) -> Value:
    """`value` as what a stage reads: i64, or f64, whose bits are symbols."""
    dtype = dtypes.f64 if value.known_dtype.is_float else dtypes.i64
    if value.dtype == dtype:
        return value
    wide = graph.value(f"{value.name}.{dtype}", dtype, value.shape)
    return graph.add("cast", [value], {"to": dtype}, outputs=[wide]).output


@dataclass(frozen=True, slots=True)
class _Cut:
    """The nodes of `graph` that run before sizes are known, those that find `counted` elements, and the others.

    `sized` are those of the others whose sizes only numbers tell, `controlled` those that are loops and branches which
    can run now.
    """

    graph: Graph
    front: list[Node]
    counted: list[Node]
    later: list[Node]
    sized: list[Node]
    controlled: list[Node]

    @classmethod
    def of(cls, graph: Graph) -> _Cut | None:
        """The cut at the first sizes that depend on data; None if something else than numbers tells a size."""
        cut = cls(graph, [], [], [], [], [])
        if returns_strings(graph):
            return None
        ready = {value for value in graph.inputs if is_known(value)}
        for node in graph.nodes:
            if any(value is not None and value.dtype is dtypes.string for value in (*node.inputs, *node.outputs)):
                return None
            if not all(value is None or value.is_constant or value in ready for value in node.inputs):
                cut.later.append(node)
            elif is_planned(node):
                cut.front.append(node)
                ready.update(node.outputs)
            elif node.op == "counted":
                cut.counted.append(node)
            elif (node.op in NUMBERS or node.op == "deferred") and all(map(_is_known_or_numbers, _numbers_of(node))):
                cut.later.append(node)
                cut.sized.append(node)
            elif node.op in BODIES:
                cut.later.append(node)
                cut.controlled.append(node)
            else:
                return None
        return cut

    @property
    def name(self) -> str:
        """The name of the first node whose size depends on data."""
        return (*self.counted, *self.sized, *self.controlled)[0].name

    def deciding(self) -> list[Value]:
        """The values whose elements decide sizes of `later`, and follow from no others by shape arithmetic."""
        makers = {value: node for node in (*self.front, *self.later) for value in node.outputs}
        later = {value for node in self.later for value in node.outputs}
        computed = self._by_arithmetic(later)
        found: dict[Value, None] = {}
        seen: set[Value] = set()
        pending = [value for node in self.later for value in _numbers_of(node)]
        while pending:
            value = pending.pop()
            if value in seen or known_value(value) is not None:
                continue
            seen.add(value)
            node = makers.get(value)
            if (
                node is not None
                and _is_arithmetic(node)
                and (value in computed or (value not in later and _is_of_numbers(node)))
            ):
                pending += [each for each in node.inputs if each is not None]
            elif value not in later and may_be_numbers(value):
                found[value] = None
        return list(found)

    def _by_arithmetic(self, later: set[Value]) -> set[Value]:
        """Those of the values `later` that follow from numbers in front by shape arithmetic alone."""
        found: set[Value] = set()
        for node in self.later:
            operands = [value for value in node.inputs if value is not None and known_value(value) is None]
            if _is_arithmetic(node) and all(
                value in found if value in later else may_be_numbers(value) for value in operands
            ):
                found.update(node.outputs)
        return found


def _numbers_of(node: Node) -> list[Value]:
    """The operands whose elements decide sizes of the results of `node`."""
    inputs = dict(enumerate(node.inputs))
    places = node.attrs["nodes"].numbers if node.op == "deferred" else NUMBERS.get(node.op, ())
    return [value for index in places if (value := inputs.get(index)) is not None]


def _is_arithmetic(node: Node) -> bool:
    """Whether the results of `node` follow from operands whose elements are sizes, whatever these are.

    Which element is selected by a size does not.
    """
    if not is_arithmetic(node.op):
        return False
    places = node.inputs[1:] if node.op in ("gather", "gather_elements", "gather_nd") else []
    known = [known_value(value) for value in places if value is not None]
    return not any(array is None or array.dtype == object for array in known)


def _is_of_numbers(node: Node) -> bool:
    """Whether some operands of `node` are not known, and these hold few integers each.

    Arithmetic on fractions stays in front of the stage, where kernels compute it.
    """
    operands = [value for value in node.inputs if value is not None]
    unknown = [value for value in operands if known_value(value) is None]
    return bool(unknown) and all(map(_is_integers, unknown))


def _is_known_or_numbers(value: Value) -> bool:
    return known_value(value) is not None or may_be_numbers(value)


def _is_integers(value: Value) -> bool:
    return may_be_numbers(value) and value.known_dtype.is_integer


class _Rest:
    """What is behind a cut as a graph of its own. If a loop or branch runs `ahead` of it, the results of that are the
    first inputs."""

    @classmethod
    def of(cls, cut: _Cut, search: Search) -> _Rest | None:
        """What is behind `cut`; None if a loop or branch there cannot run in front of it."""
        if cut.counted or cut.sized:
            rest = cls(cut)
            return rest if rest.numbers else None
        for node in cut.controlled:
            found = (DataLoop if node.op == "loop" else DataBranch).of(node, search, cut.graph.name)
            if found is not None:
                cut.later.remove(node)
                return cls(cut, found)
        return None

    def __init__(self, cut: _Cut, ahead: DataLoop | DataBranch | None = None) -> None:
        self.ahead = ahead
        self.graph = Graph(f"{cut.graph.name}.rest")
        self.names = SizeNames()
        self.numbers: list[Value] = []
        """The values in front whose elements are sizes, in order."""
        self.operands: list[Value] = []
        """The values in front that the inputs of the graph are."""
        self._counted = {node.output: node for node in cut.counted}
        self._copies: dict[Value, Value] = {}
        deciding = cut.deciding() if ahead is None else []
        for value in deciding:
            self._add_numbers(value)
        self.made = {value for node in cut.later for value in node.outputs} | set(self._counted)
        """The values that it computes, or that are found in front of it."""
        if ahead is not None:
            for value, shape in zip(ahead.node.outputs, ahead.result_shapes(self.names), strict=True):
                self._add_input(value, shape)
                self.made.add(value)
        for node in (*self._arithmetic(cut, deciding), *cut.later):
            for operand in node.inputs:
                self._need(operand)
            copy_node(self.graph, node, self._copies, forget_shapes=True)
        for value in cut.graph.outputs:
            if value in self.made:
                self._need(value)
                self.graph.outputs.append(self._copies[value])

    def inferred(self, context: PassContext) -> tuple[Graph, Facts] | None:
        """Return a copy of the graph with expressions for sizes whose shapes were inferred, and its facts; None if the
        sample sizes do not fit."""
        facts = Facts()
        try:
            return infer(specialize_open(self.graph, facts, self.names.hints), context), facts
        except TreadleError:
            return None

    def _arithmetic(self, cut: _Cut, deciding: Sequence[Value]) -> list[Node]:
        """The nodes in front that compute with the elements of `deciding` values alone, for the nodes behind them."""
        known = set(deciding)
        found = []
        for node in cut.front:
            operands = [value for value in node.inputs if value is not None and known_value(value) is None]
            follows = operands and _is_arithmetic(node) and known.issuperset(operands)
            if follows and all(map(may_be_numbers, node.outputs)):
                known.update(node.outputs)
                found.append(node)
        return found

    def _add_numbers(self, value: Value) -> None:
        count = elements(value.static_shape)
        wanted = [value.name] if count == 1 else [f"{value.name}[{number}]" for number in range(count)]
        names = [self.names.tell(name) for name in wanted]
        self.numbers.append(value)
        self._copies[value] = self.names.add_sizes(self.graph, value, names)

    def _need(self, value: Value | None) -> None:
        """Have a copy of `value`, which is no constant."""
        if value is None or value in self._copies or value.is_constant:
            return
        known = self.names.add_known(self.graph, value)
        if known is not None:
            self._copies[value] = known
            return
        node = self._counted.get(value)
        operand = value if node is None else node.operand(0)
        shape = self.names.shape(operand.name, operand.static_shape)
        if node is not None:
            axis = normalize_axis(node.attrs["axis"], len(shape))
            shape = (*shape[:axis], self.names.tell(value.name), *shape[axis + 1 :])
            self.numbers.append(node.operand(1))
        self.operands.append(operand)
        self._add_input(value, shape)

    def _add_input(self, value: Value, shape: Shape) -> None:
        self._copies[value] = Value(self.graph.unique_name(value.name), value.dtype, shape)
        self.graph.inputs.append(self._copies[value])


def _is_planned(rest: _Rest, cut: _Cut, search: Search) -> bool:
    """Whether the rest can be compiled for all sizes, as far as can be told before a run.

    What follows its first sizes that depend on data is looked at only if loops or branches are there: all else is cut
    again when it is compiled.
    """
    opened = rest.inferred(search.context)
    if not _serves_all_sizes(rest, cut, opened):
        return False
    has_bodies = any(node.op in BODIES for node in cut.later)
    if opened is None:
        return not has_bodies or certain_shapes(rest.graph) is not None
    if first_region(opened[0]).graph is opened[0]:
        return True
    if has_bodies:
        return dims_of_results(*opened, search) is not None
    inferred = {node.name for node in opened[0].nodes if all(map(is_known, node.outputs))}
    return all(_is_certain(node) or (node.op == "call" and node.name in inferred) for node in cut.later)


def _serves_all_sizes(rest: _Rest, cut: _Cut, opened: tuple[Graph, Facts] | None) -> bool:
    """Whether nothing in the rest is for certain sizes alone; `opened` is what inference found for sample sizes.

    Sample sizes may not fit. Then sizes must follow from those of operands.
    """
    if any(map(_has_expressions, (attr for node in cut.later for attr in node.attrs.values()))):
        return False
    return opened is not None or all(map(_is_certain, cut.later))


def _has_expressions(attr: Any) -> bool:
    if isinstance(attr, list | tuple):
        return any(map(_has_expressions, attr))
    return is_expression(attr)


def _is_certain(node: Node) -> bool:
    """Whether the sizes of the results of `node` follow from those of its operands, and from integers."""
    if node.op in NUMBERS or node.op == "deferred":
        return all(value.dtype is not None and value.dtype != dtypes.string for value in _numbers_of(node))
    return node.op not in _MAY_BE_DYNAMIC or (
        node.op not in ("branch", "call", "loop")
        and all(value is None or known_value(value) is not None for value in node.inputs[1:])
    )
