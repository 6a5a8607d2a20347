"""The forms of a session's model whose outputs are written into the memory of the inputs that they replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from treadle import forking
from treadle.model_compiler import ModelCompiler
from treadle.runtime.run_options import RunOptions, request_of
from treadle.runtime.runner import OwnPlan, Runner

if TYPE_CHECKING:
    from treadle.graph.graph import Graph

Array = np.ndarray[Any, Any]

_PAIRS = "written"
"""The name under which it is stored which outputs replace elements of inputs."""


class WrittenForms:
    """Runs a model on buffers that are both an input and an output, such as a decoder's keys. Threads may share it."""

    def __init__(self, compiler: ModelCompiler, runner: Runner) -> None:
        self._compiler = compiler
        self._runner = runner
        self._forms: dict[frozenset[tuple[str, str]], Runner] = {}
        self._pairs: dict[str, str] | None = None
        self._lock = forking.lock()

    def pairs(self) -> dict[str, str]:
        """Return, by the names of outputs, the inputs that they are with a few elements replaced.

        There are none of a template. Raises ModelError if the model's file has changed.
        """
        if self._pairs is None:
            self._pairs = self._compiler.remembered(_PAIRS, self._found_pairs)
        return self._pairs

    def _found_pairs(self) -> dict[str, str]:
        if self._compiler.is_template or self._compiler.formed is not None:
            return {}
        from treadle.passes.write_in_place import written_pairs

        return {pair.output: pair.input for pair in written_pairs(self._compiler.graph)}

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Sequence[str],
        memory: Mapping[str, Array],
        own: OwnPlan,
        **options: Unpack[RunOptions],
    ) -> dict[str, Array]:
        """Return the `outputs` of a run; those of `memory` are written there where the plan can.

        Args:
            inputs: As `Session.run` takes them.
            outputs: Names of the outputs to compute.
            memory: By the names of some outputs of pairs() the arrays that are given as their inputs.
            own: The caller's, for one run at a time.
            **options: As `Session.run` takes them.

        Raises:
            TreadleError: As `Session.run` does; elements of `memory` may be written by then.
        """
        pairs = self.pairs()
        runner = self._form(frozenset((pairs[name], name) for name in memory))
        threads = runner.threads_for(options, "run")
        request = request_of(options, runner.request)
        names = tuple(tensor.name for tensor in runner.interface.outputs if tensor.name in outputs)
        given = runner.checked(inputs)
        found = runner.run_giving(given, names, lambda name, _: memory[name], threads, request, own)
        return dict(zip(names, found, strict=True))

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for form in list(self._forms.values()):
            form.trim()

    def _form(self, pairs: frozenset[tuple[str, str]]) -> Runner:
        """Return what runs the model with the outputs of `pairs` in the memory of their inputs."""
        with self._lock:
            found = self._forms.get(pairs)
            if found is None:
                make = partial(_written, self._compiler, pairs)
                compiler = self._compiler.sibling(f"writes into {sorted(pairs)}", make)
                found = self._runner.like(compiler.interface, compiler.compile, compiler)
                compiler.compile_declared(found.plans)
                self._forms[pairs] = found
            return found


def _written(compiler: ModelCompiler, pairs: frozenset[tuple[str, str]]) -> Graph:
    from treadle.passes.write_in_place import Written, write_in_place

    return write_in_place(compiler.graph, [Written(*pair) for pair in sorted(pairs)])
