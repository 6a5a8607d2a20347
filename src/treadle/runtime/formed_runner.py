"""Runs models some of whose inputs are no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from treadle import _native
from treadle.graph.formed_model import FormedModel, InputForm, ObjectInput
from treadle.graph.value import Value
from treadle.runtime.control import Request
from treadle.runtime.plans import Runnable
from treadle.runtime.run_options import RunOptions
from treadle.runtime.runner import Runner
from treadle.runtime.signature import Interface, Tensor, fit_decoded
from treadle.runtime.threads import Threads

if TYPE_CHECKING:
    from treadle.runtime.futures import RunFuture

Array = np.ndarray[Any, Any]
Forms = tuple[InputForm, ...]


def formed_interface(model: FormedModel) -> Interface:
    """Return the inputs and outputs of `model`; those that are no tensors have a type in place of dtype and shape."""
    inputs = [
        Tensor(each.name, None, None, each.type) if isinstance(each, ObjectInput) else _tensor(each)
        for each in model.inputs
    ]
    outputs = [
        _tensor(each) if isinstance(each, Value) else Tensor(each[0], None, None, each[1]) for each in model.outputs
    ]
    return Interface(tuple(inputs), tuple(outputs))


def _tensor(value: Value) -> Tensor:
    return Tensor(value.name, value.known_dtype.numpy, value.shape)


class FormedRunner(Runner):
    """A runner that leaves each run to the runner of the forms of its inputs.

    `runner_of` returns the runner for the form of each input that is no tensor; it compiles one that is new.
    """

    def __init__(
        self,
        model: FormedModel,
        runner_of: Callable[[Forms], Runner],
        threads: Threads,
        common: _native.RunLimits,
    ) -> None:
        super().__init__(formed_interface(model), _no_plan, threads, common)
        self._objects = {each.name: each for each in model.inputs if isinstance(each, ObjectInput)}
        self._runner_of = runner_of

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, threads: Threads, request: Request
    ) -> dict[str, Any]:
        runner, arrays = self._split(inputs)
        return runner.run(arrays, self._names(outputs), threads, request)

    def run_async(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, options: RunOptions) -> RunFuture:
        runner, arrays = self._split(inputs)
        return runner.run_async(arrays, self._names(outputs), options)

    def plan_for(self, inputs: Mapping[str, Any]) -> Runnable:
        runner, arrays = self._split(inputs)
        return runner.plan_for(arrays)

    def _names(self, outputs: Sequence[str] | None) -> list[str] | None:
        """Return the names of `outputs`, checked. Raises InputError for unknown ones."""
        return None if outputs is None else list(self.select(outputs))

    def _split(self, given: Mapping[str, Any]) -> tuple[Runner, dict[str, Array]]:
        """Return the runner for the forms of `given`, and its inputs.

        Raises InputError that lists every input that is missing, unknown or does not fit.
        """
        forms: list[InputForm] = []

        def take(tensor: Tensor, what: object) -> list[Array]:
            if (each := self._objects.get(tensor.name)) is None:
                return [fit_decoded(what, tensor)]
            form, arrays = each.take(what)
            forms.append(form)
            return arrays

        arrays = chain.from_iterable(self.interface.take(given, take))
        runner = self._runner_of(tuple(forms))
        return runner, dict(zip((tensor.name for tensor in runner.interface.inputs), arrays, strict=True))


def _no_plan(*_: object) -> NoReturn:
    raise AssertionError("a model of several forms has no plan of its own")
