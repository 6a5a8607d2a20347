"""The private half of a session that compiles its model, or reads the artifact of an earlier compile.

Modules that compile are imported when something has to be compiled: a model with an artifact on disk is ready before
they would be.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.codegen.artifact import load_artifact
from treadle.codegen.artifact_record import Artifact, Resources
from treadle.compile_settings import CompileCounter, CompileSettings
from treadle.errors import InputError, ShapeError
from treadle.form_plans import FormPlans
from treadle.frontends.model_source import ModelForm, ModelSource
from treadle.graph.formed_model import FormedModel
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.mapping import refusing_changed_files
from treadle.graph.template import Form, Template
from treadle.open_plans import OpenModel, OpenPlans, RestPlans, give_compilers
from treadle.plan_store import PlanStore, Restored, behind_name, fixed_name, main_name, tokens_name
from treadle.runtime.caps import NodeCaps, checked_caps, effective_caps
from treadle.runtime.executable import Executable
from treadle.runtime.formed_runner import formed_interface
from treadle.runtime.per_size import PerSize
from treadle.runtime.plans import Plans, Runnable
from treadle.runtime.program_template import MovingPlan
from treadle.runtime.signature import CallSignature, Interface, dtype_of, interface_of, shape_of, signature_of
from treadle.runtime.state_pairs import Growth, growth_of
from treadle.runtime.turns import Turn
from treadle.scarce_memory import memory_to

if TYPE_CHECKING:
    from treadle.compiled_plans import Bound, Compiled, Open
    from treadle.driver import Options
    from treadle.padded_plans import PaddedPlans
    from treadle.passes.skip_padding.in_the_way import InTheWay
    from treadle.plan.plan import Plan

Array = np.ndarray[Any, Any]

GROWTHS = "growths"
"""The name under which it is stored how the model appends to its inputs."""

AT_CONSTRUCTION = "Session(node_intra_op=)"
"""The source of caps that a session is made with, for messages."""


@contextmanager
def loading() -> Iterator[None]:
    """Return a context manager for code that loads and compiles a model.

    It raises MemoryLimitError if there is no memory, and ModelError if a file was changed while it was read.
    """
    advice = "raise the limit of the process or its container, or use smaller inputs or a smaller model"
    with memory_to("load and compile the model", advice), refusing_changed_files():
        yield


class ModelCompiler:
    """Compiles one model for the signatures and outputs of its session's runs.

    It refers neither to the session nor to its plans, which refer to it.
    """

    @loading()
    def __init__(self, model: Any, source: ModelSource | ModelForm, settings: CompileSettings, caps: NodeCaps) -> None:
        """Find the model's artifact, or read the model. Raises ModelError if it cannot be used."""
        self._source = source
        self._settings = settings
        self._caps = caps
        self._graph: Graph | None = None
        self._padded: PaddedPlans | None = None
        self._by_form: FormPlans | None = None
        self._latest: CallSignature | None = None
        self._loaded: Callable[[], Resources | None] = lambda: None  # what the artifact's plan owns, while it is alive
        key = settings.artifact_key(source)
        self._artifact = None if key is None else settings.find_artifact(source, key)
        loaded = source.load() if self._artifact is None else self._artifact
        if isinstance(loaded, Graph):
            whole = settings.artifact_key(source)
            if whole is not None and whole != key:  # loading has shown which external data the model has
                self._artifact = load_artifact(whole, settings.target)
            key = whole
            loaded = self._artifact or loaded
        self.is_template: bool
        """Whether the model's graph is made for the dtypes and shapes of its inputs."""
        self.interface: Interface
        """The inputs and outputs of the model."""
        self.nodes: tuple[str, ...] | None
        """The names of the nodes; None until the model has a graph."""
        self.formed = loaded if isinstance(loaded, FormedModel) else None
        """The model if inputs of it are no tensors: then its forms are compiled, and this compiles nothing."""
        if isinstance(loaded, Artifact):
            kept = None if loaded.program is None else loaded.program.layout.kept
            if isinstance(kept, Resources):
                self._loaded = weakref.ref(kept)
            self.interface, self.nodes = loaded.interface, loaded.nodes
            self.is_template, self._builds_open = loaded.is_template, True
        elif isinstance(loaded, FormedModel):
            self.interface, self.nodes = formed_interface(loaded), None
            self.is_template, self._builds_open = False, False
        else:
            self.interface = interface_of(loaded, objects=loaded is model)
            self.nodes = None if isinstance(loaded, Template) else names_of(loaded)
            self.is_template = isinstance(loaded, Template)
            self._builds_open = not isinstance(loaded, Template) or loaded.builds_open
        checked_caps(caps.get(), self.nodes, AT_CONSTRUCTION)
        main = tokens_name(self.interface.select(None)) if settings.skip_padding else main_name(self.interface)
        self._store = settings.store(source, key, self.interface, caps, main, is_template=self.is_template)
        self._open = OpenPlans(self._store)
        if self.is_template and self._builds_open and not self.interface.declares_inputs:
            self._by_form = FormPlans(self._load_template, self.interface, self._store)
        if settings.skip_padding:
            from treadle.padded_plans import PaddedPlans

            artifact, self._artifact = self._artifact, None
            self._padded = PaddedPlans(self._padded_model, self._store, artifact)

    @property
    def graph(self) -> Graph:
        """The model's graph; of a template, the one built last. Raises InputError if none was built."""
        if self._graph is None:
            loaded = self._source.load()
            assert not isinstance(loaded, FormedModel), "each form has a graph of its own"
            if isinstance(loaded, Template):
                loaded = self._graph_of(loaded)
            self._graph = loaded
        return self._graph

    def _graph_of(self, template: Template) -> Graph:
        """Return the graph of `template` for the latest inputs, or for all sizes. Raises InputError without either."""
        if self._latest is not None:
            return template.build(self._forms_of(self._latest))
        samples = self._open.samples(self.interface.select(None))
        if samples is None:
            raise InputError("the model has no graph before it has inputs: its dtypes and shapes follow from theirs")
        from treadle.graph.facts import Facts
        from treadle.passes.specialize import build_open

        return build_open(template, Facts(), samples)

    @loading()
    def compile_declared(self, plans: Plans) -> None:
        """Compile the model as far as it can be before a run: once for all sizes, if its inputs have open dimensions.

        Otherwise `plans` keeps the plan.
        """
        shapes = self.interface.fixed_shapes
        outputs = self.interface.select(None)
        if self._padded is not None:
            self._padded.must_serve(outputs)
            return
        if self.formed is not None:
            return
        if self._by_form is not None:
            self._declare_without_shapes()
        elif shapes is not None and not self.is_template:
            plans.get(shapes, outputs)
        elif self._builds_open and not self._take_artifact(outputs):
            self._note_nodes(self._open.compile(self._model, outputs, None))

    def _declare_without_shapes(self) -> None:
        """Store the inputs and outputs of a model that declares no shapes, so that later sessions need not read it."""
        artifact, self._artifact = self._artifact, None
        if artifact is None:
            with self._store.writer(main_name(self.interface)) as writer:
                self._store.save(writer, None, None)

    def _take_artifact(self, outputs: tuple[str, ...]) -> bool:
        """Hold the plan for all sizes from the artifact; false if there is none."""
        artifact, self._artifact = self._artifact, None
        if artifact is None or not self._open.hold(outputs, artifact):
            return False
        if artifact.program is not None:
            self._caps.apply_to(artifact.program)
        return True

    @loading()
    def compile(self, signature: CallSignature, outputs: tuple[str, ...]) -> Runnable:
        """Return what computes `outputs` for inputs of this signature: a plan from disk, else a fresh compile."""
        if self._padded is not None:
            shapes = [shape_of(each) for each in signature]
            padded = partial(self._compile_padded, signature, outputs)
            found = self._padded.bind(shapes, outputs, padded)
            if found is not None:
                return found
        return self._compile_padded(signature, outputs)

    def rebind(self, signature: CallSignature, sizes: Mapping[str, int], outputs: tuple[str, ...]) -> Runnable | None:
        """Return what compile() would, if the first plan for `outputs` serves these `sizes` of open dimensions.

        None if it does not, if another kind of plan goes before it, or if there is no memory.
        """
        if self._padded is not None or self._by_form is not None:
            return None
        try:
            found = self._open.rebind(self._model, sizes, outputs)
        except MemoryError:
            return None
        if found is not None:
            self.note(signature)
        return found

    def note(self, signature: CallSignature) -> None:
        """Note that inputs of this signature are those of the last run: a template's graph is made for them."""
        if self.is_template:
            self._graph, self._latest = None, signature

    def moving(self, outputs: tuple[str, ...]) -> MovingPlan | None:
        """Return the plan that rebind() binds, for one user; None if it cannot be bound again and again."""
        if self._padded is not None or self._by_form is not None:
            return None
        return self._open.moving(outputs)

    def why_padded(self, outputs: tuple[str, ...]) -> InTheWay | None:
        """Return why a run for `outputs` computes padding; None if it does not."""
        from treadle.passes.skip_padding.in_the_way import InTheWay

        if self._padded is None:
            return InTheWay("the session was made without skip_padding")
        found = self._padded.get(outputs)
        return found if isinstance(found, InTheWay) else None

    def _padded_model(self) -> OpenModel:
        """Return the model with open sizes. Raises InputError if there is none."""
        if not self._builds_open or self._by_form is not None:
            from treadle.padded_plans import WHERE

            raise InputError("the model declares no open sizes", WHERE)
        return self._model

    def _compile_padded(self, signature: CallSignature, outputs: tuple[str, ...]) -> Runnable:
        shapes, forms = [shape_of(each) for each in signature], self._forms_of(signature)
        if self.is_template:
            self._graph, self._latest = None, signature
            if self._by_form is not None:
                return self._compile_form(self._by_form, forms, outputs)
        found = self._find(forms, outputs)
        wanted = {"signature": signature, "outputs": outputs}
        if found is None and self._padded is None and self._store.compile_apart(wanted, fixed_name(outputs, shapes)):
            found = self._find(forms, outputs)
        if found is not None:
            return found
        if self._padded is not None and self._open.samples(outputs) is None:
            self._open.compile(self._model, outputs, None)  # for the sizes that other sessions take
        bound = self._open.bind(self._model, shapes, outputs) if self._builds_open else None
        if bound is not None:
            self._note_nodes(bound)
            return bound
        return self._compile_fixed(self._store, forms, outputs)

    def _find(self, forms: Sequence[Form], outputs: tuple[str, ...]) -> Runnable | None:
        """Return a plan that is held or stored for inputs of these `forms`; None if none serves them."""
        shapes = [shape for _, shape in forms]
        artifact, self._artifact = self._artifact, None
        if artifact is None:
            found = self._open.find(self._model, shapes, outputs)
            if found is not None:
                return found
            artifact = self._store.load(fixed_name(outputs, shapes))
        elif artifact.program is not None:
            self._caps.apply_to(artifact.program)
        if artifact is None or not isinstance(artifact.program, Executable):
            return None
        return self._restored(self._store, artifact, forms, outputs)

    def _forms_of(self, signature: CallSignature) -> list[Form]:
        """Return the dtype and shape of each input of a run with this signature."""
        return [
            (dtype_of(each, tensor), shape_of(each))
            for tensor, each in zip(self.interface.inputs, signature, strict=True)
        ]

    def find_sizes(self, sizes: Mapping[str, int], outputs: tuple[str, ...]) -> Runnable | None:
        """Return a plan that is held or stored for these `sizes` of open dimensions, by name; None if none is."""
        return self._open.find_sizes(self._model, sizes, outputs)

    def _compile_form(self, plans: FormPlans, forms: Sequence[Form], outputs: tuple[str, ...]) -> Runnable:
        """Return what computes `outputs` of a template that declares no shapes for inputs of these `forms`."""
        bound = plans.bind(self._options, forms, outputs)
        if bound is not None:
            self._note_nodes(bound)
            return bound
        store = self._store.part(f"form {[dtype.name for dtype, _ in forms]}")
        artifact = store.load(fixed_name(outputs, [shape for _, shape in forms]))
        if artifact is not None and isinstance(artifact.program, Executable):
            return self._restored(store, artifact, forms, outputs)
        return self._compile_fixed(store, forms, outputs)

    def _restored(
        self, store: PlanStore, artifact: Artifact, forms: Sequence[Form], outputs: tuple[str, ...]
    ) -> Restored:
        """Return the plan for inputs of these `forms` that `artifact` has."""
        assert isinstance(artifact.program, Executable)
        if artifact.nodes is not None:
            self._set_nodes(artifact.nodes)
        wanted = {"outputs": outputs, "signature": signature_of(self.interface.inputs, forms)}
        part = store.part(behind_name(fixed_name(outputs, [shape for _, shape in forms])), wanted)
        give_compilers(artifact.program.stages, part, partial(self._compile_again, store, forms, outputs))
        return Restored(artifact.program, partial(self._compile_fixed, store, forms, outputs, keep=False))

    def _compile_again(self, store: PlanStore, forms: Sequence[Form], outputs: tuple[str, ...]) -> Compiled:
        """Return what `_restored` does, compiled in this process."""
        from treadle.compiled_plans import Compiled

        compiled = self._compile_fixed(store, forms, outputs, keep=False)
        assert isinstance(compiled, Compiled), "what was stored is one plan"
        return compiled

    def _compile_fixed(
        self, store: PlanStore, forms: Sequence[Form], outputs: tuple[str, ...], *, keep: bool = True
    ) -> Runnable:
        """Return the model compiled for inputs of these `forms`; `store` keeps it if `keep`."""
        from treadle.compiled_plans import Compiled
        from treadle.driver import compile_for

        shapes = [shape for _, shape in forms]
        with store.writer(fixed_name(outputs, shapes)) if keep else nullcontext() as writer:
            self._offer_loaded()
            if self.is_template:
                graph = self._graph = self._load_template().build(forms)
            else:
                graph = self.graph
            names = names_of(graph)
            self._set_nodes(names)
            behind = partial(RestPlans, store.part(behind_name(fixed_name(outputs, shapes))))
            options = replace(self._options(), artifact_writer=writer, plans_behind=behind)
            runnable = compile_for(graph, options, shapes, outputs)
            if isinstance(runnable, Compiled):
                store.save(writer, runnable.executable, names)
            return runnable

    @property
    def _model(self) -> OpenModel:
        return OpenModel(self._load_model, self.interface.inputs, self._options, self.interface.dims)

    def _load_model(self) -> Graph | Template:
        self._offer_loaded()
        return self._load_template() if self.is_template else self.graph

    def _load_template(self) -> Template:
        loaded = self._source.load()
        assert isinstance(loaded, Template)
        return loaded

    def _offer_loaded(self) -> None:
        """Let plans that are compiled now share the weights that the artifact's plan has packed."""
        from treadle.plan.packed import offer

        resources, self._loaded = self._loaded(), lambda: None
        if resources is not None:
            offer(resources.arrays)

    def _options(self) -> Options:
        return self._settings.options(self._caps)

    def _note_nodes(self, plan: Open | Bound | Restored | None) -> None:
        """Learn from `plan` which nodes a template's graph has. Raises ThreadSettingError if caps name others."""
        if plan is not None and not isinstance(plan, Restored):
            self._set_nodes(plan.nodes)

    def _set_nodes(self, nodes: tuple[str, ...]) -> None:
        if self.is_template or self.nodes is None:
            self.nodes = nodes
            checked_caps(self._caps.get(), nodes, AT_CONSTRUCTION)

    @property
    def compiles(self) -> int:
        """The number of plans compiled so far."""
        return self._settings.counter.count

    def growths(self) -> dict[str, Growth]:
        """Return how the model appends to inputs along an open dimension, by their names.

        There is nothing of a template that has no graph before its inputs are known.
        """
        found = self.remembered(GROWTHS, self._growths)
        return {name: growth_of(*fields) for name, *fields in found or ()}

    def _growths(self) -> list[tuple[Any, ...]] | None:
        graph = self.open_graph()
        if graph is None:
            return None
        from treadle.passes.append_in_place import appended_pairs
        from treadle.passes.unstack_states import stacked_pairs

        shapes = {tensor.name: tensor.shape or () for tensor in self.interface.inputs}
        found = {
            pair.input: Growth(pair.output, pair.axis, ((pair.input, pair.output),)) for pair in appended_pairs(graph)
        }
        for stack in stacked_pairs(graph):
            found[stack.input] = Growth(stack.output, stack.axis, tuple(stack.parts), stack.axes, stack.sizes)
        return [(name, *growth) for name, growth in found.items() if isinstance(shapes[name][growth.axis], str)]

    def remembered(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returns of the model, as JSON has it: from disk, or else stored there under `name`.

        None is not stored.
        """
        artifact = self._store.load(name)
        if artifact is not None:
            return artifact.notes[name]
        made = make()
        if made is not None:
            with self._store.writer(name) as writer:
                self._store.save(writer, None, self.nodes, notes={name: made})
        return made

    def open_graph(self) -> Graph | None:
        """Return the model's graph with open dimensions; None of a template that has none before its inputs are known.

        Raises ModelError if the model's file has changed.
        """
        template = self.template
        if template is None:
            return None if self.formed is not None else self.graph
        if not self._builds_open or self._by_form is not None:
            return None
        from treadle.graph.facts import Facts
        from treadle.passes.specialize import build_open

        try:
            return build_open(template, Facts(), {})
        except ShapeError:
            return None  # the sample sizes do not fit

    @property
    def template(self) -> Template | None:
        """The model if its graph is made for the dtypes and shapes of its inputs."""
        return self._load_template() if self.is_template else None

    def sibling(self, form: str, make: Callable[[], Graph | Template]) -> ModelCompiler:
        """Return the compiler of the `form` of this model that `make` returns, with the same settings and caps.

        It shares packed weights. Raises what making the form raises.
        """

        def load() -> Graph | Template:
            self._offer_loaded()
            return make()

        return ModelCompiler(None, ModelForm(self._source, form, load), self._settings, self._caps)

    def count_in(self, counter: CompileCounter) -> None:
        """Let `counter` count the plans of this model too."""
        self._settings.counter.report_to(counter)

    def open_plans(self) -> list[Open]:
        """Return the plans for all sizes that compute all outputs, the first compiled first."""
        outputs = self.interface.select(None)
        if self._by_form is not None:
            self._by_form.compile_stored(self._options, outputs)
            return self._by_form.compiled(outputs)
        self._open.compile_stored(self._model, outputs)
        return self._open.compiled(outputs)

    def why_per_size(self) -> PerSize | None:
        """Return why sizes that no plan serves are compiled each for itself; None if a plan is compiled for them."""
        if self._by_form is not None:
            return self._by_form.why_per_size(self.interface.select(None))
        if not self._builds_open:
            return PerSize("the graph is made for the dtypes and shapes of a run")
        return self._open.why_per_size(self.interface.select(None))

    def plans_of(self, runnables: Sequence[Runnable]) -> list[Plan]:
        """Return the plans of `runnables`, first stage first, with the caps in force."""
        plans = [plan for runnable in runnables for plan in plans_of(runnable)]
        caps = self._caps.get()
        return [
            replace(plan, calls=[replace(call, caps=effective_caps(call.caps, caps)) for call in plan.calls])
            for plan in plans
        ]


def plans_of(runnable: Runnable) -> list[Plan]:
    """Return the plans of one compile, first stage first."""
    from treadle import driver
    from treadle.padded_plans import TokenRun

    while isinstance(runnable, Restored | TokenRun | Turn):
        runnable = runnable.kept() if isinstance(runnable, Turn) else runnable.compiled()
    return driver.plans_of(runnable)


def names_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of the nodes, those in the bodies of branches included."""
    return tuple(node.name for node in all_nodes(graph))
