"""Calls of tensor functions outside scripts: each is compiled once per signature and replayed afterwards.

The second call with the same signature (classes, dtypes, shapes, other values) runs the compiled code of the first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from treadle.compat.calls import Uncached
from treadle.compat.torch.later import call_later
from treadle.compat.torch.lazy_ints import plain
from treadle.compat.torch.recording import Recording, needs_sizes
from treadle.compat.torch.replay import NotReplayableError, Replay
from treadle.compat.torch.signatures import aliases, append_call_signature
from treadle.compat.torch.state import STATE, recording_into
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_CALLS = 4096
"""The number of signatures that are kept."""

P = ParamSpec("P")
R = TypeVar("R")

_CALLS: LRU[Any, Replay | Uncached] = LRU(MOST_CALLS)
"""Replays by function and signature."""


def tensor_function(function: Callable[P, R]) -> Callable[P, R]:
    """Returns `function`, which emits ops, as a function for users.

    In a recording its ops join the recording; elsewhere its results are computed at once.
    """
    name = function.__name__.strip("_")
    first = _first_tensor(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        recording = STATE.recording
        if recording is None:
            key: list[Any] = [function]
            tensors: list[Tensor] = []
            if not append_call_signature(args, kwargs, key, tensors):
                if first:
                    require_tensor(name, first, args, kwargs)
                return cast(R, _record(function, name, args, kwargs, Recording()))
            signature = (*key, aliases(tensors))
            known = _CALLS.get(signature)
            result = known.run(tensors) if type(known) is Replay else NotImplemented
            if result is NotImplemented and first:
                require_tensor(name, first, args, kwargs)
            return cast(
                R, _first_call(function, name, args, kwargs, signature, tensors) if result is NotImplemented else result
            )
        if recording.function:
            return function(*args, **kwargs)
        if first:
            require_tensor(name, first, args, kwargs)
        recording.function = name
        try:
            if recording.has_open_sizes and needs_sizes(recording, (args, kwargs)):
                result = call_later(recording, function, name, args, kwargs)
                if result is not NotImplemented:
                    return cast(R, result)
                recording.compute_sizes()
                args, kwargs = plain((args, kwargs))
            return function(*args, **kwargs)
        finally:
            recording.function = ""

    return call


_NUMBER_FIRST = frozenset({
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "bucketize", "div", "floor_divide", "mul", "normal", "pow",
    "remainder", "shift_left", "shift_right", "sub",
})  # fmt: skip
"""Functions whose first operand may be a number, in PyTorch or as the other operand of a tensor's operator."""


def _first_tensor(function: Callable[..., Any]) -> str:
    """Returns the name of the first parameter of `function` if that must be a tensor, else an empty text."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or function.__name__.strip("_") in _NUMBER_FIRST:
        return ""
    return first.name if first.annotation in ("Tensor", "Operand", Tensor) else ""


def require_tensor(name: str, first: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises TypeError unless the first argument is a tensor."""
    if not args and first not in kwargs:
        return  # the call says what is missing
    given = args[0] if args else kwargs[first]
    if not isinstance(given, Tensor):
        raise TypeError(f"{name}(): argument '{first}' (position 1) must be Tensor, not {type(given).__name__}")


def _first_call(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    signature: tuple[Any, ...],
    tensors: list[Tensor],
) -> Any:
    """Records and runs a call that has no replay, or whose replay does not apply any more."""
    if _CALLS.get(signature) is Uncached.NEVER:
        return _record(function, name, args, kwargs, Recording())
    recording = Recording(watch=True)
    result = _record(function, name, args, kwargs, recording)
    _keep(signature, recording, tensors, result)
    return result


def _record(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], recording: Recording
) -> Any:
    """Runs `function` with `recording` as the current one, and computes its results."""
    with recording_into(recording):
        recording.function = name
        result = function(*args, **kwargs)
        recording.flush()
    return result


def _keep(signature: tuple[Any, ...], recording: Recording, tensors: list[Tensor], result: Any) -> None:
    known: Replay | Uncached = Uncached.NEVER
    if not recording.not_replayable and len(recording.flushes) < 2:
        try:
            known = Replay(recording.flushes[0] if recording.flushes else None, tensors, {}, result)
        except NotReplayableError:
            known = Uncached.NEVER
    _CALLS.put(signature, known)
