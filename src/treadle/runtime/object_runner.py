"""Runs models some of whose results are no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle import _native
from treadle.errors import RunError
from treadle.graph.object_result import ObjectResult
from treadle.graph.shape import StaticShape
from treadle.runtime.control import Request
from treadle.runtime.plans import Compile, Rebinds
from treadle.runtime.runner import Checked, OwnPlan, Runner
from treadle.runtime.signature import Interface, Tensor
from treadle.runtime.threads import Threads

Array = np.ndarray[Any, Any]


class ObjectRunner(Runner):
    """A runner whose runs return lists, dicts and None where results are no tensors.

    The plans know nothing of them: they compute the tensors that objects are made from.
    """

    def __init__(
        self,
        interface: Interface,
        compile_: Compile,
        threads: Threads,
        common: _native.RunLimits,
        rebinds: Rebinds | None = None,
    ) -> None:
        super().__init__(interface, compile_, threads, common, rebinds)
        tensors = {tensor.name: tensor for tensor in interface.outputs}
        self._objects = {each.name: each for each in interface.results if isinstance(each, ObjectResult)}
        self._results = tuple(
            tensors[each] if isinstance(each, str) else Tensor(each.name, None, None, each.type)
            for each in interface.results
        )
        self._visible = replace(interface, outputs=self._results)

    @property
    def results(self) -> tuple[Tensor, ...]:
        return self._results

    def select(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        return self._visible.select(wanted)

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, threads: Threads, request: Request
    ) -> dict[str, Any]:
        names = self.select(outputs)
        needed = None if outputs is None else self._needed(names)
        return self._made(names, super().run(inputs, needed, threads, request))

    def _run_checked(
        self, checked: Checked, names: tuple[str, ...], threads: Threads, request: Request
    ) -> dict[str, Any]:
        needed = tuple(self._needed(names))
        return self._made(names, super()._run_checked(checked, needed, threads, request))

    def run_giving(
        self,
        checked: Checked,
        names: tuple[str, ...],
        give: Callable[[str, StaticShape], Array],
        threads: Threads,
        request: Request,
        own: OwnPlan,
    ) -> list[Any]:
        if self._objects.keys().isdisjoint(names):
            return super().run_giving(checked, names, give, threads, request, own)
        return list(self._run_checked(checked, names, threads, request).values())

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Return the outputs that the results `names` are made from."""
        reads = ([name] if name not in self._objects else self._objects[name].reads for name in names)
        return list(dict.fromkeys(output for some in reads for output in some))

    def _made(self, names: Sequence[str], outputs: Mapping[str, Array]) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for name in names:
            made = self._objects.get(name)
            try:
                results[name] = outputs[name] if made is None else made.make([outputs[read] for read in made.reads])
            except RunError as error:
                raise RunError(str(error), f"output {name!r}") from error
        return results


def runner_for(
    interface: Interface, compile_: Compile, threads: Threads, common: _native.RunLimits, rebinds: Rebinds
) -> Runner:
    """Return the runner of a model with this `interface`."""
    kind = ObjectRunner if interface.results else Runner
    return kind(interface, compile_, threads, common, rebinds)
