"""Branches and loops of graphs as those of the native core, where nothing in them needs Python."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from treadle import dtypes
from treadle.compat.tensorflow.deferred_ops import REASONS, DeferredOps, NeedsPythonError, emit_ops
from treadle.compat.tensorflow.effects import closure
from treadle.compat.tensorflow.func_graph import Subgraph
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.tensor import Tensor
from treadle.dtypes import DType
from treadle.frontends.core_bodies import is_known, needs_python
from treadle.frontends.deferred_nodes import LaterLoop, later_body
from treadle.frontends.tensorflow.core_control import agree, decides, has_numbers, may_be_core
from treadle.frontends.tensorflow.core_loops import CoreLoop, source
from treadle.frontends.tensorflow.emitter import info_of
from treadle.frontends.tensorflow.list_loops import ListAccess, SplitStep
from treadle.frontends.tensorflow.node import Node
from treadle.graph.graph import Graph, unlink
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes


def add_branch(e: StageEmitter, op: Operation, values: Sequence[Value], yes: Subgraph, no: Subgraph) -> Any:
    """Add a branch of the native core, and return its results; None if Python has to choose the side.

    `values` are the predicate, then what each side captures. Results may have other sizes on each side, but not other
    ranks.
    """
    test, *given = values
    if not decides(test) or not op.outputs or not all(map(_is_usable, given)):
        return None
    count, refused = len(yes.captured), len(e.refusals)
    try:
        sides = [_Body(e, given) for _ in (yes, no)]
        for body, side, captured in zip(sides, (yes, no), (slice(count), slice(count, None)), strict=True):
            inputs = dict(zip(side.graph.captures.values(), body.graph.inputs[captured], strict=True))
            body.finish(body.emit(side, inputs, side.graph.results))
        variables = list(dict.fromkeys(variable for body in sides for variable in body.variables()))
        graphs = [body.with_variables(variables) for body in sides]
        read = _read(e, op, variables)
        kinds = [tensor.dtype.core for tensor in op.outputs]
        if not agree(graphs[0], graphs[1], kinds):
            if not may_be_core(graphs[0], graphs[1], kinds) or (read and not has_numbers(given)):
                return None
            if not has_numbers(given):
                places = ((yes, slice(count)), (no, slice(count, None)))
                graphs = [_side_made_later(e, side, given, captured, kinds) for side, captured in places]
    except REASONS:
        del e.refusals[refused:]
        return None
    return e.add_many("branch", [test, *given, *read], len(op.outputs), yes=graphs[0], no=graphs[1])


def _side_made_later(
    e: StageEmitter, side: Subgraph, values: Sequence[Value], captured: slice, kinds: Sequence[DType]
) -> Graph:
    """Return a side of a branch on `values`, of which it captures some, as a body that is made once sizes are known."""
    tensors: list[Tensor | None] = [None] * len(values)
    tensors[captured] = side.graph.captures.values()

    return later_body(e.name, values, DeferredNodes(_deferred(e, side, tensors, side.graph.results).build, kinds))


def _deferred(
    e: StageEmitter, subgraph: Subgraph, tensors: Sequence[Tensor | None], wanted: Sequence[Tensor]
) -> DeferredOps:
    """Return what computes `wanted` from operands, each of them one of `tensors`; None is one that is not read."""
    ops = _operations(subgraph, wanted, [tensor for tensor in tensors if tensor is not None])
    return DeferredOps(e.name, tuple(ops), tuple(tensors), {}, tuple(wanted), e)


def add_loop(
    e: StageEmitter,
    op: Operation,
    values: Sequence[Value],
    test: Subgraph,
    step: Subgraph,
    limit: int | None,
    split: SplitStep[Tensor] | None,
) -> Any:
    """Add a loop of the native core, and return the last values of its variables; None if Python has to drive it.

    `values` are the first values of the variables, then what test and body capture. The body returns the test of the
    next iteration, too; `split` is the body without its lists, if it has any.
    """
    count, tested = len(op.outputs), len(test.captured)
    if len(step.graph.results) != count + 1:
        return None
    name, nodes, refused = e.name, len(e.graph.nodes), len(e.refusals)
    try:
        loop = _Loop(e, [*values[:count], *values[count + tested :]], test, step, split)
        inputs = [*test.graph.parameters, *test.graph.captures.values()]
        (condition,) = _emit(e, test, dict(zip(inputs, values, strict=False)), test.graph.results)
        e.name = name
        found = loop.add(op, condition, limit)
    except REASONS:
        found = None
    e.name = name
    if found is None:
        for node in e.graph.nodes[nodes:]:
            unlink(node)
        del e.graph.nodes[nodes:]
        del e.refusals[refused:]
        return None
    changed, lists = found
    made = {at: e.lists.add(e, Node(name, op.type, []), items) for at, items in lists.items()}
    return [made.get(at, changed.get(at, value)) for at, value in enumerate(values[:count])]


class _Loop:
    """A loop in the making; `values` are those of the parameters of `step` before it."""

    def __init__(
        self,
        e: StageEmitter,
        values: Sequence[Value],
        test: Subgraph,
        step: Subgraph,
        split: SplitStep[Tensor] | None,
    ) -> None:
        self._emitter = e
        self._values = values
        self._test = test
        self._step = step
        tensors = [*step.graph.parameters, *step.graph.captures.values()]
        count = len(step.graph.results) - 1
        self._split = SplitStep([False] * count, list(range(len(values))), tensors, []) if split is None else split
        self._plain = [values[place] for place in self._split.plain]
        used = (*(access.parameter for access in self._split.reads), *self._split.changed)
        found = {place: e.lists.of(values[place]) for place in used}
        self._items = {place: items for place, items in found.items() if items is not None}
        if len(self._items) < len(found) or not all(map(_is_usable, self._plain)):
            raise NeedsPythonError

    def add(self, op: Operation, condition: Value, limit: int | None) -> Any:
        """Add the loop and return what CoreLoop.add() returns. Raises one of REASONS."""
        split, e = self._split, self._emitter
        key = e.made.number(op), tuple(value.known_dtype for value in self._plain)
        infos = list(map(info_of, self._plain))
        changed = None if self._items else e.made.failure(key, infos)
        if changed is not None:
            return self._add_data_loop(key, changed, condition, limit)
        forms = [self._items[access.parameter].form() for access in split.reads]
        if None in forms:
            raise NeedsPythonError
        body = _Body(e, [*self._plain, *(Value("item", *form) for form in forms if form is not None)])
        inputs = dict(zip(split.given, body.graph.inputs, strict=True))
        if split.wanted:
            made = body.emit(self._step, inputs, split.wanted)
        else:
            made = body.emit(self._step, inputs, self._step.graph.results)
            changed = [at for at, value in enumerate(made[:-1]) if source(value) is not body.graph.inputs[at]]
            split = replace(split, results=changed)
            made = [*(made[at] for at in changed), made[-1]]
        body.finish(made)
        variables = body.variables()
        graph = body.with_variables(variables)
        read = _read(e, op, variables)
        count, plain = len(self._values), len(self._plain)
        items, given = graph.inputs[plain : plain + len(forms)], graph.inputs[plain + len(forms) :]
        graph.inputs = [*graph.inputs[:plain], *given, *items]
        places = range(count, count + len(read))
        writes = [(_moved(access, count, len(read)), slot) for access, slot in split.writes]
        split = replace(split, plain=[*split.plain, *places], writes=writes)
        whole = [*self._values, *read]
        found = CoreLoop(whole, split, graph, self._test_graph(read), self._items, limit).add(e, condition)
        if found is None and not (read or any(split.lists)):
            e.made.fail(key, infos, tuple(split.results))
            return self._add_data_loop(key, split.results, condition, limit)
        return found

    def _add_data_loop(self, key: Hashable, changed: Sequence[int], condition: Value, limit: int | None) -> Any:
        """Add a loop whose variables change their shapes, or whose body has sizes that depend on data.

        `key` is that of the loop. Returns what CoreLoop.add() returns. Raises one of REASONS.
        """
        step, e, plain = self._step, self._emitter, self._plain
        wanted = [*(step.graph.results[at] for at in changed), step.graph.results[-1]]
        tensors = [*step.graph.parameters, *step.graph.captures.values()]

        if not changed:
            return None
        loop = e.made.later(
            (key, "later", tuple(changed)),
            lambda: LaterLoop.of(e.name, plain, changed, _deferred(e, step, tensors, wanted).build),
        )
        tried = loop.step(list(map(info_of, plain)))
        if tried is None or needs_python(tried):
            return None
        most = None if limit is None else e.sizes(limit, dtypes.i64)
        found, _ = loop.add(e, most, condition, plain)
        return dict(zip(changed, found, strict=True)), {}

    def _test_graph(self, read: Sequence[Value]) -> Graph:
        """Return the test as a graph of the plain parameters and of variables. Raises one of REASONS."""
        test, step = self._test, self._step
        body = _Body(self._emitter, [*self._plain, *read])
        places = {place: at for at, place in enumerate(self._split.plain)}
        count = len(test.graph.parameters)
        outside = {tensor: at for at, tensor in enumerate(step.captured, count)}
        inputs = {}
        tensors = [*enumerate(test.graph.parameters), *((outside[o], i) for o, i in test.graph.captures.items())]
        for place, tensor in tensors:
            if place in places:
                inputs[tensor] = body.graph.inputs[places[place]]
        body.finish(body.emit(test, inputs, test.graph.results))
        return body.with_variables(body.variables())


def _moved(access: ListAccess, count: int, more: int) -> ListAccess:
    """Return an access for `more` parameters behind the first `count`."""
    if access.index is None or access.index < count:
        return access
    return replace(access, index=access.index + more)


class _Body:
    """A body in the making: a graph with an input for each of `given`, and one for each variable that it reads."""

    def __init__(self, e: StageEmitter, given: Sequence[Value]) -> None:
        self._emitter = e.inside()
        self.graph = self._emitter.graph
        for value in given:
            self.graph.input(value.name, value.known_dtype, value.static_shape)

    def emit(self, subgraph: Subgraph, values: dict[Tensor, Value], wanted: Sequence[Tensor]) -> list[Value]:
        """Add what `wanted` depend on. Raises one of REASONS."""
        found = _emit(self._emitter, subgraph, values, wanted)
        if self._emitter.run is not None or self._emitter.dynamic:
            raise NeedsPythonError
        return found

    def finish(self, results: Sequence[Value]) -> None:
        """Make `results` the outputs."""
        self._emitter.finish(results, [f"result {at}" for at in range(len(results))])

    def variables(self) -> list[Any]:
        """Return the variables that it reads."""
        return list(self._emitter.reads)

    def with_variables(self, variables: Sequence[Any]) -> Graph:
        """Return the graph, whose last inputs are these variables."""
        graph, reads = self.graph, self._emitter.reads
        graph.inputs = graph.inputs[: len(graph.inputs) - len(reads)]
        for variable in variables:
            value = reads.get(variable)
            if value is None:
                held = self._emitter.held(variable)
                value = Value(graph.unique_name("unread"), dtypes.from_numpy(held.dtype), held.shape)
            graph.inputs.append(value)
        return graph


def _emit(e: StageEmitter, subgraph: Subgraph, values: dict[Tensor, Value], wanted: Sequence[Tensor]) -> list[Value]:
    """Add the operations that `wanted` depend on to `e`; `values` are those of parameters and captures."""
    emit_ops(e, _operations(subgraph, wanted, values), values, wanted)
    return [values[tensor] for tensor in wanted]


def _operations(subgraph: Subgraph, wanted: Sequence[Tensor], given: Iterable[Tensor]) -> list[Operation]:
    """Return the operations that compute `wanted` from `given`, in order."""
    return [op for op in closure(wanted, subgraph.graph.effects(), given) if op.kind != "Placeholder"]


def _read(e: StageEmitter, op: Operation, variables: Sequence[Any]) -> list[Value]:
    """Return the values of variables at this point of the program.

    Raises NeedsPythonError if a step has to read one, or if one has another shape than at the start of the stage.
    """
    if not all(map(e.is_known, variables)):
        raise NeedsPythonError
    found = [e.read(op, variable) for variable in variables]
    for variable, value in zip(variables, found, strict=True):
        if value is None or value.shape != e.held(variable).shape:
            raise NeedsPythonError
    return [value for value in found if value is not None]


def _is_usable(value: Value) -> bool:
    return value.dtype is not dtypes.string and is_known(value)
