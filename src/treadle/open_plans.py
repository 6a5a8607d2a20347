"""The plans of a model with open dimensions: each serves all sizes that its guards allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from treadle import forking
from treadle.codegen.artifact_record import Artifact
from treadle.errors import InternalError, TreadleError
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.open_dims import NOTHING, OpenDims
from treadle.graph.shape import StaticShape
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.plan_store import PlanStore, Restored, StoredPlan, behind_name, open_name
from treadle.runtime.data_stage import StageForm
from treadle.runtime.data_stage import Template as StageTemplate
from treadle.runtime.executable import Body, StageLayout
from treadle.runtime.per_size import PerSize
from treadle.runtime.plans import Runnable
from treadle.runtime.program_template import MovingPlan, ProgramTemplate
from treadle.runtime.program_template import StageTemplate as StageStep
from treadle.runtime.signature import Tensor

if TYPE_CHECKING:
    from treadle.codegen.artifact_writer import ArtifactWriter
    from treadle.compiled_plans import Bound, Compiled, Open
    from treadle.driver import BehindSizes, Options

MOST_PLANS = 4
"""Plans that are compiled for one model, choice of outputs, and dimensions that are 0. Sizes that none of them serves
are compiled each for itself."""


StageBody = StageLayout | StageStep


class OpenModel(NamedTuple):
    """What plans are compiled of, and how.

    Attributes:
        load: Returns a graph with open dimensions, or a template that builds such.
        inputs: Its inputs.
        options: Returns how to compile.
        dims: What it declares of its open dimensions.
        numbers: The names of those that are no dimensions but numbers of any sign.
    """

    load: Callable[[], Graph | Template]
    inputs: Sequence[Value | Tensor]
    options: Callable[[], Options]
    dims: OpenDims = NOTHING
    numbers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, template: Template, options: Callable[[], Options]) -> OpenModel:
        """Return the model of a template that declares its inputs."""
        return cls(lambda: template, template.inputs, options, template.dims)

    @property
    def nodes(self) -> tuple[str, ...] | None:
        """The names of the model's nodes; None for a template, whose graph is made for sizes."""
        loaded = self.load()
        return tuple(node.name for node in all_nodes(loaded)) if isinstance(loaded, Graph) else None


class _Key(NamedTuple):
    """What plans are for: the names of outputs, and of open dimensions that are 0."""

    outputs: tuple[str, ...]
    empty: frozenset[str] = frozenset()


class OpenPlans:
    """Compiles a model once for all sizes, and again where an assumption of the plans so far does not hold.

    Sizes of 0 have plans of their own, but for dimensions that are appended to. Plans are first looked for on disk.
    Threads may share it.
    """

    def __init__(self, store: PlanStore | None = None) -> None:
        """Make the plans of a model that are kept in `store`; None: they are not."""
        self._plans: dict[_Key, list[Open | StoredPlan]] = {}
        self._served: dict[tuple[str, ...], Open | StoredPlan] = {}  # first plans that find() has returned
        self._closed: set[_Key] = set()
        self._reasons: dict[_Key, PerSize] = {}
        self._appended: frozenset[str] | None = None
        self._store = store
        self._lock = forking.lock()

    def hold(self, outputs: tuple[str, ...], artifact: Artifact, empty: frozenset[str] = frozenset()) -> bool:
        """Hold a plan for `outputs` from disk, for which these dimensions are 0, or the reason why there is none.

        Return false if it is for fixed sizes.
        """
        key = _Key(outputs, empty)
        if artifact.program is None:
            self._reasons[key] = PerSize.of(artifact.notes["per_size"])
            if artifact.notes["closed"]:
                self._closed.add(key)
            return True
        plan = StoredPlan.of(artifact, open_name(outputs, empty, len(self._plans.get(key, ()))))
        if plan is None:
            return False
        self._appended = artifact.appended
        self._reasons.pop(key, None)
        self._plans.setdefault(key, []).append(plan)
        return True

    def compile(self, model: OpenModel, outputs: tuple[str, ...], hints: Mapping[str, int] | None) -> Open | None:
        """Compile a plan for `outputs` of `model` and store it; None if one plan cannot serve several sizes.

        `hints` are the sizes to compile for where a decision depends on them; None: sample sizes.
        """
        from treadle.driver import compile_open

        key = _Key(outputs, self._empty(model, hints or {}))
        if key in self._closed:
            return None
        number = len(self._plans.get(key, ()))
        if number >= MOST_PLANS:
            self._close(key, PerSize(f"{MOST_PLANS} plans are held, the most for one model"))
            return None
        if not is_enabled("open_sizes"):
            self._reasons[key] = PerSize("TREADLE_DISABLE names open_sizes")
            return None
        name = open_name(outputs, key.empty, number)
        writing = nullcontext() if self._store is None else self._store.writer(name)
        with writing as writer:
            try:
                options = replace(model.options(), artifact_writer=writer, plans_behind=self._behind(name))
                plan = compile_open(model.load(), options, outputs, hints)
            except TreadleError as error:  # the compile for the sizes alone tells what is wrong, and where
                if hints is None:
                    self._reasons[key] = PerSize(f"the sample sizes do not fit: {error}")
                    self._save_reason(writer, key, model)
                return None
            if isinstance(plan, PerSize):
                self._close(key, plan)
                self._save_reason(writer, key, model)
                return None
            if self._store is not None:
                symbols, appended = tuple(plan.facts.symbols), self._appended_of(model)
                self._store.save(writer, plan.template, plan.nodes, symbols, appended, hints)
        self._reasons.pop(key, None)
        self._plans.setdefault(key, []).append(plan)
        return plan

    def _behind(self, name: str) -> Callable[[], RestPlans] | None:
        """Return what makes the plans of the stage of the plan `name`; None if they are not stored."""
        return None if self._store is None else partial(_rest_plans, self._store, name)

    def _bind(
        self, model: OpenModel, plan: Open | StoredPlan, sizes: Mapping[str, int], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return `plan` for `outputs` bound to these `sizes` of symbols; None if it does not serve them."""
        if not isinstance(plan, StoredPlan):
            return plan.bind(sizes)
        behind = self._behind(plan.name)
        if self._store is not None and plan.template.stages:
            compile_ = partial(_compile_stored, model, plan, outputs, behind)
            wanted = {"outputs": outputs, "sizes": dict(sizes)}
            give_compilers(plan.template.stages, self._store.part(behind_name(plan.name), wanted), compile_)
        executable = plan.bind(sizes)
        show = partial(_show, model, plan, sizes, outputs, behind)
        return None if executable is None else Restored(executable, show, plan)

    def _save_reason(self, writer: ArtifactWriter | None, key: _Key, model: OpenModel) -> None:
        """Store why there is no plan for `key`, so that later sessions need not find out."""
        if self._store is not None:
            notes = {"per_size": self._reasons[key].record, "closed": key in self._closed}
            self._store.save(writer, None, model.nodes, notes=notes)

    def rebind(self, model: OpenModel, sizes: Mapping[str, int], outputs: tuple[str, ...]) -> Bound | Restored | None:
        """Return the first plan held for `outputs` bound to these `sizes` of symbols; None if it does not serve them.

        Only plans that have served other sizes before. It is what find_sizes() returns, without looking for others.
        """
        plan = self._served.get(outputs)
        return None if plan is None else self._bind(model, plan, sizes, outputs)

    def moving(self, outputs: tuple[str, ...]) -> MovingPlan | None:
        """Return the plan that rebind() binds, for one user; None if it cannot be bound again and again."""
        plan = self._served.get(outputs)
        if plan is None:
            return None
        return plan.template.moving(plan.symbols if isinstance(plan, StoredPlan) else tuple(plan.facts.symbols))

    def bound(self, model: OpenModel, sizes: Mapping[str, int], outputs: tuple[str, ...]) -> Bound | Restored | None:
        """Return a plan held for `outputs` bound to these `sizes` of symbols; None if none serves them."""
        for plan in self._held(outputs):  # the oldest first: later ones do not change what served a size
            found = self._bind(model, plan, sizes, outputs)
            if found is not None:
                general = self._plans.get(_Key(outputs))
                if general and general[0] is plan:
                    self._served[outputs] = plan
                return found
        return None

    def _held(self, outputs: tuple[str, ...]) -> list[Open | StoredPlan]:
        """Return the plans held for `outputs`, the first one first; those for sizes of 0 last."""
        general = self._plans.get(_Key(outputs), [])
        return [
            *general,
            *(plan for key, plans in self._plans.items() if key.outputs == outputs and key.empty for plan in plans),
        ]

    def compiled(self, outputs: tuple[str, ...]) -> list[Open]:
        """Return the plans for `outputs` that this process has compiled, in the order of the plans held."""
        plans = [plan.compiled if isinstance(plan, StoredPlan) else plan for plan in self._held(outputs)]
        return [plan for plan in plans if plan is not None]

    def samples(self, outputs: tuple[str, ...]) -> Mapping[str, int] | None:
        """Return the sizes of symbols that the first plan for `outputs` was compiled for; None without a plan.

        They are empty if those are sample sizes and the plan is from disk.
        """
        for plan in self._held(outputs):
            return (plan.hints or {}) if isinstance(plan, StoredPlan) else plan.samples
        return None

    def compile_stored(self, model: OpenModel, outputs: tuple[str, ...]) -> None:
        """Compile the plans held for `outputs` that are from disk, so that compiled() returns them too."""
        for plan in self._held(outputs):
            if isinstance(plan, StoredPlan):
                _compile_stored(model, plan, outputs, self._behind(plan.name))

    def why_per_size(self, outputs: tuple[str, ...]) -> PerSize | None:
        """Return why sizes that no plan serves are compiled each for itself; None if a plan is compiled for them."""
        return self._reasons.get(_Key(outputs))

    def _close(self, key: _Key, reason: PerSize) -> None:
        self._closed.add(key)
        self._reasons[key] = reason

    def _empty(self, model: OpenModel, sizes: Mapping[str, int]) -> frozenset[str]:
        """Return the symbols for whose `sizes` of 0, by name, `model` needs a plan that is for 0 only."""
        empty = frozenset(name for name, size in sizes.items() if size == 0 and name not in model.numbers)
        return empty - self._appended_of(model) if empty else empty

    def _appended_of(self, model: OpenModel) -> frozenset[str]:
        if self._appended is None:
            from treadle.driver import appended

            self._appended = appended(model.load())
        return self._appended

    def find(
        self, model: OpenModel, shapes: Sequence[StaticShape], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return a plan that is held or stored, bound to inputs of these `shapes`; None if none serves them."""
        sizes = sizes_of(model.inputs, shapes, model.dims)
        return None if sizes is None else self.find_sizes(model, sizes, outputs)

    def find_sizes(
        self, model: OpenModel, sizes: Mapping[str, int], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return what find() does, for these `sizes` of the symbols by name."""
        with self._lock:
            bound = self.bound(model, sizes, outputs)
            if bound is not None or self._store is None:
                return bound
            key = _Key(outputs, self._empty(model, sizes))
            while bound is None and (number := len(self._plans.get(key, ()))) < MOST_PLANS:
                artifact = None if key in self._closed else self._store.load(open_name(outputs, key.empty, number))
                if artifact is None or not self.hold(outputs, artifact, key.empty) or artifact.program is None:
                    return None
                bound = self._bind(model, self._plans[key][-1], sizes, outputs)
        return bound

    def bind(
        self,
        model: OpenModel,
        shapes: Sequence[StaticShape],
        outputs: tuple[str, ...],
        hints: Mapping[str, int] | None = None,
    ) -> Bound | Restored | None:
        """Return a plan for `outputs` bound to inputs of these `shapes`; None if none can serve them.

        Args:
            model: What to compile if no plan serves them yet.
            shapes: Of the inputs, in their order.
            outputs: The names of the outputs to compute.
            hints: The sizes to compile the first plan for; None: those of `shapes`, as for all further plans.
        """
        sizes = sizes_of(model.inputs, shapes, model.dims)
        return None if sizes is None else self.bind_sizes(model, sizes, outputs, hints)

    def bind_sizes(
        self,
        model: OpenModel,
        sizes: Mapping[str, int],
        outputs: tuple[str, ...],
        hints: Mapping[str, int] | None = None,
    ) -> Bound | Restored | None:
        """Return what bind() does, for these `sizes` of the symbols by name."""
        with self._lock:
            found = self.find_sizes(model, sizes, outputs)
            if found is not None:
                return found
            empty = self._empty(model, sizes)
            if not sizes:
                return None
            if hints is not None and not empty and not self._held(outputs):
                first = self.compile(model, outputs, hints)
                bound = None if first is None else first.bind(sizes)
                if bound is not None:
                    return bound
            latest = self.compile(model, outputs, sizes)
        return None if latest is None else latest.bind(sizes)


def _show(
    model: OpenModel,
    plan: StoredPlan,
    sizes: Mapping[str, int],
    outputs: tuple[str, ...],
    behind: Callable[[], RestPlans] | None,
) -> Runnable:
    """Return `plan` for `outputs` compiled in this process and bound to these `sizes`."""
    bound = _compile_stored(model, plan, outputs, behind).bind(sizes)
    if bound is None:
        raise InternalError(f"a plan from disk serves {dict(sizes)}, but not when it is compiled again")
    return bound


def _compile_stored(
    model: OpenModel, plan: StoredPlan, outputs: tuple[str, ...], behind: Callable[[], RestPlans] | None
) -> Open:
    """Return `plan` for `outputs` compiled in this process; `behind` makes the plans of its stage."""
    from treadle.driver import compile_open

    if plan.compiled is None:
        compiled = compile_open(model.load(), replace(model.options(), plans_behind=behind), outputs, plan.hints)
        if isinstance(compiled, PerSize):
            raise InternalError(f"a plan from disk cannot be compiled again: {compiled}")
        plan.compiled = compiled
    return plan.compiled


class RestPlans:
    """The plans of the part of a graph that follows data-dependent sizes; a run compiles them."""

    def __init__(self, store: PlanStore | None = None) -> None:
        """Hold no plan yet. They are kept in `store`; None: they are not."""
        self._plans = OpenPlans(store)

    def bind(
        self, rest: Graph, options: Callable[[], Options], shapes: Sequence[StaticShape], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return a plan for `outputs` of `rest` bound to inputs of these `shapes`; None if none can serve them."""
        return self._plans.bind(OpenModel(lambda: rest, rest.inputs, options), shapes, outputs)

    def bind_sizes(
        self, rest: Graph, options: Callable[[], Options], sizes: Mapping[str, int], outputs: tuple[str, ...]
    ) -> tuple[ProgramTemplate, tuple[str, ...], Bound | None] | None:
        """Return the template for `outputs` of `rest` that serves these `sizes` by name, and the names of its symbols.

        The plan comes along if this process has compiled it. None if none can serve them.
        """
        from treadle.passes.specialize import numbers_of

        model = OpenModel(lambda: rest, rest.inputs, options, numbers=numbers_of(rest))
        # A plan that is compiled for 1 may serve no other size.
        hints = {name: 2 if size == 1 else size for name, size in sizes.items()}
        found = self._plans.bind_sizes(model, sizes, outputs, hints)
        if isinstance(found, Restored):
            assert found.source is not None, "it was bound of a plan for all sizes"
            return found.source.template, found.source.symbols, None
        return None if found is None else (found.template, found.symbols, found)


class StoredStage:
    """Compiles for a stage from disk: takes plans from disk, or has the plan that runs it compiled again."""

    def __init__(self, form: StageForm, store: PlanStore | None, compile_: Callable[[], Compiled | Open]) -> None:
        """Make the compiler of a stage whose plans are in `store`; None: they are not stored.

        `compile_` compiles the plan that runs it.
        """
        self._form = form
        self._compile = compile_
        self._compiler: BehindSizes | None = None
        self._store = store
        self._plans = OpenPlans(store)

    def make(self, sizes: Sequence[int]) -> StageTemplate | tuple[Body, list[StaticShape | None]]:
        """Return a template for the sizes, or a program for them alone and the shapes of its outputs."""
        form = self._form
        by_name = dict(zip(form.sizes, sizes, strict=True))
        numbers = frozenset(form.numbers)
        if self._compiler is None:
            model = OpenModel(self._graph, (), self._options, numbers=numbers)
            empty = [name for name, size in by_name.items() if size == 0 and name not in numbers]
            if empty:
                # Holds a plan for other sizes: it may serve 0, too. Else _empty() would have the graph compiled.
                self._plans.find_sizes(model, {**by_name, **dict.fromkeys(empty, 2)}, form.outputs)
            found = self._plans.find_sizes(model, by_name, form.outputs)
            wanted = {"stage": form.outputs, "found": tuple(sizes)}
            if found is None and self._store is not None and self._store.compile_apart(wanted):
                found = self._plans.find_sizes(model, by_name, form.outputs)
            if isinstance(found, Restored) and found.source is not None:
                return StageTemplate(found.source.template, list(map(form.sizes.index, found.source.symbols)))
        return self._compiled().make(sizes)

    def _compiled(self) -> BehindSizes:
        from treadle.driver import compiler_of_stage

        if self._compiler is None:
            self._compiler = compiler_of_stage(self._compile().plan, self._form.outputs)
            if self._compiler is None:
                raise InternalError(
                    f"a plan from disk has a stage for {list(self._form.outputs)}, but not when it is compiled again"
                )
        return self._compiler

    def _graph(self) -> Graph:
        return self._compiled().behind.graph

    def _options(self) -> Options:
        return self._compiled().options


def _rest_plans(store: PlanStore, name: str) -> RestPlans:
    """Return the plans of the stage of the plan `name` in `store`."""
    return RestPlans(store.part(behind_name(name)))


def give_compilers(bodies: Sequence[StageBody], store: PlanStore, compile_: Callable[[], Compiled | Open]) -> None:
    """Give the stages of a plan from disk what compiles for them; the arguments are those of StoredStage."""
    for body in bodies:
        for stage in (body.stage, *body.stage.bodies):
            if stage.compiler is None:
                stage.compiler = StoredStage(stage.form, store, compile_)


def sizes_of(
    inputs: Sequence[Value | Tensor], shapes: Sequence[StaticShape], dims: OpenDims = NOTHING
) -> dict[str, int] | None:
    """Return the sizes of the symbols of `inputs` of these `shapes`, by name.

    None if they have none, an input has no rank, or the shapes contradict each other or what is declared.
    """
    sizes: dict[str, int] = {}
    for value, shape in zip(inputs, shapes, strict=True):
        if value.shape is None or len(value.shape) != len(shape):
            return None
        for dim, size in zip(value.shape, shape, strict=True):
            if (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                return None
    return dims.symbols(sizes) or None
