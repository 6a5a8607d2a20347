"""The states of a session, and the forms of its model in which states grow in place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from treadle import forking
from treadle.graph.graph import Graph
from treadle.model_compiler import ModelCompiler
from treadle.runtime.runner import Runner
from treadle.runtime.state import State
from treadle.runtime.state_pairs import chosen_pairs


class StateForms:
    """Makes the states of a session. Threads may share it."""

    def __init__(self, compiler: ModelCompiler, runner: Runner) -> None:
        self._compiler = compiler
        self._runner = runner
        self._forms: dict[frozenset[str], Runner | None] = {}
        self._growing: Mapping[str, tuple[str, int]] | None = None
        self._lock = forking.lock()

    def state(self, pairs: Mapping[str, str] | None) -> State:
        """Return a new state; compile the form in which its `pairs` grow in place if there is none yet.

        Raises InputError if the pairs do not fit, ModelError if the model's file has changed.
        """
        appended = self._appended()
        chosen = chosen_pairs(self._runner.interface, pairs, appended)
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

    def _appended(self) -> Mapping[str, tuple[str, int]]:
        """The inputs that the model appends to along an open dimension, each with the output and the axis."""
        with self._lock:
            if self._growing is None:
                self._growing = self._compiler.appended()
            return self._growing

    def _form(self, appended: Mapping[str, tuple[str, int]]) -> Runner | None:
        """Return what runs the model with outputs that grow in place; None if one plan cannot serve several sizes."""
        key = frozenset(appended)
        with self._lock:
            if key not in self._forms:
                compiler = self._compiler.sibling(f"appends to {sorted(appended)}", partial(self._made, appended))
                runner = self._runner.like(compiler.interface, compiler.compile)
                compiler.compile_declared(runner.plans)
                self._forms[key] = runner if compiler.why_per_size() is None else None
            return self._forms[key]

    def _made(self, appended: Mapping[str, tuple[str, int]]) -> Graph:
        """Return the model's graph with these outputs growing in place."""
        from treadle.passes.append_in_place import Appended, append_in_place

        pairs = {name: Appended(name, output, axis) for name, (output, axis) in appended.items()}
        return append_in_place(self._compiler.graph, pairs)
