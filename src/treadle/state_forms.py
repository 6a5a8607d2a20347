"""The states of a session, and the forms of its model in which states grow in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from treadle import forking
from treadle.graph.template import Form, Template
from treadle.graph.value import Value
from treadle.model_compiler import ModelCompiler
from treadle.runtime.runner import Runner
from treadle.runtime.state import State
from treadle.runtime.state_pairs import Growth, chosen_pairs

if TYPE_CHECKING:
    from treadle.graph.graph import Graph


class StateForms:
    """Makes the states of a session. Threads may share it."""

    def __init__(self, compiler: ModelCompiler, runner: Runner) -> None:
        self._compiler = compiler
        self._runner = runner
        self._forms: dict[frozenset[str], Runner | None] = {}
        self._found: dict[str, Growth] | None = None
        self._lock = forking.lock()

    def state(self, pairs: Mapping[str, str] | None) -> State:
        """Return a new state; compile the form in which its `pairs` grow in place if there is none yet.

        Raises InputError if the pairs do not fit, ModelError if the model's file has changed.
        """
        with self._lock:
            growths = self._found = self._compiler.growths() if self._found is None else self._found
        chosen = chosen_pairs(self._runner.interface, pairs, growths)
        in_place = {pair.input.name: growths[pair.input.name] for pair in chosen if pair.growth is not None}
        runner = self._form(in_place) if in_place else self._runner
        if runner is None:
            runner, chosen = self._runner, [pair._replace(growth=None) for pair in chosen]
        return State(runner, self._runner.interface, chosen)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for form in list(self._forms.values()):
            if form is not None:
                form.trim()

    def _form(self, growths: Mapping[str, Growth]) -> Runner | None:
        """Return what runs the model with outputs that grow in place; None if one plan cannot serve several sizes."""
        key = frozenset(growths)
        with self._lock:
            if key not in self._forms:
                compiler = self._compiler.sibling(f"appends to {sorted(growths)}", partial(self._appending, growths))
                runner = self._runner.like(compiler.interface, compiler.compile, compiler)
                compiler.compile_declared(runner.plans)
                self._forms[key] = runner if compiler.why_per_size() is None else None
            return self._forms[key]

    def _appending(self, growths: Mapping[str, Growth]) -> Graph | Template:
        """Return the model with inputs and outputs that grow in place."""
        template, graph = self._compiler.template, self._compiler.open_graph()
        assert graph is not None, "a model without a graph appends to nothing"
        if template is None:
            return _appending(graph, growths)
        form = _appending(graph, growths)
        shapes = {}
        for value in template.inputs:
            growth = growths.get(value.name)
            if growth is None:
                shapes[value.name] = value.shape
            else:
                shapes |= dict.fromkeys((name for name, _ in growth.parts), growth.rows(value.shape or ()))
        return Template(
            template.name,
            tuple(Value(value.name, value.dtype, shapes[value.name]) for value in form.inputs),
            tuple(Value(value.name, value.dtype) for value in form.outputs),
            partial(_build_appending, template, growths),
            builds_open=True,
            dims=template.dims,
        )


def _build_appending(template: Template, growths: Mapping[str, Growth], forms: Sequence[Form]) -> Graph:
    """The graph of `template` with inputs and outputs that grow in place, of these `forms`."""
    left = iter(forms)
    own: list[Form] = []
    for value in template.inputs:
        growth = growths.get(value.name)
        if growth is None:
            own.append(next(left))
        else:
            (dtype, shape), *_ = [next(left) for _ in growth.parts]
            own.append((dtype, growth.whole(shape)))
    return _appending(template.build(own), growths)


def _appending(graph: Graph, growths: Mapping[str, Growth]) -> Graph:
    """The form of `graph` in which inputs and outputs grow in place, those that are stacked each part by itself."""
    from treadle.passes.append_in_place import append_in_place, appended_pairs
    from treadle.passes.unstack_states import Stacked, unstack_states

    stacks = [
        Stacked(name, growth.output, growth.stacked, growth.sizes, growth.axis)
        for name, growth in growths.items()
        if growth.stacked
    ]
    apart = unstack_states(graph, stacks) if stacks else graph
    names = {before for growth in growths.values() for before, _ in growth.parts}
    return append_in_place(apart, {pair.input: pair for pair in appended_pairs(apart) if pair.input in names})
