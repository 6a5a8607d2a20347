"""What rewritten functions call for statements (see `autograph`): Python's where a condition is a value, ops where it is a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.compat.tensorflow import context, control_flow, nest
from weft.compat.tensorflow.convert import convert_to_tensor
from weft.compat.tensorflow.errors import OperatorNotAllowedInGraphError
from weft.compat.tensorflow.expressions import both
from weft.compat.tensorflow.func_graph import FuncGraph
from weft.compat.tensorflow.jumps import VALUE
from weft.compat.tensorflow.loop_options import LoopOptions, asked, invariant
from weft.compat.tensorflow.shape import TensorShape
from weft.compat.tensorflow.tensor import Tensor, call

Values = tuple[Any, ...]


class Undefined:
    """Stands for a name that has no value."""

    def __repr__(self) -> str:
        return "<undefined>"


undefined = Undefined()


def value_of(read: Callable[[], Any]) -> Any:
    """What a name or a place stands for."""
    try:
        return read()
    except (NameError, AttributeError, LookupError):
        return undefined


def _condition(test: Any) -> Any:
    """A tensor for a condition of the graph, else its truth."""
    value = test.read_value() if hasattr(test, "read_value") else test
    return value if isinstance(value, Tensor) else bool(value)


def if_(
    test: Any,
    then: Callable[..., Values],
    other: Callable[..., Values],
    names: Sequence[str],
    shared: Sequence[bool],
    state: Values,
) -> Values:
    """The values that the names have after an `if`; `shared` says which of them both ways assign to.

    Raises TypeError for a name whose values cannot be tensors.
    """
    condition = _condition(test)
    if not isinstance(condition, Tensor):
        return then(*state) if condition else other(*state)
    made = _returns_in_one(then, other, names, state)
    kept = [at for at, value in enumerate(state) if shared[at] or value is not undefined or at in made]

    def way(branch: Callable[..., Values]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            found = branch(*state)
            values = [made[at]() if found[at] is undefined and at in made else found[at] for at in kept]
            return [_must_be_tensors(names[at], value, "if") for at, value in zip(kept, values, strict=True)]

        return run

    return _with(state, kept, control_flow.cond(condition, way(then), way(other)))


def _returns_in_one(
    then: Callable[..., Values], other: Callable[..., Values], names: Sequence[str], state: Values
) -> dict[int, Like]:
    """What stands for the value of a `return` in a loop on the way that does not return: nothing reads it."""
    places = [at for at, name in enumerate(names) if name == VALUE and state[at] is undefined]
    found = {at: _likely(branch, state, at) for at in places for branch in (other, then)} if places else {}
    return {at: like for at, like in found.items() if like is not None}


def _likely(branch: Callable[..., Values], state: Values, at: int) -> Like | None:
    """What is like result `at` of the branch, which is traced to learn it; None if it has none."""
    with scratch():
        return _like(branch(*state)[at])


def scratch() -> AbstractContextManager[Any]:
    """A graph that nothing runs, inside the current one."""
    graph = context.current_graph()
    return nullcontext() if graph is None else FuncGraph(graph).as_default()


@dataclass(frozen=True, slots=True)
class Like:
    """What a value is while the graph is built: its form, and the shapes and dtypes of its tensors."""

    form: Any
    shapes: tuple[TensorShape, ...]
    dtypes: tuple[Any, ...]

    def __call__(self) -> Any:
        """Zeros of these shapes, unknown sizes 1."""
        dims = [[dim or 1 for dim in shape.dims or ()] for shape in self.shapes]
        leaves = [call("zeros", each, dtype) for each, dtype in zip(dims, self.dtypes, strict=True)]
        return nest.pack_sequence_as(self.form, leaves)


def _like(value: Any) -> Like | None:
    """What `value` is like; None for what is no tensor."""
    if value is undefined:
        return None
    try:
        leaves = [convert_to_tensor(leaf) for leaf in nest.flatten(value)]
    except (TypeError, ValueError):
        return None
    return Like(value, tuple(leaf.shape for leaf in leaves), tuple(leaf.dtype for leaf in leaves))


def returned_if(test: Any, then: Callable[..., Any], other: Callable[..., Any], state: Values) -> Any:
    """What a function returns of which an `if` decides. Raises ValueError if it returns a value on one way only."""
    condition = _condition(test)
    if not isinstance(condition, Tensor):
        return then(*state) if condition else other(*state)
    given: list[bool] = []

    def way(branch: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            found = branch(*state)
            given.append(found is not None)
            if len(given) == 2 and given[0] != given[1]:
                raise ValueError(
                    "a function with an `if` over a tensor must return a value from both branches, or from none"
                )
            return found

        return run

    return control_flow.cond(condition, way(then), way(other))


def while_(
    test: Callable[..., Any], body: Callable[..., Values], names: Sequence[str], live: Sequence[bool], state: Values
) -> Values:
    """The values that the names have after a `while`; `live` says which are read outside it.

    Raises TypeError for a name whose values cannot be tensors.
    """
    condition = _condition(test(*state))
    while not isinstance(condition, Tensor):
        if not condition:
            return state
        state = body(*state)
        condition = _condition(test(*state))
    with asked() as options:
        state = _begun(body, live, state, options)
    kept = [at for at, value in enumerate(state) if value is not undefined]

    def step(*values: Any) -> list[Any]:
        with asked():
            found = body(*_with(state, kept, values))
        return [_must_be_tensors(names[at], found[at], "while") for at in kept]

    first = [_must_be_tensors(names[at], state[at], "while") for at in kept]
    shapes = [invariant(value, options) for at in kept for value in nest.flatten(state[at])]
    found = control_flow.while_loop(
        lambda *now: test(*_with(state, kept, now)), step, first, shapes, maximum_iterations=options.maximum_iterations
    )
    return _with(state, kept, found)


def _begun(body: Callable[..., Values], live: Sequence[bool], state: Values, options: LoopOptions) -> Values:
    """`state` with zeros for the names that only the body gives a value and that are read behind the loop.

    The body is traced to learn what they are, and which shapes it says may change.
    """
    with scratch():
        found = [_like(value) for value in body(*state)]
    made = list(state)
    for at, like in enumerate(found):
        if state[at] is undefined and live[at] and like is not None:
            made[at] = like()
            options.shapes += zip(nest.flatten(made[at]), like.shapes, strict=True)
    return tuple(made)


def for_(
    source: Any,
    body: Callable[..., Values],
    goes_on: Callable[..., Any],
    names: Sequence[str],
    live: Sequence[bool],
    state: Values,
) -> Values:
    """The values that the names have after a `for`; over a tensor it goes through its first axis.

    It ends when `goes_on` no longer holds. Raises OperatorNotAllowedInGraphError where a tensor would have to end a loop
    over a Python iterator.
    """
    items = source.read_value() if hasattr(source, "read_value") else source
    if not isinstance(items, Tensor):
        return _unrolled(items, body, goes_on, names, state)
    count = call("_index", call("shape", items), [0], (("at", 0),))
    found = while_(
        lambda place, *now: both(call("less", place, count), lambda: goes_on(*now)),
        lambda place, *now: (call("add", place, 1), *body(call("gather", items, place), *now)),
        ("the place in the loop", *names),
        (False, *live),
        (convert_to_tensor(0), *state),
    )
    return found[1:]


def _unrolled(
    items: Any, body: Callable[..., Values], goes_on: Callable[..., Any], names: Sequence[str], state: Values
) -> Values:
    """The loop over a Python value, one item after the other."""
    shared = [False] * len(names)
    going: Any = True
    for item in items:
        if isinstance(going, Tensor):
            state = if_(going, partial(body, item), lambda *now: now, names, shared, state)
        else:
            state = body(item, *state)
        going = _condition(goes_on(*state))
        if isinstance(going, Tensor) and not hasattr(items, "__len__"):
            raise OperatorNotAllowedInGraphError(
                f"a tensor decides whether this `for` goes on, but over {type(items).__name__!r} it runs while the graph is "
                "built: use tf.range or a tensor, or a list"
            )
        if going is False:
            break
    return state


def chosen(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`then() if test else other()`."""
    return returned_if(test, then, other, ())


def _with(state: Values, kept: Sequence[int], values: Sequence[Any]) -> Values:
    """`state` with other values at the places `kept`."""
    new = dict(zip(kept, values, strict=True))
    return tuple(new.get(at, value) for at, value in enumerate(state))


def _must_be_tensors(name: str, value: Any, statement: str) -> Any:
    if value is undefined:
        raise TypeError(f"'{name}' must have a value behind every way through an `{statement}` over a tensor")
    try:
        return nest.pack_sequence_as(value, [convert_to_tensor(leaf) for leaf in nest.flatten(value)])
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"'{name}' is {value!r} in an `{statement}` over a tensor, where it must be tensors or numbers"
        ) from error
