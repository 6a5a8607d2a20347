"""torch.jit.trace: what a function does with example inputs, kept as one compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import forking
from treadle.compat.signatures import map_structure
from treadle.compat.torch.jit.script import as_body, name_of
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.replay import Replay, UnfitError
from treadle.compat.torch.signatures import described, leaves
from treadle.compat.torch.state import current
from treadle.compat.torch.tasks import run
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_TRACES = 64
"""How many forms of arguments one traced function keeps."""


def record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay | None:
    """Trace `function` with `args`; None for what no graph keeps: writes into tensors that are not the function's own,
    shapes that depend on data."""
    fresh = map_structure((args, kwargs), lambda tensor: Tensor(tensor.numpy()), Tensor)
    inputs = leaves(fresh)
    recording = Recording(keep=True)
    result, _ = run(as_body(function, *fresh), name_of(function), recording)
    if recording.memory.written or recording.ragged:
        return None
    made: dict[int, Tensor] = {}  # the first tensor of the result with each value
    for tensor in leaves(result):
        if tensor.recording is recording:
            made.setdefault(recording.number(tensor), tensor)
    form = map_structure(result, lambda t: made[recording.number(t)] if t.recording is recording else t, Tensor)
    own = {id(tensor) for tensor in (*inputs, *made.values())}
    live = {id(tensor): tensor for tensor in (*recording.inputs.values(), *leaves(form)) if id(tensor) not in own}
    ran = recording.outcome(list(made), list(made.values()))
    try:
        return Replay(ran, inputs, live, form)
    except UnfitError as error:
        raise RuntimeError(f"torch.jit.trace: {error}; return tensors, numbers, tuples, lists and dicts") from None


class TracedFunction:
    """A traced function or module. Other shapes or element types than those met are traced when they come."""

    def __init__(self, function: Callable[..., Any], example: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.original = function
        self.__name__ = name_of(function)
        self._lock = forking.lock()
        self._traces: LRU[tuple[Any, ...], Replay | None] = LRU(
            MOST_TRACES
        )  # None where only running the function will do
        key: list[Any] = []
        if described(example, named, key, []):
            self._record(tuple(key), example, named)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return self.original(*args, **kwargs)
        key: list[Any] = []
        tensors: list[Tensor] = []
        if not described(args, kwargs, key, tensors):
            return run(as_body(self.original, args, kwargs), self.__name__)[0]
        form = tuple(key)
        found = self._traces.get(form, self)
        result = NotImplemented if found is self or found is None else found.run(tensors)
        if result is NotImplemented and found is not None:
            found = self._record(form, args, kwargs)
            result = NotImplemented if found is None else found.run(tensors)
        return run(as_body(self.original, args, kwargs), self.__name__)[0] if result is NotImplemented else result

    def _record(self, form: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay | None:
        with self._lock:
            found = record(self.original, args, kwargs)
            self._traces.put(form, found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def trace(
    func: Any, example_inputs: Any = None, *, example_kwarg_inputs: dict[str, Any] | None = None, **options: Any
) -> TracedFunction:
    """Run `func`, a function or a module, with the example inputs, and keep the graph of what it did.

    Python control flow is kept as it went, for each combination of shapes met. Module parameters are read anew at each
    call. Futures that the function forks run beside the rest.
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("torch.jit.trace needs example_inputs, or example_kwarg_inputs")
    given = () if example_inputs is None else example_inputs
    example = tuple(given) if isinstance(given, tuple | list) else (given,)
    return TracedFunction(func, example, example_kwarg_inputs or {})
