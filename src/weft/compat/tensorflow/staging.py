"""What rewritten functions call (see `autograph`): Python's statements where a condition is a value, ops where it is a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.compat.tensorflow import control_flow
from weft.compat.tensorflow.convert import convert_to_tensor
from weft.compat.tensorflow.tensor import Tensor, call

Values = tuple[Any, ...]


class Undefined:
    """Stands for a name that has no value."""

    def __repr__(self) -> str:
        return "<undefined>"


undefined = Undefined()


def value_of(read: Callable[[], Any]) -> Any:
    """What a name stands for."""
    try:
        return read()
    except NameError:
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
    kept = [at for at, value in enumerate(state) if shared[at] or value is not undefined]

    def way(branch: Callable[..., Values]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            found = branch(*state)
            return [_must_be_tensors(names[at], found[at], "if") for at in kept]

        return run

    return _with(state, kept, control_flow.cond(condition, way(then), way(other)))


def returned_if(test: Any, then: Callable[..., Any], other: Callable[..., Any], state: Values) -> Any:
    """What a function returns of which an `if` decides."""
    condition = _condition(test)
    if not isinstance(condition, Tensor):
        return then(*state) if condition else other(*state)
    return control_flow.cond(condition, lambda: then(*state), lambda: other(*state))


def while_(test: Callable[..., Any], body: Callable[..., Values], names: Sequence[str], state: Values) -> Values:
    """The values that the names have after a `while`. Raises TypeError for a name whose values cannot be tensors."""
    condition = _condition(test(*state))
    while not isinstance(condition, Tensor):
        if not condition:
            return state
        state = body(*state)
        condition = _condition(test(*state))
    kept = [at for at, value in enumerate(state) if value is not undefined]

    def step(*values: Any) -> list[Any]:
        found = body(*_with(state, kept, values))
        return [_must_be_tensors(names[at], found[at], "while") for at in kept]

    first = [_must_be_tensors(names[at], state[at], "while") for at in kept]
    return _with(state, kept, control_flow.while_loop(lambda *now: test(*_with(state, kept, now)), step, first))


def for_(source: Any, body: Callable[..., Values], names: Sequence[str], state: Values) -> Values:
    """The values that the names have after a `for`; over a tensor it goes through its first axis."""
    items = source.read_value() if hasattr(source, "read_value") else source
    if not isinstance(items, Tensor):
        for item in items:
            state = body(item, *state)
        return state
    count = call("_index", call("shape", items), [0], (("at", 0),))
    found = while_(
        lambda place, *_: call("less", place, count),
        lambda place, *now: (call("add", place, 1), *body(items[place], *now)),
        ("the place in the loop", *names),
        (convert_to_tensor(0), *state),
    )
    return found[1:]


def chosen(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`then() if test else other()`."""
    return returned_if(test, then, other, ())


def both(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second()`."""
    return call("logical_and", first, second()) if isinstance(first, Tensor) else first and second()


def either(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second()`."""
    return call("logical_or", first, second()) if isinstance(first, Tensor) else first or second()


def negated(value: Any) -> Any:
    """`not value`."""
    return call("logical_not", value) if isinstance(value, Tensor) else not value


def equal(a: Any, b: Any) -> Any:
    """`a == b`, element by element in the graph."""
    return call("equal", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a == b


def unequal(a: Any, b: Any) -> Any:
    """`a != b`, element by element in the graph."""
    return call("not_equal", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a != b


def _with(state: Values, kept: Sequence[int], values: Sequence[Any]) -> Values:
    """`state` with other values at the places `kept`."""
    new = dict(zip(kept, values, strict=True))
    return tuple(new.get(at, value) for at, value in enumerate(state))


def _must_be_tensors(name: str, value: Any, statement: str) -> Any:
    if value is undefined:
        raise TypeError(f"'{name}' must have a value behind every way through an `{statement}` over a tensor")
    from weft.compat.tensorflow import nest

    try:
        return nest.pack_sequence_as(value, [convert_to_tensor(leaf) for leaf in nest.flatten(value)])
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"'{name}' is {value!r} in an `{statement}` over a tensor, where it must be tensors or numbers"
        ) from error
