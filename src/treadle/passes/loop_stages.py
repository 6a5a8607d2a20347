"""Finds loops that run in front of a stage: their carried values change sizes, their bodies find sizes, or nothing
counts their iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.errors import TreadleError
from treadle.graph.dim import equals, hint_of, is_expression, maximum, minimum
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape, StaticShape, elements
from treadle.graph.value import Value
from treadle.ops.loop import form_of
from treadle.ops.sizes import known_value
from treadle.passes.certain_dims import certain_shapes
from treadle.passes.regions import first_region
from treadle.passes.stage_bodies import (
    Changing,
    Search,
    StageBody,
    form_of_operands,
    may_change_ranks,
    needs_python,
    numbers_or_none,
    outer_dims,
)
from treadle.passes.stage_names import Dims, SizeNames
from treadle.records import dataclass
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
        changing: The axes of each carried value that change. Their sizes are those of the body that data tells.
        items: The shapes of the items of stacked values, with None for sizes that the loop tells.
        outer_items: The same in sizes of the graph around the loop, with None for those that only the loop tells.
        is_counted: Whether the number of the iteration is a size of the body, the first one that data tells.
        appended: Whether an iteration writes each carried value behind what it was before, in one memory.
    """

    node: Node
    body: StageBody
    changing: tuple[frozenset[int], ...]
    items: tuple[Dims, ...]
    outer_items: tuple[Dims, ...]
    is_counted: bool
    appended: tuple[bool, ...]

    @classmethod
    def of(cls, node: Node, search: Search, around: str) -> DataLoop | None:
        """Return the loop `node` of the graph `around`, whose operands have known shapes; None if no plan can serve all
        sizes of its body."""
        body: Graph = node.attrs["body"]
        if needs_python(body):
            return None
        key = (body, node.attrs["carried"], node.attrs["sliced"], node.attrs["padded"], form_of_operands(node.inputs))
        kept = search.findings.forms.get(key)
        found = _searched(node, search, around) if kept is None else kept.found(node, around)
        if found is None:
            return None
        if kept is None:
            search.findings.forms.put(key, _Kept.of(node, found))
        axes = tuple(map(frozenset, found.changing))
        items = tuple(map(numbers_or_none, found.items))
        appended = tuple(found.body.append_in_place(1 + number) for number in range(len(axes)))
        return cls(node, found.body, axes, items, tuple(found.outer_items), found.is_counted, appended)

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name

    @property
    def bodies(self) -> tuple[StageBody]:
        """The body."""
        return (self.body,)

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
        return [*bounds, *self.carried, *self.sliced, *self.body.captured]

    def form(self, rest_sizes: int) -> LoopForm:
        """Return how the step runs the loop in front of a stage that has `rest_sizes` sizes known before."""
        has_limit, has_condition = (value is not None for value in self.bounds)
        return LoopForm(
            has_limit=has_limit,
            has_condition=has_condition,
            is_counted=self.is_counted,
            rest_sizes=rest_sizes,
            body_sizes=len(self.body.names.dims),
            carried=tuple(
                tuple(axis in axes for axis in range(len(value.static_shape)))
                for value, axes in zip(self.carried, self.changing, strict=True)
            ),
            stacked=tuple(tuple(-1 if dim is None else dim for dim in item) for item in self.items),
            sliced=len(self.sliced),
            captured=len(self.body.captured),
            appended=self.appended,
        )

    @property
    def args(self) -> list[int]:
        """The step's arguments for the loop."""
        initial = [dim for value in self.carried for dim in value.static_shape]
        item_bytes = [elements(value.static_shape[1:]) * value.known_dtype.size for value in self.sliced]
        return [self._most(), *item_bytes, *self.body.names.dims.values(), *initial]

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
        stacked = self.node.outputs[len(shapes) :]
        for result, item, outer in zip(stacked, self.items, self.outer_items, strict=False):
            told = names.told_shape(result.name, item)
            sizes = (other if one is None else names.named(one) for one, other in zip(outer, told, strict=True))
            shapes.append((made, *sizes))
        return [*shapes, ()]


@dataclass(frozen=True, slots=True)
class _Inferred:
    """A body whose shapes were inferred.

    Attributes:
        body: The body.
        inputs: Its inputs, with expressions for sizes.
        dims: The dimensions of its outputs.
        outer_items: Those of stacked items in sizes of the graph around the loop, None for others.
        is_assumed: Whether these hold only under assumptions.
        is_counted: Whether the number of the iteration is a size.
        is_whole: Whether one plan computes it, as no size in it depends on data.
    """

    body: StageBody
    inputs: Sequence[Value]
    dims: Sequence[Dims]
    outer_items: Sequence[Dims]
    is_assumed: bool
    is_counted: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """A body, the axes of carried values that it changes, and what is known of the items that it gives."""

    body: StageBody
    changing: Changing
    items: Sequence[Dims]
    outer_items: Sequence[Dims]
    is_counted: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A size that is known around a loop, by its number among those of its body."""

    number: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was found for a loop without the names and expressions of the graph around it.

    `outer` has, for each size of items that is an expression around the loop, which of the body's sizes it is, and
    numbers and None for others. `operands` keeps constants that the key has by identity.
    """

    changing: Changing
    items: Sequence[Dims]
    outer: Sequence[Sequence[_Place | int | None]]
    is_counted: bool
    is_whole: bool
    operands: Sequence[Value | None]

    @classmethod
    def of(cls, node: Node, found: _Found) -> _Kept:
        """Return what to keep of `found`, that of `node`."""
        places = {id(size): _Place(place) for place, size in enumerate(found.body.names.dims.values())}
        outer = [[_outside(dim, places) for dim in dims] for dims in found.outer_items]
        constants = [value for value in node.inputs if value is not None and value.is_constant]
        items = list(map(numbers_or_none, found.items))
        return cls(found.changing, items, outer, found.is_counted, found.is_whole, constants)

    def found(self, node: Node, around: str) -> _Found:
        """Return what was found for `node`, a loop of the graph `around` with the same body and form of operands."""
        body = _body(node, self.changing, around, is_counted=self.is_counted)
        sizes = list(body.names.dims.values())
        outer = [tuple(sizes[one.number] if isinstance(one, _Place) else one for one in dims) for dims in self.outer]
        return _Found(body, self.changing, self.items, outer, self.is_counted, self.is_whole)


def _outside(dim: int | None, places: Mapping[int, _Place]) -> _Place | int | None:
    """Return a size of the graph around a loop as what _Kept has for it."""
    return None if dim is None else places.get(id(dim), None if is_expression(dim) else dim)


def _searched(node: Node, search: Search, around: str) -> _Found | None:
    """Search for the body of `node`, beginning with what it changed before; None if no plan can serve all its sizes."""
    body: Graph = node.attrs["body"]
    nothing: Changing = [{} for _ in range(form_of(node.attrs).carried)]
    guess = search.findings.changing.get(body)
    found = None if guess is None else _search(node, guess, search, around)
    found = found or _search(node, nothing, search, around) or _search_without_samples(node, around)
    if found is not None:
        search.findings.changing.put(body, found.changing)
    return found


def _search(node: Node, changing: Changing, search: Search, around: str) -> _Found | None:
    """Infer the body of `node` until an iteration changes no other axes than it may; None if a shape is not known."""
    for _ in range(_MOST_TRIES):
        made = _inferred(node, changing, search, around)
        if made is None:
            return None
        if made.is_assumed and may_change_ranks(made.body.graph):
            return None
        inputs = [value.static_shape for value in made.inputs]
        found = _changing(inputs, made.dims, changing, is_assumed=made.is_assumed)
        if found is None:
            return None
        if [axes.keys() for axes in found] == [axes.keys() for axes in changing]:
            items = made.dims[1 + len(changing) :]
            return _Found(made.body, changing, items, made.outer_items, made.is_counted, made.is_whole)
        changing = found
    return None


def _search_without_samples(node: Node, around: str) -> _Found | None:
    """What _search() finds from what is certain of the body, whose sizes may be any; None if a rank is not certain.

    Sizes of carried values count as changing unless an iteration certainly keeps them.
    """
    changing: Changing = [{} for _ in range(form_of(node.attrs).carried)]
    for _ in range(_MOST_TRIES):
        body = _body(node, changing, around, is_counted=False)
        shapes = certain_shapes(body.graph)
        found = None if shapes is None else _changing(shapes.inputs, shapes.outputs, changing, is_assumed=False)
        if found is None or shapes is None:
            return None
        if [axes.keys() for axes in found] == [axes.keys() for axes in changing]:
            items = list(map(numbers_or_none, shapes.outputs[1 + len(changing) :]))
            unknown: list[Dims] = [(None,) * len(each) for each in items]
            return _Found(body, changing, items, unknown, is_counted=False, is_whole=False)
        changing = [dict.fromkeys(axes, 0) for axes in found]
    return None


def _inferred(node: Node, changing: Changing, search: Search, around: str) -> _Inferred | None:
    """The body for carried values that change so; None if sample sizes do not fit, or no plan can serve all sizes.

    The number of the iteration is a size if the body then needs no sizes that data tells.
    """
    plain: tuple[StageBody, Graph, Facts] | None = None
    number = node.attrs["body"].inputs[0]
    reads_number = any(number in each.inputs for each in node.attrs["body"].nodes)
    for is_counted in (False, True) if reads_number else (False,):
        body = _body(node, changing, around, is_counted=is_counted)
        try:
            opened, facts = body.inferred(search.context)
        except TreadleError:
            continue
        if first_region(opened).graph is opened:
            shapes = [value.static_shape for value in opened.outputs]
            outer = _outer_items(body, shapes, changing, facts)
            return _Inferred(body, opened.inputs, shapes, outer, bool(facts.guards), is_counted, is_whole=True)
        plain = plain or (body, opened, facts)
    if plain is None:
        return None
    body, opened, facts = plain
    dims = search.dims_of(opened, facts)
    if dims is None:
        return None
    outer = _outer_items(body, dims, changing, facts)
    return _Inferred(body, opened.inputs, dims, outer, is_assumed=True, is_counted=False, is_whole=False)


def _outer_items(body: StageBody, dims: Sequence[Dims], changing: Changing, facts: Facts) -> list[Dims]:
    """The dimensions of the stacked items among those of all outputs, in sizes of the graph around the loop."""
    return [outer_dims(each, body.names.dims, facts) for each in dims[1 + len(changing) :]]


def _body(node: Node, changing: Changing, around: str, *, is_counted: bool) -> StageBody:
    """The body of a loop of the graph `around` as a graph of its own.

    If it `is_counted`, the number of the iteration is a size.
    """
    body: Graph = node.attrs["body"]
    form = form_of(node.attrs)
    values = [value for value in node.inputs[2:] if value is not None]
    name = f"{around}/{node.name}"
    made = StageBody(Graph(f"{name}.body"))
    number, *formals = body.inputs
    if is_counted:
        made.add_number(number)
    else:
        made.add(number, ())
    for position, (formal, value) in enumerate(zip(formals, values, strict=True)):
        if position < form.carried:
            axes = changing[position]
            shape = made.names.shape(formal.name, value.static_shape, axes)
            made.add(formal, shape)
            made.hints.update((str(shape[axis]), size) for axis, size in axes.items() if size > 0)
        elif position < form.carried + form.sliced:
            made.add(formal, made.names.shape(formal.name, value.static_shape[1:]))
        else:
            made.capture(formal, value)
    made.finish(body, f"{name}.made")
    return made


def _changing(
    inputs: Sequence[StaticShape], dims: Sequence[Dims], before: Changing, *, is_assumed: bool
) -> Changing | None:
    """The axes of carried values that an iteration changes, and those of `before`; None if a rank changes.

    Where the dimensions hold only under assumptions, all that are no numbers count as changing.
    """
    found: Changing = []
    for axes, old, made in zip(before, inputs[1:], dims[1:], strict=False):
        if len(old) != len(made):
            return None
        new = dict(axes)
        for axis, (one, other) in enumerate(zip(old, made, strict=True)):
            if axis in new:
                continue
            if other is None or (is_assumed and is_expression(other)) or not equals(one, other):
                new[axis] = 0 if other is None else int(hint_of(other))
        found.append(new)
    return found
