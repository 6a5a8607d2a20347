"""State: arrays that a session keeps from one run to the next, such as a decoder's keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, Unpack

import numpy as np

from treadle import forking
from treadle.errors import InputError, StateError
from treadle.graph.shape import StaticShape
from treadle.runtime.kept_arrays import Carried, Kept, Rows, Stack
from treadle.runtime.run_options import RunOptions, check_names, request_of
from treadle.runtime.runner import OwnPlan, Runner
from treadle.runtime.signature import Interface, bind_symbols, fit, names
from treadle.runtime.state_pairs import Pair

Array = np.ndarray[Any, Any]


class State:
    """Inputs of a session that are outputs of the run before: `Session.state` makes it.

    A run that fails, or is ended by its timeout or cancelled, leaves the state as it was. Threads may use several
    states of one session at the same time, but each state by turns: a second use at the same time raises StateError.

    Example:
        >>> with session.state() as state:
        ...     logits = state.run({"input_ids": prompt})["logits"]
        ...     for _ in range(100):
        ...         token = logits[:, -1:].argmax(-1)
        ...         logits = state.run({"input_ids": token})["logits"]
    """

    def __init__(self, runner: Runner, model: Interface, pairs: Sequence[Pair]) -> None:
        """Make the state of `pairs` of the `model`; `runner` runs it, with axes that grow in front and stacks taken
        apart."""
        self._runner = runner
        self._model = model
        self._pairs = tuple(pairs)
        self._kept: dict[str, Kept] = {}
        self._outputs: dict[str, Kept] = {}
        self._by_input: dict[str, Carried | Rows] = {}
        self._by_output: dict[str, Carried | Rows] = {}
        for pair in pairs:
            kept = _kept_of(pair)
            self._kept[pair.input.name] = self._outputs[pair.output.name] = kept
            parts = kept.parts if isinstance(kept, Stack) else (kept,)
            for (before, after), part in zip(pair.parts, parts, strict=True):
                self._by_input[before] = self._by_output[after] = part
        self._returned = tuple(name for name in model.select(None) if name not in self._outputs)
        self._own = OwnPlan()
        self._every: dict[tuple[str, ...], tuple[str, ...]] = {}  # what runs compute for the outputs to return
        self._started = self._closed = self._busy = False
        self._lock = forking.lock()

    @property
    def pairs(self) -> dict[str, str]:
        """For each input that the state keeps the output that it is in the next run."""
        return {pair.input.name: pair.output.name for pair in self._pairs}

    @property
    def appended(self) -> tuple[str, ...]:
        """The inputs to which a run appends in place. The others are replaced: their outputs are passed on as they
        are."""
        return tuple(pair.input.name for pair in self._pairs if pair.axis is not None)

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None, **options: Unpack[RunOptions]
    ) -> dict[str, Array]:
        """Run the session on `inputs` and what is kept, and keep what the next run needs.

        The first run starts with nothing: axes along which arrays grow have size 0, other arrays hold zeros.

        Args:
            inputs: An array for each input that is not of the state, as `Session.run` takes them.
            outputs: Names of the outputs to return. None: all that are not of the state.
            **options: As `Session.run` takes them.

        Returns:
            A fresh array for each output, by name.

        Raises:
            InputError: An argument does not fit, or the first run cannot tell a size of the state; `load` gives it.
            StateError: The state is in use at this moment, or closed.
            TreadleError: As `Session.run` does.
        """
        check_names(options, "State.run")
        with self._alone():
            request = request_of(options, self._runner.request)
            threads = self._runner.threads_for(options, "State.run")
            wanted = self._select(outputs)
            if not isinstance(inputs, Mapping):
                raise InputError(f"inputs: wanted a mapping of names to arrays, got {type(inputs).__name__}")
            kept = [name for name in inputs if name in self._kept]
            if kept:
                raise InputError(f"input {kept[0]!r} is kept by the state; give it to load()")
            if not self._started:
                self._start(inputs)
            checked = self._runner.checked({**inputs, **{name: held.array for name, held in self._by_input.items()}})
            every = self._every.get(wanted)
            if every is None:
                declared = [tensor.name for tensor in self._runner.interface.outputs]
                every = tuple(name for name in declared if name in wanted or name in self._by_output)
                self._every = {wanted: every}
            found = self._runner.run_giving(checked, every, self._room, threads, request, self._own)
            results = dict(zip(every, found, strict=True))
            for name, held in self._by_output.items():
                held.keep(results[name])
            self._started = True
            return {name: results[name] for name in wanted}

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Let the next run start from `arrays`.

        Args:
            arrays: An array for each input of the state, by its name; they are copied.

        Raises:
            InputError: One is missing, unknown, or does not fit.
            StateError: The state is in use at this moment, or closed.
        """
        with self._alone():
            unknown = [name for name in arrays if name not in self._kept]
            if unknown:
                raise InputError(f"the state has no input {unknown[0]!r}; its inputs are {', '.join(self._kept)}")
            missing = [name for name in self._kept if name not in arrays]
            if missing:
                raise InputError(f"input {missing[0]!r} of the state is missing; wanted {', '.join(self._kept)}")
            fitting = {pair.input.name: fit(arrays[pair.input.name], pair.input) for pair in self._pairs}
            for name, array in fitting.items():
                self._kept[name].load(array)
            self._started = True

    def reset(self) -> None:
        """Forget what is kept, so that the next run starts with nothing. Memory stays for it.

        Raises:
            StateError: The state is in use at this moment, or closed.
        """
        with self._alone():
            self._started = False

    def close(self) -> None:
        """Free the memory. The state cannot be used again.

        Raises:
            StateError: The state is in use at this moment.
        """
        with self._lock:
            if self._busy:
                raise StateError("the state is in use by a run: it can be closed after it")
            self._closed = True
        for kept in self._kept.values():
            kept.drop()

    def arrays(self) -> dict[str, Array]:
        """Return copies of what is kept, by the names of inputs: `load` and `Session.run` take them.

        Raises:
            StateError: Nothing is kept yet, or the state is in use at this moment, or closed.
        """
        with self._alone():
            if not self._started:
                raise StateError("the state keeps nothing before its first run")
            return {name: kept.copy() for name, kept in self._kept.items()}

    def __getitem__(self, name: str) -> Array:
        """Return a copy of what is kept of an input, by its name or that of its output. Raises as arrays() does, and
        InputError for a name that the state does not have."""
        with self._alone():
            kept = self._kept.get(name) or self._outputs.get(name)
            if kept is None:
                raise InputError(f"the state keeps no {name!r}; its inputs are {', '.join(self._kept)}")
            if not self._started:
                raise StateError("the state keeps nothing before its first run")
            return kept.copy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        pairs = ", ".join(f"{pair.input.name} <- {pair.output.name}" for pair in self._pairs)
        return f"<treadle.State {pairs}>"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StateError("the state is closed; Session.state() makes a new one")
            if self._busy:
                raise StateError("the state is in use by another run; give each thread a state of its own")
            self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _select(self, outputs: Sequence[str] | None) -> tuple[str, ...]:
        if outputs is None:
            return self._returned
        wanted = self._model.select(outputs)
        for name in wanted:
            if name in self._outputs:
                raise InputError(f"output {name!r} is kept by the state; read it with state[{name!r}]")
        return wanted

    def _start(self, inputs: Mapping[str, Any]) -> None:
        """Keep arrays of no elements, or of zeros, of the sizes that `inputs` have."""
        symbols: dict[str, Any] = {}
        for tensor in self._model.inputs:
            if tensor.name not in self._kept and tensor.name in inputs:
                bind_symbols(tensor, np.shape(inputs[tensor.name]), symbols)
        for pair in self._pairs:
            shape = []
            for axis, dim in enumerate(pair.input.shape or ()):
                if isinstance(dim, int):
                    shape.append(dim)
                elif dim in symbols and axis != pair.axis:
                    shape.append(symbols[dim].size)
                elif pair.grows(axis):
                    shape.append(0)
                else:
                    raise InputError(
                        f"input {pair.input.name!r} of the state: no input tells the size {dim!r} of axis {axis}; "
                        f"give load() arrays for {names([each.input for each in self._pairs])}"
                    )
            self._kept[pair.input.name].start(tuple(shape), pair.input.dtype)

    def _room(self, output: str, shape: StaticShape) -> Array:
        """Return memory for `output`, which begins with what is kept."""
        kept = self._by_output[output]
        assert isinstance(kept, Rows), "only arrays that grow are appended to"
        return kept.room(shape)


def _kept_of(pair: Pair) -> Kept:
    """What keeps the array of `pair`."""
    growth, rank = pair.growth, len(pair.input.shape or ())
    if growth is None:
        return Carried()
    return Stack(growth.stacked, growth.sizes, growth.axis, rank) if growth.stacked else Rows(growth.axis, rank)
