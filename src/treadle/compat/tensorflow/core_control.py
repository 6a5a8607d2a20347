"""Branches and loops of graphs as those of the native core, where nothing in them needs Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle import dtypes
from treadle.compat.tensorflow.errors import OpError
from treadle.compat.tensorflow.func_graph import Subgraph
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.program import closure
from treadle.compat.tensorflow.stage import StageEmitter
from treadle.compat.tensorflow.tensor import Tensor
from treadle.frontends.tensorflow.core_control import agree, decides
from treadle.frontends.tensorflow.core_loops import CoreLoop, source
from treadle.frontends.tensorflow.emitter import NeedsShapeError
from treadle.frontends.tensorflow.list_loops import SplitStep
from treadle.frontends.tensorflow.translate import OPERAND_ERRORS, finish
from treadle.graph.graph import Graph, unlink
from treadle.graph.shape import is_static
from treadle.graph.value import Value


class _NeedsPythonError(Exception):
    """A body has a Python step, or a shape in it is not known."""


_REASONS = (_NeedsPythonError, NeedsShapeError, OpError, *OPERAND_ERRORS)
"""Why a body cannot be a graph of core nodes. Python then runs it, and raises what is wrong."""


def add_branch(e: StageEmitter, op: Operation, values: Sequence[Value], yes: Subgraph, no: Subgraph) -> Any:
    """Add a branch of the native core, and return its results; None if Python has to take the side.

    `values` are the predicate, then what both sides capture. Both must give results of the same known shapes.
    """
    test, *given = values
    if not decides(test) or not op.outputs or not all(map(_is_usable, given)):
        return None
    count = len(yes.captured)
    try:
        sides = [_Body(e, given) for _ in (yes, no)]
        for body, side, captured in zip(sides, (yes, no), (slice(count), slice(count, None)), strict=True):
            inputs = dict(zip(side.graph.captures.values(), body.graph.inputs[captured], strict=True))
            body.finish(body.emit(side, inputs, side.graph.results))
        variables = list(dict.fromkeys(variable for body in sides for variable in body.variables()))
        graphs = [body.with_variables(variables) for body in sides]
        read = _read(e, op, variables)
        if not agree(graphs[0], graphs[1], [tensor.dtype.core for tensor in op.outputs]):
            return None
    except _REASONS:
        return None
    return e.add_many("branch", [test, *given, *read], len(op.outputs), yes=graphs[0], no=graphs[1])


def add_loop(
    e: StageEmitter, op: Operation, values: Sequence[Value], test: Subgraph, step: Subgraph, limit: int | None
) -> Any:
    """Add a loop of the native core, and return the last values of its variables; None if Python has to drive it.

    `values` are the first values of the variables, then what test and body capture. The body returns the test of the
    next iteration, too.
    """
    count, tested = len(op.outputs), len(test.captured)
    variables, of_test, of_step = values[:count], values[count : count + tested], values[count + tested :]
    plain = [*variables, *of_step]
    if len(step.graph.results) != count + 1 or not all(map(_is_usable, values)):
        return None
    name, nodes = e.name, len(e.graph.nodes)
    try:
        body = _Body(e, plain)
        inputs = dict(zip([*step.graph.parameters, *step.graph.captures.values()], body.graph.inputs, strict=True))
        made = body.emit(step, inputs, step.graph.results)
        changed = [at for at in range(count) if source(made[at]) is not body.graph.inputs[at]]
        body.finish([*(made[at] for at in changed), made[-1]])
        of_body = body.variables()
        graph = body.with_variables(of_body)
        read = _read(e, op, of_body)
        whole = [*plain, *read]
        split: SplitStep[Tensor] = SplitStep([False] * count, list(range(len(whole))), [], [], results=changed)
        found = CoreLoop(whole, split, graph, _test_graph(e, whole, test, step), {}, limit)
        inputs = dict(zip([*test.graph.parameters, *test.graph.captures.values()], [*variables, *of_test], strict=True))
        (condition,) = _emit(e, test, inputs, test.graph.results)
        e.name = name
        results = found.add(e, condition)
    except _REASONS:
        results = None
    e.name = name
    if results is None:
        for node in e.graph.nodes[nodes:]:
            unlink(node)
        del e.graph.nodes[nodes:]
        return None
    return [results[0].get(at, value) for at, value in enumerate(variables)]


class _Body:
    """A body in the making: a graph with an input for each of `given`, and one for each variable that it reads."""

    def __init__(self, e: StageEmitter, given: Sequence[Value]) -> None:
        self._emitter = e.inside()
        self.graph = self._emitter.graph
        for value in given:
            self.graph.input(value.name, value.known_dtype, value.static_shape)

    def emit(self, subgraph: Subgraph, values: dict[Tensor, Value], wanted: Sequence[Tensor]) -> list[Value]:
        """Add what `wanted` depend on. Raises one of _REASONS."""
        found = _emit(self._emitter, subgraph, values, wanted)
        if self._emitter.run is not None or self._emitter.dynamic:
            raise _NeedsPythonError
        return found

    def finish(self, results: Sequence[Value]) -> None:
        """Make `results` the outputs."""
        finish(self.graph, results, [f"result {at}" for at in range(len(results))])

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
    for op in closure(wanted, subgraph.graph.effects(), ()):
        if op.kind == "Placeholder":
            continue
        e.name = op.name
        found = op.emit(e, [values[tensor] for tensor in op.inputs])
        results = found if isinstance(found, list | tuple) else [] if found is None else [found]
        if len(results) < len(op.outputs):
            raise _NeedsPythonError
        values.update(zip(op.outputs, results, strict=False))
    return [values[tensor] for tensor in wanted]


def _test_graph(e: StageEmitter, whole: Sequence[Value], test: Subgraph, step: Subgraph) -> Graph:
    """Return the test as a graph of the variables and captures of the body. Raises one of _REASONS."""
    body = _Body(e, whole)
    inputs = dict(zip(test.graph.parameters, body.graph.inputs, strict=False))
    places = {tensor: at for at, tensor in enumerate(step.captured, len(test.graph.parameters))}
    for outer, inner in test.graph.captures.items():
        if outer not in places:
            raise _NeedsPythonError
        inputs[inner] = body.graph.inputs[places[outer]]
    body.finish(body.emit(test, inputs, test.graph.results))
    return body.with_variables(body.variables())


def _read(e: StageEmitter, op: Operation, variables: Sequence[Any]) -> list[Value]:
    """Return the values of variables at this point of the program.

    Raises _NeedsPythonError if a step has to read one, or if one has another shape than at the start of the stage.
    """
    if not all(map(e.is_known, variables)):
        raise _NeedsPythonError
    found = [e.read(op, variable) for variable in variables]
    for variable, value in zip(variables, found, strict=True):
        if value is None or value.shape != e.held(variable).shape:
            raise _NeedsPythonError
    return [value for value in found if value is not None]


def _is_usable(value: Value) -> bool:
    return value.dtype is not dtypes.string and value.shape is not None and is_static(value.shape)
