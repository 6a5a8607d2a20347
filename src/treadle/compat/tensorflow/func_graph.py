"""Graphs of functions: branches, loop bodies and functions traced by tf.function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.compat.tensorflow import context, nest
from treadle.compat.tensorflow.convert import constant_in, convert_to_tensor
from treadle.compat.tensorflow.effects import EFFECTS, closure, effects_of
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.graph import Graph, Operation
from treadle.compat.tensorflow.program import Program
from treadle.compat.tensorflow.scopes import enter_graph
from treadle.compat.tensorflow.state import Run
from treadle.compat.tensorflow.tensor import Tensor, constant_value
from treadle.dtypes import string
from treadle.frontends.tensorflow.list_loops import LoopStep, SplitStep, split_step
from treadle.ops.op import Array, Info


class FuncGraph(Graph):
    """The graph of a function. Tensors of the `outer` graph that it reads become its captures."""

    def __init__(self, outer: Graph | None) -> None:
        super().__init__(None if outer is None else outer.describer)
        self.outer = outer
        self.eager_variables = outer is None
        self.captures: dict[Tensor, Tensor] = {}
        self.parameters: list[Tensor] = []
        self.results: list[Tensor] = []
        self.structure: Any = None
        self.seed = outer.seed if outer is not None else context.process_seed()
        self.may_create_variables = False
        self.created_variables: list[Any] = []

    def parameter(self, info: Info, name: str) -> Tensor:
        """Add a parameter of the function."""
        return self.create_op("Placeholder", (), _unfed, name, outputs=[info]).outputs[0]

    def enter(self, tensor: Tensor) -> Tensor:
        """Return `tensor` as a tensor of this graph. A tensor of an outer graph is captured."""
        if tensor.graph is self:
            return tensor
        if tensor in self.captures:
            return self.captures[tensor]
        if self.outer is None:
            return super().enter(tensor)
        outside = self.outer.enter(tensor)
        known = constant_value(outside)
        if known is not None:
            return constant_in(self, known)
        if outside not in self.captures:
            self.captures[outside] = self.parameter(outside.info, f"capture_{len(self.captures)}")
        return self.captures[outside]

    def trace(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call `function` with this graph as the current one, and keep what it returns as the results."""
        with self.as_default():
            self.structure = function(*args, **kwargs)
            leaves = nest.flatten(self.structure)
            self.results = [
                self.enter(_tensor(leaf)) for leaf in leaves if not isinstance(leaf, Operation) and leaf is not None
            ]

    def effects(self) -> list[Operation]:
        """Return the operations that run even if no result needs them."""
        return [op for op in self.get_operations() if op.kind in EFFECTS or op.kind.startswith("Assign")]

    def program(self, *, effects: bool) -> Program:
        """Return the program of the results; with `effects` also of operations with side effects."""
        ops = closure(self.results, self.effects() if effects else (), ())
        given = [*self.parameters, *self.captures.values()]
        return Program([op for op in ops if op.kind != "Placeholder"], given, self.results)


def _unfed(e: Any, _: Any) -> Any:
    raise InvalidArgumentError(None, None, f"You must feed a value for placeholder tensor '{e.name}'")


def _tensor(leaf: Any) -> Tensor:
    found = convert_to_tensor(leaf)
    assert isinstance(found, Tensor)
    return found


def effects_of_parts(*subgraphs: Subgraph) -> dict[str, Any]:
    """Return the attributes of effects_of() for an operation that runs the subgraphs."""
    return effects_of(op for subgraph in subgraphs for op in subgraph.graph.get_operations())


class Subgraph:
    """A traced branch or loop body, which Python runs with the arrays of its parameters and captures."""

    def __init__(
        self, outer: Graph, function: Callable[..., Any], parameters: Sequence[tuple[Info, str]], args: Any
    ) -> None:
        self.graph = FuncGraph(outer)
        with enter_graph(self.graph):
            self.graph.parameters = [self.graph.parameter(info, name) for info, name in parameters]
        self._args = args
        self.graph.trace(function, *nest.pack_sequence_as(args, self.graph.parameters))
        self._program: Program | None = None

    @property
    def captured(self) -> list[Tensor]:
        """The tensors of the outer graph that it reads."""
        return list(self.graph.captures)

    def append_test(self, test: Callable[..., Any]) -> None:
        """Add a result: `test` of the other results, in the structure that the body returned."""
        graph, results = self.graph, self.graph.results
        graph.trace(test, *nest.pack_sequence_as(self._args, results))
        graph.results = [*results, *graph.results]

    def split_from_lists(self, count: int) -> SplitStep[Tensor] | None:
        """Split the body, as the step of a loop of `count` variables, from the lists that it reads and writes.

        Returns None if it has no lists or cannot be split.
        """
        graph = self.graph
        given = [*graph.parameters, *graph.captures.values()]
        lists = [tensor.dtype.core is string and tensor.shape.rank == 0 for tensor in given]
        if not any(lists):
            return None
        targets = graph.effects()

        def producer(tensor: Tensor) -> tuple[str, Sequence[Tensor]] | None:
            return None if tensor.op.kind == "Placeholder" else (tensor.op.kind, tensor.op.inputs)

        def dependencies(ends: Sequence[Tensor], known: Sequence[Tensor]) -> Sequence[Tensor]:
            return [op.outputs[0] for op in closure(ends, targets, known) if op.outputs]

        def resizes(tensor: Tensor) -> bool:
            return bool(tensor.op.attrs.get("resize_if_index_out_of_bounds", False))

        results, extra = graph.results[:count], graph.results[count:]
        return split_step(LoopStep(given, lists, results, producer, dependencies, resizes, constant_value, extra))

    def run_split(self, split: SplitStep[Tensor], run: Run, arrays: Sequence[Array]) -> list[Array]:
        """Run the split step on arrays of its operands."""
        if self._program is None:
            ops = closure(split.wanted, self.graph.effects(), split.given)
            self._program = Program([op for op in ops if op.kind != "Placeholder"], split.given, split.wanted)
        return self._program.run_part(arrays, run)

    def run(self, run: Run, parameters: Sequence[Array], captures: Sequence[Array]) -> list[Array]:
        """Run it, and return its results."""
        if self._program is None:
            self._program = self.graph.program(effects=True)
        return self._program.run_part([*parameters, *captures], run)
