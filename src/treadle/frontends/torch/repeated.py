"""Loops whose end depends on data, or which change the shapes of what they carry.

Each becomes a loop of the native core where its body does not need Python. The body is made once if an iteration keeps
the shapes of what it carries, else once for each combination of them. A loop whose body needs Python becomes one
`call` node, which runs it as a session of its own, compiled from a Template.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.core_bodies import knows_sizes, needs_python, same_forms
from treadle.frontends.deferred_nodes import LaterLoop, given, later_body
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.appended import may_be_values, put, put_stack
from treadle.frontends.torch.bodies import (
    Appended,
    Body,
    Hole,
    RunBlock,
    Scope,
    as_variable,
    filled,
    loop_body,
    next_hole,
    number_value,
    same_structure,
    with_holes,
)
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.certain_forms import certain_forms
from treadle.frontends.torch.counted import IN_LIST
from treadle.frontends.torch.made_bodies import key_of_forms, key_of_held
from treadle.frontends.torch.stacks import Joined, Stack
from treadle.frontends.torch.tensor import MISSING, Missing
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.shape import are_numbers
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.call import Nested
from treadle.ops.op import Array, Info
from treadle.runtime.control import begin_iteration

_READS_DATA = frozenset({
    "aten::Bool", "aten::Float", "aten::FloatImplicit", "aten::Int", "aten::IntImplicit", "aten::ScalarImplicit",
    "aten::item",
})  # fmt: skip

_READS_SIZES = frozenset({"aten::len", "aten::numel", "aten::size", "prim::shape"})

ANY_NUMBER = 2**63 - 1
"""The limit of a `while` loop."""


def condition_depends_on_data(body: Any) -> bool:
    """Returns True if the loop condition that `body` returns may depend on the elements of a tensor."""
    return _condition_follows(body, lambda node: node.kind() in _READS_DATA and _takes_tensor(node))


def condition_depends_on_sizes(body: Any) -> bool:
    """Returns True if the loop condition that `body` returns may depend on the size of a tensor."""
    return _condition_follows(body, lambda node: node.kind() in _READS_SIZES and _takes_tensor(node))


def _takes_tensor(node: Any) -> bool:
    return any("Tensor" in str(operand.type()) for operand in node.inputs())


def _condition_follows(body: Any, reads: Callable[[Any], bool]) -> bool:
    """Returns True if the loop condition that `body` returns follows from a node that `reads` is true for."""
    seen: set[str] = set()

    def depends(value: Any) -> bool:
        node, name = value.node(), value.debugName()
        if name in seen:
            return False
        seen.add(name)
        if reads(node):
            return True
        inner = [output for block in node.blocks() for output in block.outputs()]
        return node.kind() != "prim::Param" and any(map(depends, (*node.inputs(), *inner)))

    return depends(next(iter(body.outputs())))


class Repeat(Nested):
    """Runs a body repeatedly. Its arrays are the trip count, the first condition, the scope, the loop variables.

    The body takes the scope, the number of the iteration and the loop variables; it returns the next condition and
    the new loop variables.
    """

    def __init__(self, template: Template, scope: int) -> None:
        super().__init__(template)
        self._scope = scope

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        most, going = int(arrays[0].reshape(())), bool(arrays[1].reshape(()))
        scope, state = arrays[2 : 2 + self._scope], list(arrays[2 + self._scope :])
        step = 0
        while going and step < most:
            begin_iteration(step)
            test, *state = self.bodies[0]([*scope, np.asarray(step), *state])
            going = bool(test.reshape(()))
            step += 1
        return state


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a loop.

    Attributes:
        made: Takes the scope, the number of the iteration and the state; gives whether there is another iteration,
            the next state, and what was appended to each list.
        graph: It for the first iteration.
        scope: The values that it reads.
        state: Those that it carries, before the loop.
        added: The forms of what is appended, by the names of the lists.
    """

    made: Body
    graph: Graph
    scope: list[Value]
    state: list[Value]
    added: dict[str, Appended]

    @property
    def after(self) -> list[Value]:
        """The state after the first iteration."""
        return self.graph.outputs[1 : 1 + len(self.state)]

    @property
    def items(self) -> list[Value]:
        """What the first iteration appends to each list."""
        return self.graph.outputs[1 + len(self.state) :]


def repeat(
    importer: Importer, loop: tuple[Any, Any, list[Any]], block: Any, env: dict[str, Any], run_block: RunBlock
) -> list[Any]:
    """Adds a loop whose condition depends on data, and returns its results.

    `loop` is (trip count, first condition, loop variables). Empty lists of `env` to which each iteration appends
    tensors, and which it does not read, become values.
    """
    b, name = importer.b, importer.b.name
    most, going, first = loop
    scope = Scope(importer, env, [block], run_block)
    if scope.missing or any(isinstance(held, Missing) for held in first):
        return [MISSING] * len(first)
    values: list[Value] = []
    state = [with_holes(as_variable(b, held), values) for held in first]
    limit = number_value(b, most, dtypes.i64)
    start = number_value(b, going, dtypes.boolean)
    ends = None if most == ANY_NUMBER else limit, start
    infos = [Info(dtypes.i64, ()), *(Info(value.known_dtype, b.shape(value)) for value in values)]
    key = scope.key("loop", block, key_of_held(state), key_of_forms(infos))
    results = _made_before(importer, key, values, scope.values, *ends)
    if results is not None:
        b.name = name
        return [filled(held, results, "") for held in state]
    structure: list[Any] = []
    added: dict[str, Appended] = {}
    shifted = [Hole(0, Number), *(next_hole(held) for held in state)]
    made = scope.body(f"{name}.body", block, shifted, 1 + len(values), structure, added)
    body = _Body(made, made.build([*scope.infos(), *infos]), scope.values, values, added)
    if not same_structure(structure[1 : 1 + len(state)], state):
        raise Unsupported("its loop, whose end depends on data, changes the structure of what it carries")
    for value, result in zip(values, body.after, strict=True):
        if value.dtype != result.dtype:
            raise Unsupported(f"its loop carries {value.dtype} into an iteration and {result.dtype} out of it; cast it")
    lists = [env[known] for known in added]
    if not may_be_values(block, env, lists):
        raise Unsupported(
            "a loop whose end depends on data changes a list or dictionary of the code around it by more than "
            "appending tensors to an empty list that it does not read"
        )
    if needs_python(body.graph):
        if lists:
            raise Unsupported("a loop whose body runs in Python appends to a list of the code around it")
        results = _add_call(b, body, limit, start)
    elif same_forms(values, body.after) and same_forms(body.items, body.items):
        scope.follows_data = scope.follows_data or not knows_sizes(body.graph)
        results = _add_loop(importer, key, env, lists, body, *ends)
    else:
        scope.follows_data = True
        results = _add_later(importer, key, env, lists, body, *ends)
    b.name = name
    return [filled(held, results, IN_LIST if lists else "") for held in state]


def _add_call(b: Builder, body: _Body, limit: Value, start: Value) -> list[Value]:
    """Adds a loop that runs its body as a session, and returns the state after it."""
    outputs = [
        (value.known_dtype, value.static_shape if result.shape == value.shape else None)
        for value, result in zip(body.state, body.after, strict=True)
    ]
    function = Repeat(body.made.template(body.graph), len(body.scope))
    return b.add_call([limit, start, *body.scope, *body.state], outputs, function=function, label="Loop")


@dataclass(frozen=True, slots=True)
class _Steady:
    """A loop whose body is made for the sizes that it finds, but keeps the shapes of what it carries, all numbers."""

    body: Graph
    shapes: Sequence[Any]

    def add(self, b: Builder, limit: Value | None, start: Value, values: Sequence[Value]) -> list[Value]:
        """Adds the loop, of values that it carries, then of those that it reads, and returns what it carries."""
        return b.add_loop([limit, start, *values], self.body, len(self.shapes))[: len(self.shapes)]


def _shapes(values: Sequence[Value]) -> list[Any]:
    return [value.shape for value in values]


def _add_loop(
    importer: Importer,
    key: Hashable,
    env: dict[str, Any],
    lists: list[list[Any]],
    body: _Body,
    limit: Value | None,
    start: Value,
) -> list[Value]:
    """Adds a loop that keeps the forms of what it carries, and returns the state after it.

    Without lists, one whose parts are made later is kept under `key`.
    """
    b, graph = importer.b, body.graph
    if not knows_sizes(graph):  # its parts are made for the sizes that they find
        step = Value("iteration", dtypes.i64)
        graph = later_body(b.name, [*body.scope, step, *body.state], body.made.later(graph))
        for value, known in zip(graph.outputs, body.graph.outputs, strict=True):
            value.shape = known.shape
        if not lists and all(value.shape is not None and are_numbers(value.shape) for value in body.state):
            steady = _Steady(loop_body(graph, len(body.scope)), _shapes(body.state))
            importer.made.put(key, steady)
            return steady.add(b, limit, start, [*body.state, *body.scope])
    operands = [limit, start, *body.state, *body.scope]
    results = b.add_loop(operands, loop_body(graph, len(body.scope)), len(body.state))
    stacked = zip(lists, results[len(body.state) :], body.items, body.added.values(), strict=True)
    for entries, value, item, form in stacked:
        put_stack(b, env, entries, value, item, form.depth)
    return results


def _made_before(
    importer: Importer,
    key: Hashable,
    values: Sequence[Value],
    scope: Sequence[Value],
    limit: Value | None,
    start: Value,
) -> list[Value] | None:
    """Adds the loop that is kept under `key`, and returns the values that it carries; None if there is none.

    It carries `values` and reads those of the `scope`.
    """
    kept: LaterLoop | _Steady | None = importer.made.get(key)
    if isinstance(kept, _Steady):
        return kept.add(importer.b, limit, start, [*values, *scope]) if kept.shapes == _shapes(values) else None
    return None if kept is None else _add_made(importer.b, kept, [*values, *scope], limit, start)


def _add_made(b: Builder, loop: LaterLoop, values: Sequence[Value], limit: Value | None, start: Value) -> list[Value]:
    """Adds a loop whose body is made for the shapes of each iteration, and returns the values that it carries.

    `values` are those that it carries, then those that it reads.
    """
    given_values = [b.scalar(0, dtypes.i64), *values]
    operands = [limit, start, *(given_values[place] for place in loop.order)]
    return b.add_loop(operands, loop.body, loop.carried)[1 : loop.carried]


def _add_later(
    importer: Importer,
    key: Hashable,
    env: dict[str, Any],
    lists: list[list[Any]],
    body: _Body,
    limit: Value | None,
    start: Value,
) -> list[Value]:
    """Adds a loop whose body is made for the shapes of each iteration, and returns the state after it.

    What is appended to a list is joined in a value that the loop carries. Without lists, the loop is kept under `key`.
    """
    b = importer.b
    if any(form.depth > 1 for form in body.added.values()):
        raise Unsupported("a loop that changes shapes appends lists to a list; append tensors")
    forms = [_tensor(certain, form) for certain, form in zip(_certain(body), body.added.values(), strict=True)]
    joined = [_nothing(b, form) for form in forms]
    carried = [b.scalar(0, dtypes.i64), *body.state, *joined]
    count, state = len(carried), len(body.state)

    def build(infos: Sequence[Info]) -> Graph:
        graph = body.made.build([*infos[count:], *infos[: 1 + state]])
        inner = Builder(graph)
        inner.name = graph.name
        scope, (step, *held) = graph.inputs[: len(body.scope)], graph.inputs[len(body.scope) :]
        before = [given(inner, f"joined_{n}", info) for n, info in enumerate(infos[1 + state : count])]
        again, *after = graph.outputs
        added = [
            inner.add("concat", one, _rows(inner, item, one), axis=0)
            for one, item in zip(before, after[state:], strict=True)
        ]
        graph.inputs = [step, *held, *before, *scope]
        graph.outputs = [inner.add("add", step, inner.scalar(1, dtypes.i64)), *after[:state], *added, again]
        return graph

    values = [*carried, *body.scope]
    loop = LaterLoop.of(b.name, values, range(count), build)
    if not lists:
        importer.made.put(key, loop)
        return _add_made(b, loop, values[1:], limit, start)[:state]
    (number, *results), _ = loop.add(b, limit, start, values)
    number.shape = ()  # in every iteration
    for entries, value, form, added in zip(lists, results[state:], forms, body.added.values(), strict=True):
        entries_made = b.add("mul", number, b.scalar(added.count, dtypes.i64))
        put(env, entries, Joined(value, len(form.shape), Number(entries_made)) if form.shape else Stack(value))
    return results[:state]


def _certain(body: _Body) -> list[Info]:
    found = certain_forms(body.graph, body.items)
    return [found[item] for item in body.items]


def _tensor(item: Info, form: Appended) -> Info:
    """Returns what is certain of a tensor that is appended to a list. Raises Unsupported if its rank is not."""
    if item.shape is None:
        raise Unsupported("a loop appends tensors to a list whose ranks depend on data")
    return Info(item.dtype, item.shape[form.depth :])


def _rows(b: Builder, item: Value, like: Value) -> Value:
    """Returns what an iteration appends as rows like those of another value: a scalar as one."""
    return b.add("reshape", item, b.ints([-1, *like.static_shape[1:]]), allowzero=False)


def _nothing(b: Builder, tensor: Info) -> Value:
    """Returns no rows of what is appended to a list. Raises Unsupported if that may have rows of several sizes."""
    row = (tensor.shape or ())[1:]
    if any(is_expression(size) or size == 0 for size in row):
        raise Unsupported("a loop appends tensors to a list that differ in more than the size of their first axis")
    return b.full(0, tensor.dtype, (0, *row))
