"""torch.jit.trace: the ops of a function with example inputs, kept as one compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import forking
from treadle.compat.signatures import map_structure, values_in
from treadle.compat.torch.jit.run_counts import Counted, RunCounts
from treadle.compat.torch.jit.script import as_body, name_of
from treadle.compat.torch.lazy_ints import Lazy, plain
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.replay import NotReplayableError, Replay
from treadle.compat.torch.signatures import append_call_signature, tensors_in
from treadle.compat.torch.state import current
from treadle.compat.torch.tasks import run
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_TRACES = 64
"""The number of signatures that one traced function keeps."""


def record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay | None:
    """Traces `function` with `args`.

    Returns None if no graph can represent it: it writes into tensors of others, or a shape depends on data.
    """
    fresh = map_structure((args, kwargs), lambda tensor: Tensor(tensor.numpy()), Tensor)
    inputs = tensors_in(fresh)
    recording = Recording(keep=True)
    result, _ = run(as_body(function, *fresh), name_of(function), recording)
    if recording.memory.written or recording.data_dependent or values_in(result, Lazy):
        return None
    made: dict[int, Tensor] = {}  # the first tensor of the result with each value
    for tensor in tensors_in(result):
        if tensor.recording is recording:
            made.setdefault(recording.number(tensor), tensor)
    template = map_structure(result, lambda t: made[recording.number(t)] if t.recording is recording else t, Tensor)
    own = {id(tensor) for tensor in (*inputs, *made.values())}
    live = {
        id(tensor): tensor for tensor in (*recording.inputs.values(), *tensors_in(template)) if id(tensor) not in own
    }
    flush = recording.flush_of(list(made), list(made.values()))
    try:
        return Replay(flush, inputs, live, template)
    except NotReplayableError as error:
        raise RuntimeError(f"torch.jit.trace: {error}; return tensors, numbers, tuples, lists and dicts") from None


class TracedFunction(Counted):
    """A traced function or module. Arguments of another shape or dtype are traced at their first call."""

    def __init__(
        self,
        function: Callable[..., Any],
        example: tuple[Any, ...],
        named: dict[str, Any],
        counts: RunCounts | None = None,
    ) -> None:
        self.original = function
        self.__name__ = name_of(function)
        self._lock = forking.lock()
        self._run_counts = counts or RunCounts()
        self._traces: LRU[tuple[Any, ...], Replay | None] = LRU(MOST_TRACES)  # None: run the function itself
        key: list[Any] = []
        if append_call_signature(example, named, key, []):
            self._record(tuple(key), example, named)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the traced graph; inside a script or trace, the original function."""
        if current() is not None:
            return self.original(*args, **kwargs)
        key: list[Any] = []
        tensors: list[Tensor] = []
        if not append_call_signature(args, kwargs, key, tensors):
            return self._run_plainly(args, kwargs)
        signature = tuple(key)
        kept = self._traces.get(signature, self)
        result = self._replayed(kept, tensors) if isinstance(kept, Replay) else NotImplemented
        if result is NotImplemented and kept is not None:
            replay = self._record(signature, args, kwargs)
            result = NotImplemented if replay is None else self._replayed(replay, tensors)
        return self._run_plainly(args, kwargs) if result is NotImplemented else result

    def _replayed(self, replay: Replay, tensors: list[Tensor]) -> Any:
        result = replay.run(tensors)
        if result is not NotImplemented:
            self._run_counts.add_replay(replay)
        return result

    def _run_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result, call = run(as_body(self.original, args, kwargs), self.__name__)
        self._run_counts.add(*call.recording.sessions)
        return plain(result)

    def _record(self, signature: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay | None:
        with self._lock:
            replay = record(self.original, args, kwargs)
            if replay is not None:
                self._run_counts.note(replay)
            self._traces.put(signature, replay)
        return replay

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def trace(
    func: Any, example_inputs: Any = None, *, example_kwarg_inputs: dict[str, Any] | None = None, **options: Any
) -> TracedFunction:
    """Runs a function with example inputs and compiles the ops that it executes.

    Python control flow stays as it was executed, for each combination of shapes. Each call reads the module's
    parameters again. Forked calls run concurrently with the rest.

    Args:
        func: A function or a module.
        example_inputs: A tensor, or a tuple or list of positional arguments.
        example_kwarg_inputs: Keyword arguments.
        **options: Accepted and ignored.

    Returns:
        A callable that replays the ops. Arguments with other shapes or dtypes are traced when they first occur.

    Raises:
        RuntimeError: There are no example inputs, or the function returns something else than tensors, numbers,
            tuples, lists
            and dicts.
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("torch.jit.trace needs example_inputs, or example_kwarg_inputs")
    given = () if example_inputs is None else example_inputs
    example = tuple(given) if isinstance(given, tuple | list) else (given,)
    return TracedFunction(func, example, example_kwarg_inputs or {})
