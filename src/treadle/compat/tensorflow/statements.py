"""Helpers that rewritten functions call for statements (see `autograph`): Python's control flow, or ops for tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from treadle.compat.tensorflow import context, control_flow, nest
from treadle.compat.tensorflow.assertions import Assert
from treadle.compat.tensorflow.control_checks import (
    BRANCHES,
    Names,
    as_condition,
    as_tensors,
    check_branches,
    check_given,
    check_initialized,
    check_iteration,
    undefined,
)
from treadle.compat.tensorflow.convert import convert_to_tensor
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.errors import OperatorNotAllowedInGraphError
from treadle.compat.tensorflow.expressions import both
from treadle.compat.tensorflow.func_graph import FuncGraph
from treadle.compat.tensorflow.jumps import VALUE
from treadle.compat.tensorflow.loop_options import LoopOptions, collect_options, invariant
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import Tensor

Values = tuple[Any, ...]
ALLOWED_IN_LOOPS = "Tensor, int, float, bool or a list, tuple or dict thereof"
RESULT = "retval_"
"""The name of the return value in errors."""


def if_(test: Any, then: Callable[..., Values], other: Callable[..., Values], names: Names, state: Values) -> Values:
    """Return the values of the names after an `if`; with a tensor as the condition, of the live names.

    Raises ValueError for a name without a value after one of the branches, TypeError for values that cannot be tensors
    of one structure and dtype.
    """
    condition = as_condition(test, "if statement", names.where)
    if not isinstance(condition, Tensor):
        return then(*state) if condition else other(*state)
    made = _placeholder_returns(then, other, names, state)
    state = _replace_at(state, list(made), [None] * len(made))
    kept = [at for at, live in enumerate(names.live) if live and made.get(at, live) is not None]
    kept.sort(key=names.texts.__getitem__)
    main: list[Any] = []

    def traced(branch: Callable[..., Values], text: str) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            found = branch(*state)
            values = [_or_placeholder(found[at], made.get(at)) for at in kept]
            for at, value in zip(kept, values, strict=True):
                check_given(names, at, value, text)
            for at, first, value in zip(kept, main, values, strict=False):
                check_branches(names.where, names.texts[at], first, value)
            main.extend(values)
            return [as_tensors(names, at, value, "if") for at, value in zip(kept, values, strict=True)]

        return run

    return _replace_at(state, kept, control_flow.cond(condition, traced(then, BRANCHES[0]), traced(other, BRANCHES[1])))


def _placeholder_returns(
    then: Callable[..., Values], other: Callable[..., Values], names: Names, state: Values
) -> dict[int, Like | None]:
    """Return placeholders for the value of a `return` in a loop, for the branch that does not return.

    Nothing reads them. None stands for a `return` of None. The branches are traced to learn the value.
    """
    found: dict[int, Like | None] = {}
    for at, name in enumerate(names.texts):
        if name == VALUE and (state[at] is undefined or state[at] is None):
            for branch in (other, then):
                with scratch():
                    value = branch(*state)[at]
                    if value is not undefined:
                        found[at] = _returned_like(names, value) or found.get(at)
    return found


def _or_placeholder(value: Any, like: Like | None) -> Any:
    return like() if like is not None and (value is None or value is undefined) else value


def _returned_like(names: Names, value: Any) -> Like | None:
    """Return what the return value of a loop looks like; None for None. Raises ValueError if it cannot be a tensor."""
    like = _like(value)
    if like is None and value is not None and value is not undefined:
        raise ValueError(
            f"{names.where}: the return value from a TensorFlow loop may only be a {ALLOWED_IN_LOOPS}; "
            f"got {type(value)}"
        )
    return like


def scratch() -> AbstractContextManager[Any]:
    """Return a graph inside the current one that is never run."""
    graph = context.current_graph()
    return nullcontext() if graph is None else FuncGraph(graph).as_default()


@dataclass(frozen=True, slots=True)
class Like:
    """What a value looks like while the graph is built: its structure, and the shapes and dtypes of its tensors."""

    form: Any
    shapes: tuple[TensorShape, ...]
    dtypes: tuple[Any, ...]

    def __call__(self) -> Any:
        """Return zeros of these shapes, with 1 for unknown sizes."""
        dims = [[dim or 1 for dim in shape.dims or ()] for shape in self.shapes]
        leaves = [call("zeros", each, dtype) for each, dtype in zip(dims, self.dtypes, strict=True)]
        return nest.pack_sequence_as(self.form, leaves)


def _like(value: Any) -> Like | None:
    """Return what `value` looks like; None if it cannot be tensors."""
    if value is undefined:
        return None
    try:
        leaves = [convert_to_tensor(leaf) for leaf in nest.flatten(value)]
    except (TypeError, ValueError):
        return None
    return Like(value, tuple(leaf.shape for leaf in leaves), tuple(leaf.dtype for leaf in leaves))


def returned_if(
    test: Any, then: Callable[..., Any], other: Callable[..., Any], name: str, where: str, state: Values
) -> Any:
    """Return the result of a function that ends with an `if`. The branches take whether both are in the graph.

    Raises ValueError if only one branch returns a value, TypeError for different structures or dtypes.
    """
    condition = as_condition(test, "if statement", where)
    if not isinstance(condition, Tensor):
        return then(False, *state) if condition else other(False, *state)
    given: list[Any] = []

    def traced(branch: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            found = branch(True, *state)
            given.append(found)
            if len(given) == len(BRANCHES):
                _check_returns(where, name, *given)
            return found

        return run

    return control_flow.cond(condition, traced(then), traced(other))


def _check_returns(where: str, name: str, main: Any, other: Any) -> None:
    for value, branch in zip((main, other), BRANCHES, strict=True):
        if name == RESULT and value is None and main is not other:
            raise ValueError(
                f"{where}: the {branch} branch must also have a return statement: "
                "with an `if` over a tensor a function returns a value from both branches, or from none"
            )
    check_branches(where, name, main, other)


def chosen(test: Any, then: Callable[[], Any], other: Callable[[], Any], name: str, where: str) -> Any:
    """Return `then() if test else other()`, called `name` in errors."""
    return returned_if(test, lambda _: then(), lambda _: other(), name, where, ())


def initialized(staged: bool, branch: str, names: Names, values: Values) -> None:
    """Raise ValueError if both branches are in the graph and a live name has no value after `branch`."""
    for at, value in enumerate(values if staged else ()):
        check_initialized(names, at, value, branch)


def while_(test: Callable[..., Any], body: Callable[..., Values], names: Names, state: Values) -> Values:
    """Return the values of the names after a `while`; with a tensor as the condition, of the live names.

    Raises ValueError for a name without a value that an iteration reads, TypeError for values that cannot be tensors of
    one structure and dtype. A run raises InvalidArgumentError if a name has no value because there was no iteration.
    """
    condition = as_condition(test(*state), "while loop", names.where)
    while not isinstance(condition, Tensor):
        if not condition:
            return state
        state = body(*state)
        condition = as_condition(test(*state), "while loop", names.where)
    with collect_options() as options:
        initial = _with_initial_values(body, names, state, options)
    kept = [
        at for at, live in enumerate(names.live) if live and initial[at] is not undefined and initial[at] is not None
    ]
    made = [names.texts[at] for at in kept if initial[at] is not state[at] and names.texts[at] != VALUE]
    first = [as_tensors(names, at, initial[at], "while") for at in kept]
    shapes = [[invariant(value, options) for value in nest.flatten(initial[at])] for at in kept]

    def step(_: Any, values: list[Any]) -> tuple[Any, list[Any]]:
        with collect_options():
            found = body(*_replace_at(initial, kept, values))
        rows = zip(kept, first, shapes, strict=True)
        return [True] * bool(made), [check_iteration(names, at, one, found[at], own) for at, one, own in rows]

    stepped, found = control_flow.while_loop(
        lambda _, now: test(*_replace_at(initial, kept, now)),
        step,
        ([False] * bool(made), first),
        [*([TensorShape(())] * bool(made)), *(shape for own in shapes for shape in own)],
        maximum_iterations=options.maximum_iterations,
    )
    if made:
        fault = f"loop must iterate at least once to initialize {', '.join(made)}: {names.where}"
        with control_flow.control_dependencies([Assert(stepped[0], [fault])]):
            found = nest.map_structure(lambda tensor: call("identity", tensor), found)
    return _replace_at(initial, kept, found)


def _with_initial_values(body: Callable[..., Values], names: Names, state: Values, options: LoopOptions) -> Values:
    """Return `state` with zeros for names that only the body assigns.

    The body is traced to learn what they look like, and which shapes it declares as changing. Raises ValueError for a
    name that it reads first, or to which it assigns something that cannot be a tensor.
    """
    missing = [at for at, live in enumerate(names.live) if live and (state[at] is undefined or state[at] is None)]
    if not missing and not names.has_options:
        return state
    own = [at for at in missing if names.texts[at] != VALUE]
    try:
        with scratch():
            found = body(*state)
            likes = {at: _like(found[at]) if at in own else _returned_like(names, found[at]) for at in missing}
    except (NameError, TypeError, ValueError, KeyError) as error:
        if not own:
            raise
        why = f"; the loop itself cannot define it: {type(error).__name__}: {error}"
        raise _undefined_error(names, own[0], state, why) from error
    made = list(state)
    for at, like in likes.items():
        if like is not None:
            made[at] = like()
            options.shapes += zip(nest.flatten(made[at]), like.shapes, strict=True)
        elif at in own:
            raise _undefined_error(names, at, state, f"; the loop makes it {type(found[at])}, not a {ALLOWED_IN_LOOPS}")
        else:
            made[at] = found[at]
    return tuple(made)


def _undefined_error(names: Names, at: int, state: Values, why: str) -> ValueError:
    must = "must be defined" if state[at] is undefined else "is not allowed to be None"
    return ValueError(f"{names.where}: '{names.texts[at]}' {must} before the loop{why}")


def for_(
    source: Any,
    body: Callable[..., Values],
    continues: Callable[..., Any],
    target: str,
    names: Names,
    state: Values,
) -> Values:
    """Return the values of the names after a `for`; over a tensor it iterates over the first axis, as while_ does.

    It ends when `continues` is false. If `target` is undefined before a loop over tf.range, it starts as the first
    number. Raises OperatorNotAllowedInGraphError if a tensor would have to end a loop over a Python iterator.
    """
    items = source.read_value() if hasattr(source, "read_value") else source
    if not isinstance(items, Tensor):
        return _unrolled_for(items, body, continues, names, state)
    if items.op.kind == "range" and target in names.texts and state[names.texts.index(target)] is undefined:
        start = items.op.inputs[0] if len(items.op.inputs) > 1 else call("zeros", [], items.dtype)
        state = _replace_at(state, [names.texts.index(target)], [start])
    if items.shape.rank and items.shape[0] == 0:
        return state
    count = call("_index", call("shape", items), [0], (("at", 0),))
    found = while_(
        lambda index, *now: both(call("less", index, count), lambda: continues(*now)),
        lambda index, *now: (call("add", index, 1), *body(call("gather", items, index), *now)),
        replace(names, texts=("the index of the loop", *names.texts), live=(True, *names.live)),
        (convert_to_tensor(0), *state),
    )
    return found[1:]


def _unrolled_for(
    items: Any, body: Callable[..., Values], continues: Callable[..., Any], names: Names, state: Values
) -> Values:
    """Unroll a loop over a Python value."""
    condition: Any = True
    for item in items:
        if isinstance(condition, Tensor):
            state = if_(condition, partial(body, item), lambda *now: now, names, state)
        else:
            state = body(item, *state)
        condition = as_condition(continues(*state), "for loop", names.where)
        if isinstance(condition, Tensor) and not hasattr(items, "__len__"):
            raise OperatorNotAllowedInGraphError(
                f"{names.where}: a tensor decides whether this `for` continues, but over {type(items).__name__!r} "
                "it runs while the graph is built: use tf.range or a tensor, or a list"
            )
        if condition is False:
            break
    return state


def _replace_at(state: Values, kept: Sequence[int], values: Sequence[Any]) -> Values:
    """Return `state` with other values at the indices `kept`."""
    new = dict(zip(kept, values, strict=True))
    return tuple(new.get(at, value) for at, value in enumerate(state))
