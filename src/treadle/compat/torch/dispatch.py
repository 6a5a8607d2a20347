"""Tensor functions as users call them: outside scripts each call is one small graph, found by what it is given.

The second call of a function with arguments of the same form (classes, element types, shapes, other values) goes
straight to the compiled code of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from treadle.compat.calls import Uncached
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.replay import Replay, UnfitError
from treadle.compat.torch.signatures import aliases, described
from treadle.compat.torch.state import STATE, recording_into
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_CALLS = 4096
"""How many forms of calls are kept."""

P = ParamSpec("P")
R = TypeVar("R")

_CALLS: LRU[Any, Replay | Uncached] = LRU(MOST_CALLS)
"""By function and form."""


def tensor_function(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function`, which emits ops, one that users call: its results are computed unless a recording is current."""
    name = function.__name__.strip("_")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        recording = STATE.recording
        if recording is None:
            key: list[Any] = [function]
            tensors: list[Tensor] = []
            if not described(args, kwargs, key, tensors):
                return cast(R, _recorded(function, name, args, kwargs, Recording()))
            form = (*key, aliases(tensors))
            known = _CALLS.get(form)
            result = known.run(tensors) if type(known) is Replay else NotImplemented
            return cast(R, _met(function, name, args, kwargs, form, tensors) if result is NotImplemented else result)
        if recording.function:
            return function(*args, **kwargs)
        recording.function = name
        try:
            return function(*args, **kwargs)
        finally:
            recording.function = ""

    return call


def _met(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    form: tuple[Any, ...],
    tensors: list[Tensor],
) -> Any:
    """The result of a call that has no replay, or none that fits any more."""
    if _CALLS.get(form) is Uncached.NEVER:
        return _recorded(function, name, args, kwargs, Recording())
    recording = Recording(watch=True)
    result = _recorded(function, name, args, kwargs, recording)
    _keep(form, recording, tensors, result)
    return result


def _recorded(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], recording: Recording
) -> Any:
    with recording_into(recording):
        recording.function = name
        result = function(*args, **kwargs)
        recording.flush()
    return result


def _keep(form: tuple[Any, ...], recording: Recording, tensors: list[Tensor], result: Any) -> None:
    known: Replay | Uncached = Uncached.NEVER
    if not recording.spoilt and len(recording.ran) < 2:
        try:
            known = Replay(recording.ran[0] if recording.ran else None, tensors, {}, result)
        except UnfitError:
            known = Uncached.NEVER
    _CALLS.put(form, known)
