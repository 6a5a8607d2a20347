"""The forms of a session's model some of whose inputs are no tensors: each has a graph and plans of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from treadle import forking, knobs
from treadle.errors import InputError
from treadle.graph.formed_model import FormedModel
from treadle.graph.graph import Graph
from treadle.lru import LRU
from treadle.model_compiler import ModelCompiler
from treadle.runtime.formed_runner import Forms
from treadle.runtime.runner import Runner

if TYPE_CHECKING:
    from treadle.plan.plan import Plan


class ModelForms:
    """Compiles `model`, which `compiler` has loaded, for the forms of runs. Threads may share it.

    `make_runner` returns what runs a form. The last TREADLE_PLAN_CACHE forms are kept.
    """

    def __init__(
        self, compiler: ModelCompiler, model: FormedModel, make_runner: Callable[[ModelCompiler], Runner]
    ) -> None:
        self._compiler = compiler
        self._model = model
        self._make_runner = make_runner
        self._kept: LRU[Forms, tuple[ModelCompiler, Runner]] = LRU(knobs.get("TREADLE_PLAN_CACHE"))
        self._lock = forking.lock()

    def runner(self, forms: Forms) -> Runner:
        """Return the runner for inputs of these forms; compile it if it is new. Raises ModelError if that fails."""
        found = self._kept.get(forms)
        if found is None:
            with self._lock:
                found = self._kept.get(forms) or self._made(forms)
                self._kept.put(forms, found)
        return found[1]

    def _made(self, forms: Forms) -> tuple[ModelCompiler, Runner]:
        compiler = self._compiler.sibling(f"of {list(forms)}", partial(self._model.build, forms))
        runner = self._make_runner(compiler)
        compiler.compile_declared(runner.plans)
        return compiler, runner

    @property
    def graph(self) -> Graph:
        """The graph of the form used last. Raises InputError before the first run."""
        kept = self._kept.values()
        if not kept:
            raise InputError("the model has no graph before it has inputs: what these hold decides which it is")
        return kept[-1][0].graph

    def plans(self) -> list[Plan]:
        """Return the plans of all forms that are kept, the most recently used last."""
        return [plan for compiler, runner in self._kept.values() for plan in compiler.plans_of(runner.plans.all())]

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for _, runner in self._kept.values():
            runner.trim()
