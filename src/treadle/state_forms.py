"""The states of a session, and the forms of its model in which states grow in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treadle import forking
from treadle.model_compiler import ModelCompiler
from treadle.runtime.runner import Runner
from treadle.runtime.state import State
from treadle.runtime.state_pairs import chosen_pairs

if TYPE_CHECKING:
    from treadle.passes.append_in_place import Appended


class StateForms:
    """Makes the states of a session. Threads may share it."""

    def __init__(self, compiler: ModelCompiler, runner: Runner) -> None:
        self._compiler = compiler
        self._runner = runner
        self._forms: dict[frozenset[str], Runner | None] = {}
        self._lock = forking.lock()

    def state(self, pairs: Mapping[str, str] | None) -> State:
        """Return a new state; compile the form in which its `pairs` grow in place if there is none yet.

        Raises InputError if the pairs do not fit, ModelError if the model's file has changed.
        """
        appended = self._appended()
        growing = {name: (each.output, each.axis) for name, each in appended.items()}
        chosen = chosen_pairs(self._runner.interface, pairs, growing)
        in_place = {pair.input.name: appended[pair.input.name] for pair in chosen if pair.axis is not None}
        runner = self._form(in_place) if in_place else self._runner
        if runner is None:
            runner, chosen = self._runner, [pair._replace(axis=None) for pair in chosen]
        return State(runner, self._runner.interface.inputs, chosen)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for form in list(self._forms.values()):
            if form is not None:
                form.trim()

    def _appended(self) -> dict[str, Appended]:
        """The inputs that the model appends to along an open dimension; none of a template, which has no graph yet."""
        if self._compiler.is_template:
            return {}
        from treadle.passes.append_in_place import appended_pairs

        graph = self._compiler.graph
        shapes = {value.name: value.shape or () for value in graph.inputs}
        return {pair.input: pair for pair in appended_pairs(graph) if isinstance(shapes[pair.input][pair.axis], str)}

    def _form(self, appended: Mapping[str, Appended]) -> Runner | None:
        """Return what runs the model with outputs that grow in place; None if one plan cannot serve several sizes."""
        from treadle.passes.append_in_place import append_in_place

        key = frozenset(appended)
        with self._lock:
            if key not in self._forms:
                compiler = self._compiler.sibling(append_in_place(self._compiler.graph, appended))
                runner = self._runner.like(compiler.interface, compiler.compile)
                compiler.compile_declared(runner.plans)
                self._forms[key] = runner if compiler.why_per_size() is None else None
            return self._forms[key]
