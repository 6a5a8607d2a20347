"""The importer: it turns one ATen op at a time into core nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any

import torch

from treadle.errors import LimitError, ShapeError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.torch.build import Builder, Complex, ComplexType, Number
from treadle.frontends.torch.decompose import decompose
from treadle.frontends.torch.dtypes import PARTS, array_of, core
from treadle.frontends.torch.made_bodies import MadeBodies
from treadle.frontends.torch.rules.complex import on_parts
from treadle.frontends.torch.table import MAY_COPY, VIEW_WRITES, complex_rule_of, rule_of
from treadle.frontends.torch.tensor import MISSING, NOT_COMPUTED, Box, Missing, NotComputed, View
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.graph import Graph
from treadle.graph.value import Value

ONLY_IN_RUNS = "it takes a number that is known only when the graph runs"

MOST_NESTED = 8
"""The largest depth of decompositions inside decompositions."""

Location = str | Callable[[], str]
"""The place of a node for messages, or what tells it."""

RunGraph = Callable[["Importer", torch.fx.GraphModule, Sequence[Any], str], Any]
"""(importer, FX graph of ATen ops, its arguments, prefix of node names) -> its outputs, as `fx.run`."""


class Importer:
    """Turns calls of ATen ops into the nodes of one graph.

    An op without a rule is decomposed by PyTorch, and `run_graph` imports the simpler ops. Faults are collected in
    `faults`; results that depend on a faulty op are MISSING. With `defers`, a shape or number that is not known yet is
    no fault: whoever runs the program makes the rest of it later.

    Attributes:
        b: Adds the nodes.
        faults: What is wrong so far.
        follows_data: Whether sizes may depend on data, so that nothing should be made for one size alone.
        made: What was made of bodies behind such sizes.
    """

    def __init__(
        self,
        graph: Graph,
        faults: Faults,
        run_graph: RunGraph,
        *,
        defers: bool = False,
        follows_data: bool = False,
        made: MadeBodies | None = None,
    ) -> None:
        self._defers = defers
        self.follows_data = follows_data
        self.b = Builder(graph)
        self.faults = faults
        self._run_graph = run_graph
        self._depth = 0
        self._constants: dict[int, Box] = {}
        self._alive: list[object] = []
        self._lock = RLock()
        self.made = MadeBodies() if made is None else made

    def inner(self, graph: Graph, faults: Faults, *, follows_data: bool) -> Importer:
        """Returns an importer for the graph of a body."""
        return Importer(graph, faults, self._run_graph, defers=self._defers, follows_data=follows_data, made=self.made)

    def run(self, module: torch.fx.GraphModule, args: Sequence[Any], prefix: str) -> Any:
        """Returns the outputs of an FX graph for `args`. Adds its nodes, with names that begin with `prefix`."""
        return self._run_graph(self, module, args, prefix)

    def constant(self, tensor: torch.Tensor, name: str) -> Box:
        """Returns a parameter, buffer or other tensor of the model, sharing its memory.

        Raises Unsupported as `array_of`.
        """
        found = self._constants.get(id(tensor))
        if found is None:
            found = self._constants[id(tensor)] = Box(
                self._constant(tensor, name), owner=f"the model's own tensor {name!r}"
            )
            self.keep_alive(tensor)  # keeps its id unique
        return found

    def own(self, tensor: torch.Tensor, path: str) -> Box:
        """Returns a parameter or buffer of the model that has this path. Raises Unsupported as `array_of`."""
        return self.constant(tensor, path)

    def attribute(self, value: Any, path: str) -> Any:  # noqa: ARG002 - subclasses take it
        """Returns an attribute of the model, with this path, that is no tensor."""
        return value

    def _constant(self, tensor: torch.Tensor, name: str) -> Value | Complex:
        if not tensor.is_complex():
            return self.b.constant(array_of(tensor), name)
        plain = tensor.detach().resolve_conj()
        return Complex(*(self.b.constant(array_of(part.contiguous()), name) for part in (plain.real, plain.imag)))

    def keep_alive(self, held: object) -> None:
        """Keeps `held` alive as long as the importer."""
        self._alive.append(held)

    @contextmanager
    def elsewhere(self, graph: Graph, faults: Faults, facts: CaseAnalysis | None = None) -> Iterator[None]:
        """Adds nodes to a graph for sizes that depend on data, and collects other faults, in the block.

        With `facts`, nothing is assumed of sizes, which are expressions of these. Other threads wait.
        """
        with self._lock:
            before = self.b.graph, self.b.name, self.b.facts, self.faults, self.follows_data
            self.b.graph, self.b.facts, self.faults, self.follows_data = graph, facts, faults, True
            try:
                yield
            finally:
                self.b.graph, self.b.name, self.b.facts, self.faults, self.follows_data = before

    def attempt(self, location: Location, make: Callable[[], Any]) -> Any:
        """Returns what `make` returns, or MISSING after a fault, which is recorded at `location`.

        Raises NeedsShapeError where nodes can be made later.
        """
        before = len(self.b.graph.nodes)
        try:
            return make()
        except NeedsShapeError as need:
            del self.b.graph.nodes[before:]
            if self._defers:
                raise
            self.faults.add(_text(location), need)
            return MISSING
        except (Fault, ShapeError, LimitError) as fault:
            del self.b.graph.nodes[before:]
            self.faults.add(_text(location), fault if isinstance(fault, Fault) else fault.what)
            return MISSING

    def call(self, schema: Any, args: Sequence[Any], kwargs: dict[str, Any], location: Location) -> Any:
        """Returns the result of the op that `schema` describes: Boxes, Python values, lists of them, or MISSING."""
        given = bind_arguments(schema, args, kwargs)
        if any(map(is_missing, given)):
            return MISSING
        return self.attempt(location, lambda: self._apply_rule(schema, given))

    def _apply_rule(self, schema: Any, given: list[Any]) -> Any:
        name, overload = schema.name.removeprefix("aten::"), schema.overload_name
        if overload == "out" or overload.endswith("_out"):
            raise Unsupported("it writes its result into a given tensor (out=); assign the result instead")
        for argument, held in zip(schema.arguments, given, strict=True):
            if held is None and isinstance(argument.type, torch._C.TensorType):
                raise Fault(f"its argument {argument.name!r} is None, where a tensor belongs")
        target = _written_argument(schema)
        find = complex_rule_of if any(map(_is_complex, given)) else rule_of
        rule = find(name, overload) or (find(name.removesuffix("_"), overload) if target is not None else None)
        if rule is None:
            return self.with_numbers(lambda: self._decompose(schema, given), given)
        rest = [self._plain(argument) for argument in given]
        result = self.with_numbers(lambda: rule(self.b, *rest), rest)
        if target is not None:
            box = given[target]
            if not isinstance(box, Box):
                raise Unsupported("it writes into something that is no tensor")
            old = box.held()
            if isinstance(old, Complex) != isinstance(result, Complex):
                raise Unsupported("it writes complex numbers into a real tensor, or real ones into a complex tensor")
            new = self.b.cast(result, old.known_dtype) if isinstance(old, Value) else result
            if new is not old:
                box.write(new)
            return box
        if schema.returns and schema.returns[0].alias_info is not None and isinstance(given[0], Box):
            return self._view(name, given[0], rule, rest, result)
        return to_boxes(result)

    def with_numbers(self, make: Callable[[], Any], given: Sequence[Any]) -> Any:
        """Returns what `make` does. Raises NeedsShapeError if it may have to know the numbers among `given`."""
        try:
            return make()
        except NeedsShapeError:
            raise
        except (Unsupported, TypeError) as error:
            values = list(_numbers(given))
            if not values:
                raise
            what = str(error) if isinstance(error, Unsupported) else ONLY_IN_RUNS
            raise NeedsShapeError(*values, what=what) from error

    def _view(self, name: str, base: Box, rule: Any, rest: list[Any], result: Any) -> Any:
        """Returns `result` as a view of `base`."""
        if isinstance(result, list):
            return [self._part(base, rule, rest, result, number) for number in range(len(result))]
        if result.dtype != base.held().dtype:
            return Box(result)  # a cast makes a copy
        back = VIEW_WRITES.get(name)
        b = self.b
        if back is not None and isinstance(result, Complex):
            back = on_parts(back)
        return Box.view(
            result,
            base,
            View(partial(rule, b), None if back is None else partial(back, b), rest[1:]),
            may_share=name in MAY_COPY,
        )

    def _part(self, base: Box, rule: Any, rest: list[Any], result: list[Value], number: int) -> Box:
        return Box.view(result[number], base, View(partial(rule, self.b), None, rest[1:], number), may_share=False)

    def _plain(self, argument: Any) -> Any:
        """Returns `argument` as rules take it."""
        if isinstance(argument, Box):
            return argument.held()
        if isinstance(argument, NotComputed):
            raise Unsupported(
                "it reads what treadle does not compute: indices of a pool, what a gradient needs, "
                "or a size that depends on data"
            )
        if isinstance(argument, torch.Tensor):
            return self.constant(argument, "constant").held()
        if isinstance(argument, torch.dtype):
            return ComplexType(PARTS[argument]) if argument in PARTS else core(argument)
        if isinstance(argument, list | tuple):
            return [self._plain(item) for item in argument]
        return argument

    def _decompose(self, schema: Any, given: list[Any]) -> Any:
        """Returns the result of PyTorch's decomposition of the op. Raises Unsupported if there is none."""
        if self._depth >= MOST_NESTED:
            raise Unsupported("treadle has no rule for it")
        module, tensors = decompose(schema, given)
        name = self.b.name
        self._depth += 1
        try:
            inner = Faults()
            outer, self.faults = self.faults, inner
            try:
                result = self.run(module, tensors, f"{name}/")
            finally:
                self.faults = outer
            if inner:
                raise Unsupported(f"its decomposition has unsupported ops: {'; '.join(inner.sentences())}")
        finally:
            self._depth -= 1
            self.b.name = name
        return result


def _text(location: Location) -> str:
    return location if isinstance(location, str) else location()


def _numbers(given: Sequence[Any]) -> Iterator[Value]:
    """Yields the values of the numbers among arguments."""
    for argument in given:
        if isinstance(argument, Number):
            yield argument.value
        elif isinstance(argument, list | tuple):
            yield from _numbers(argument)


def bind_arguments(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the arguments in the order of the schema, with defaults for omitted ones."""
    rest = schema.arguments[len(args) :]
    return [*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest)]


def _written_argument(schema: Any) -> int | None:
    """Returns the position of the argument that the op writes in place, or None."""
    for number, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return number
    return None


def _is_complex(argument: Any) -> bool:
    """Returns True if an argument is, holds or requests complex numbers."""
    if isinstance(argument, list | tuple):
        return any(map(_is_complex, argument))
    if isinstance(argument, Box):
        return isinstance(argument.held(), Complex)
    if isinstance(argument, torch.Tensor):
        return bool(argument.is_complex())
    return isinstance(argument, complex) or (isinstance(argument, torch.dtype) and argument in PARTS)


def is_missing(argument: Any) -> bool:
    """Returns True if an argument depends on a faulty op."""
    if isinstance(argument, list | tuple):
        return any(map(is_missing, argument))
    return isinstance(argument, Missing)


def to_boxes(result: Any) -> Any:
    """Returns a rule's result as programs hold it: values in Boxes."""
    if isinstance(result, Value | Complex):
        return Box(result)
    if isinstance(result, list | tuple):
        return [NOT_COMPUTED if item is None else to_boxes(item) for item in result]
    return result
