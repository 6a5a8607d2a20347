"""Finds loops that run in front of a stage: their carried values change sizes, or nothing counts their iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle import dtypes
from treadle.errors import TreadleError
from treadle.graph.dim import equals, is_expression, maximum, minimum
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.node import Node
from treadle.graph.shape import Shape, elements
from treadle.graph.value import Value
from treadle.ops.loop import form_of
from treadle.ops.sizes import known_value
from treadle.passes.base import PassContext
from treadle.passes.pipeline import infer
from treadle.passes.regions import first_region
from treadle.passes.specialize import copied, copy_node, specialize_open
from treadle.passes.stage_names import SizeNames
from treadle.runtime.data_stage import LoopForm

_MOST_TRIES = 16
"""How often the body of a loop is inferred at most: each time but the last finds at least one changing dimension."""


@dataclass(frozen=True, slots=True)
class DataLoop:
    """A loop that runs in front of a stage, as native/include/treadle/data_loop.h has it.

    Attributes:
        node: The loop.
        body: What an iteration computes: its inputs are the number of the iteration, carried values, items of sliced
            values and captured values; its outputs whether there is another one, carried values and items.
        names: The names of the body's sizes; those that data tells are the changing dimensions of carried values.
        changing: The axes of each carried value that change.
        items: The shapes of the items of stacked values, with None for sizes that the loop tells.
        captured: The operands that the body reads whole.
    """

    node: Node
    body: Graph
    names: SizeNames
    changing: tuple[tuple[int, ...], ...]
    items: tuple[tuple[int | None, ...], ...]
    captured: tuple[Value, ...]

    @classmethod
    def of(cls, node: Node, context: PassContext) -> DataLoop | None:
        """Return the loop `node`, whose operands have known shapes; None if no plan can serve all sizes of its body."""
        body: Graph = node.attrs["body"]
        if any(each.op == "call" or _reads_text(each) for each in all_nodes(body)):
            return None
        changing: list[set[int]] = [set() for _ in range(form_of(node.attrs).carried)]
        for _ in range(_MOST_TRIES):
            names = SizeNames()
            graph, captured = _body(node, names, changing)
            try:
                opened = infer(specialize_open(graph, Facts(), {}), context)
            except TreadleError:
                return None
            found = _changing(opened, changing)
            if found is None or first_region(opened).graph is not opened:
                return None
            if found == changing:
                shapes = [value.static_shape for value in opened.outputs[1 + len(changing) :]]
                items = tuple(tuple(None if is_expression(dim) else dim for dim in shape) for shape in shapes)
                axes = tuple(tuple(sorted(each)) for each in changing)
                return cls(node, graph, names, axes, items, captured)
            changing = found
        return None

    @property
    def carried(self) -> list[Value]:
        """The initial carried values."""
        return [value for value in self.node.inputs[2 : 2 + len(self.changing)] if value is not None]

    @property
    def sliced(self) -> list[Value]:
        """The values of which each iteration takes an item."""
        numbers = form_of(self.node.attrs).items()
        return [value for value in self.node.inputs[numbers.start : numbers.stop] if value is not None]

    @property
    def bounds(self) -> list[Value | None]:
        """The limit and the condition of the first iteration; None for one that the step need not read."""
        return [None if value is None or known_value(value) is not None else value for value in self.node.inputs[:2]]

    @property
    def operands(self) -> list[Value]:
        """What the step reads, in its order."""
        bounds = [value for value in self.bounds if value is not None]
        return [*bounds, *self.carried, *self.sliced, *self.captured]

    def form(self, rest_sizes: int) -> LoopForm:
        """Return how the step runs the loop in front of a stage that has `rest_sizes` sizes known before."""
        has_limit, has_condition = (value is not None for value in self.bounds)
        return LoopForm(
            has_limit=has_limit,
            has_condition=has_condition,
            rest_sizes=rest_sizes,
            body_sizes=len(self.names.dims),
            carried=self.changing,
            stacked=tuple(tuple(axis for axis, dim in enumerate(item) if dim is None) for item in self.items),
            sliced=len(self.sliced),
            captured=len(self.captured),
        )

    @property
    def args(self) -> list[int]:
        """The step's arguments for the loop."""
        initial = [
            value.static_shape[axis] for value, axes in zip(self.carried, self.changing, strict=True) for axis in axes
        ]
        item_bytes = [elements(value.static_shape[1:]) * value.known_dtype.size for value in self.sliced]
        return [self._most(), *item_bytes, *self.names.dims.values(), *initial]

    def _most(self) -> int:
        """The most iterations that are known before the run; -1 for any number."""
        limit, condition = (None if value is None else known_value(value) for value in self.node.inputs[:2])
        if condition is not None and not condition.reshape(-1)[0]:
            return 0
        bounds = [value.static_shape[0] for value in self.sliced]
        if limit is not None:
            bounds.append(maximum(limit.reshape(-1).tolist()[0], 0))
        return minimum(*bounds) if bounds else -1

    def result_shapes(self, names: SizeNames) -> list[Shape]:
        """Return the shapes of the loop's results for a graph with these `names`.

        They are the carried values, the stacked ones, and the number of iterations. Sizes that data tells get names
        in the order in which the step tells them.
        """
        shapes: list[Shape] = []
        for value, result, axes in zip(self.carried, self.node.outputs, self.changing, strict=False):
            shapes.append(names.shape(result.name, value.static_shape, axes))
        made = names.tell(self.node.outputs[-1].name)
        for result, item in zip(self.node.outputs[len(shapes) :], self.items, strict=False):
            dims = enumerate(item, 1)
            shapes.append((made, *(names.tell(f"{result.name}.{axis}") if dim is None else dim for axis, dim in dims)))
        return [*shapes, ()]


def _reads_text(node: Node) -> bool:
    return any(value is not None and value.dtype is dtypes.string for value in (*node.inputs, *node.outputs))


def _body(node: Node, names: SizeNames, changing: Sequence[set[int]]) -> tuple[Graph, tuple[Value, ...]]:
    """The body of a loop as a graph of its own, with `names` for sizes, and the operands that its last inputs are."""
    body: Graph = node.attrs["body"]
    form = form_of(node.attrs)
    values = [value for value in node.inputs[2:] if value is not None]
    graph = Graph(f"{node.name}.body")
    copies: dict[Value, Value] = {}
    captured: list[Value] = []

    def add(formal: Value, shape: Shape) -> None:
        made = Value(graph.unique_name(formal.name), formal.dtype, shape)
        graph.inputs.append(made)
        copies[formal] = made

    number, *formals = body.inputs
    add(number, ())
    for position, (formal, value) in enumerate(zip(formals, values, strict=True)):
        if position < form.carried:
            add(formal, names.shape(formal.name, value.static_shape, changing[position]))
        elif position < form.carried + form.sliced:
            add(formal, names.shape(formal.name, value.static_shape[1:]))
        elif value.data is not None:
            copies[formal] = graph.constant(value.data, formal.name)
        elif (sizes := names.add_known(graph, value)) is not None:
            copies[formal] = sizes
        else:
            add(formal, names.shape(formal.name, value.static_shape))
            captured.append(value)
    for each in body.nodes:
        copy_node(graph, each, copies, forget_shapes=True)
    for position, value in enumerate(body.outputs):
        result = graph.value(f"{node.name}.made{position}", value.dtype)
        graph.outputs.append(graph.add("identity", [copied(graph, value, copies)], outputs=[result]).output)
    return graph, tuple(captured)


def _changing(opened: Graph, before: Sequence[set[int]]) -> list[set[int]] | None:
    """The axes of carried values that an iteration changes, and those of `before`; None if a shape is not known."""
    if any(value.shape is None for value in opened.outputs):
        return None
    found = []
    for axes, given, made in zip(before, opened.inputs[1:], opened.outputs[1:], strict=False):
        old, new = given.static_shape, made.static_shape
        if len(old) != len(new):
            return None
        found.append(
            axes | {axis for axis, (one, other) in enumerate(zip(old, new, strict=True)) if not equals(one, other)}
        )
    return found
