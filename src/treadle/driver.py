"""The driver: Graph to Plan to Executable. The one module that sees every stage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from treadle import _native, dtypes
from treadle.codegen.artifact_writer import ArtifactWriter
from treadle.codegen.assemble import assemble
from treadle.codegen.assemble_open import assemble_open
from treadle.codegen.build import Progress
from treadle.compiled_plans import Bound, Compiled, Open, in_stages, labels_of, reference_call, run_reference, stages_of
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.shape import StaticShape
from treadle.graph.template import Template
from treadle.lru import LRU
from treadle.ops.call import Nested
from treadle.passes.appended_dims import appended_dims
from treadle.passes.base import Math, PassContext, Precision
from treadle.passes.data_stages import Ahead, Behind, join_stages
from treadle.passes.lower.base import bytes_of_weights
from treadle.passes.make_plan import make_plan
from treadle.passes.pipeline import infer, optimize, simplify
from treadle.passes.regions import Region, first_region
from treadle.passes.sample_sizes import with_sample_sizes
from treadle.passes.skip_padding.in_the_way import InTheWay
from treadle.passes.skip_padding.rewrite import Skipped, skip_padding
from treadle.passes.specialize import (
    build_open,
    copy_graph,
    numbers_of,
    set_numbers,
    specialize,
    specialize_open,
)
from treadle.passes.stage_bodies import Findings
from treadle.plan.plan import Plan
from treadle.plan.target import Target
from treadle.provider import Provider
from treadle.records import dataclass
from treadle.runtime.caps import NodeCaps
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.data_stage import Ahead as Stages
from treadle.runtime.data_stage import DataStage, StageForm
from treadle.runtime.data_stage import Template as StageTemplate
from treadle.runtime.executable import Body, SingleFunction
from treadle.runtime.per_size import PerSize
from treadle.runtime.plans import Runnable
from treadle.runtime.program_template import ProgramTemplate
from treadle.runtime.runner import Runner
from treadle.tracing.registry import StepLabel

Array = np.ndarray[Any, Any]

MAX_STAGED_PLANS = 16
"""How many plans a graph keeps for its stage behind a data-dependent shape."""


class PlansOfRest(Protocol):
    """The plans of what follows data-dependent sizes, each for all sizes that its guards allow."""

    def bind(
        self,
        rest: Graph,
        options: Callable[[], Options],
        shapes: Sequence[StaticShape],
        outputs: tuple[str, ...],
    ) -> Runnable | None:
        """Return a plan for `outputs` of `rest` bound to inputs of these `shapes`; None if none can serve them."""
        ...

    def bind_sizes(
        self,
        rest: Graph,
        options: Callable[[], Options],
        sizes: Mapping[str, int],
        outputs: tuple[str, ...],
    ) -> tuple[ProgramTemplate, tuple[str, ...], Bound | None] | None:
        """Return the template for `outputs` of `rest` that serves these `sizes` by name, and the names of its symbols.

        The plan comes along if this process has compiled it. None if none can serve them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: the target, the arithmetic, the provider of matrix products (None: treadle's kernels)."""

    target: Target
    math: Math = "fast"
    progress: Progress | None = None
    nested: Callable[[Any], Runner] | None = None
    """Returns the runner of the body of a branch or loop."""
    precision: Precision = "f32"
    provider: Provider | None = None
    caps: NodeCaps | None = None
    """The caps on single nodes, which the session may change later."""
    artifact_writer: ArtifactWriter | None = None
    """Writes the artifact of the compiled model, if one is wanted."""
    on_compiled: Callable[[], None] | None = None
    """Called after each plan that is compiled."""
    weight_bytes: int | None = None
    """Bytes of the model's weights; None: those of the compiled graph's constants."""
    plans_behind: Callable[[], PlansOfRest] | None = None
    """Makes the plans of a stage; None: as `plans_of_rest` does."""
    plans_of_rest: Callable[[], PlansOfRest] | None = None
    """Makes the plans of what follows data-dependent sizes; None: each combination of sizes is compiled for itself."""
    batch_invariant: bool = False
    """Whether no result may depend on how many images or rows are computed with it."""
    findings: Findings | None = None
    """What was found for bodies by the graphs in front of this one; None: there are none."""

    @property
    def context(self) -> PassContext:
        """What passes may look at besides the graph."""
        return PassContext(
            self.target,
            self.math,
            precision=self.precision,
            weight_bytes=self.weight_bytes,
            batch_invariant=self.batch_invariant,
        )

    def plan(self, graph: Graph, *, open_sizes: bool = False) -> Plan:
        """Return the plan of `graph`, which is optimised; with `open_sizes`, one for a template."""
        return make_plan(
            graph,
            self.target,
            self.math,
            self.provider,
            weight_bytes=self.weight_bytes,
            open_sizes=open_sizes,
            batch_invariant=self.batch_invariant,
        )


def compile_for(graph: Graph, options: Options, shapes: Sequence[StaticShape], outputs: Sequence[str]) -> Runnable:
    """Compile `graph` for concrete input `shapes` and the named `outputs`.

    All weights of `graph` count as the model's, whichever outputs are wanted: an output's bits do not depend on the
    others.
    """
    options = replace(options, weight_bytes=bytes_of_weights(graph))
    fixed = specialize(graph, {value.name: shape for value, shape in zip(graph.inputs, shapes, strict=True)})
    by_name = dict(zip((value.name for value in graph.outputs), fixed.outputs, strict=True))
    fixed.outputs = [by_name[name] for name in outputs]
    return compile_specialized(fixed, options)


def compile_open(
    model: Graph | Template, options: Options, outputs: Sequence[str], hints: Mapping[str, int] | None = None
) -> Open | PerSize:
    """Compile `model` once for all sizes of its open dimensions.

    Args:
        model: A graph with open dimensions, or a template that builds such.
        options: How to compile.
        outputs: The names of the outputs to compute.
        hints: Sizes of symbols by which decisions are taken that no proof settles, sample sizes for the others; None:
            sample sizes that fit the model (`with_sample_sizes`). Of those that are 0 the plan is for 0 only, unless
            they are `appended`.

    Returns:
        A plan that is bound to sizes by `Open.bind`, or why one plan cannot serve all sizes.

    Raises:
        ModelError, ShapeError: The model does not fit together for the sample sizes.
    """
    compiled = partial(_compile_for_samples, model, options, outputs)
    return with_sample_sizes(model, compiled) if hints is None else compiled(hints, Facts())


def appended(model: Graph | Template) -> frozenset[str]:
    """Return the open dimensions of `model` of which one plan serves 0 and all other sizes."""
    return frozenset(appended_dims(model)) if isinstance(model, Graph) else frozenset()


def _compile_for_samples(
    model: Graph | Template, options: Options, outputs: Sequence[str], hints: Mapping[str, int], facts: Facts
) -> Open | PerSize:
    opened = build_open(model, facts, hints) if isinstance(model, Template) else specialize_open(model, facts, hints)
    nodes = tuple(node.name for node in all_nodes(opened))
    if options.weight_bytes is None:
        options = replace(options, weight_bytes=bytes_of_weights(opened))
    why = _why_untraced(opened, options)
    if why is not None:
        return why
    by_name = dict(zip((value.name for value in model.outputs), opened.outputs, strict=True))
    opened.outputs = [by_name[name] for name in outputs]
    context = options.context
    infer(opened, context)
    why = _why_dynamic(opened)
    joined = None if why is None else _joined(opened, context, options)
    if why is not None and joined is None:
        return why
    return _open_plan(joined or opened, facts, context, options, nodes)


def compile_without_padding(
    model: Graph | Template, options: Options, outputs: Sequence[str]
) -> WithoutPadding | InTheWay:
    """Compile `model` so that it computes only the tokens of padded texts, whatever the sizes of its open dimensions.

    Args:
        model: As compile_open() takes it.
        options: How to compile.
        outputs: The names of the outputs to compute.

    Returns:
        The plan, or what stands in the way.

    Raises:
        ModelError, ShapeError: The model does not fit together for the sample sizes.
    """
    facts = Facts()
    opened = build_open(model, facts, {}) if isinstance(model, Template) else specialize_open(model, facts, {})
    nodes = tuple(node.name for node in all_nodes(opened))
    options = replace(options, weight_bytes=bytes_of_weights(opened))
    by_name = dict(zip((value.name for value in model.outputs), opened.outputs, strict=True))
    opened.outputs = [by_name[name] for name in outputs]
    context = options.context
    why = _why_untraced(opened, options)
    if why is None:
        infer(opened, context)
        why = _why_dynamic(opened)
    if why is not None:
        return InTheWay(str(why))
    simplify(opened, context)
    found = skip_padding(opened, facts, context)
    if isinstance(found, InTheWay):
        return found
    plan = _open_plan(found.graph, facts, context, options, nodes)
    return InTheWay(str(plan)) if isinstance(plan, PerSize) else WithoutPadding(plan, found)


@dataclass(frozen=True, slots=True)
class WithoutPadding:
    """A plan that computes only the tokens of padded texts, and the inputs that it has for that."""

    plan: Open
    skipped: Skipped


def _why_dynamic(graph: Graph) -> PerSize | None:
    """Return why sizes of the inferred `graph` cannot be expressions; None if they are."""
    region = first_region(graph)
    if region.graph is graph:
        return None
    calls = [node for node in region.dynamic if node.op == "call"]
    if calls:
        return PerSize("only Python can tell the shape of a result", labels_of(calls))
    return PerSize("sizes depend on data, or elements are strings", labels_of(region.dynamic))


def _open_plan(
    opened: Graph, facts: Facts, context: PassContext, options: Options, nodes: tuple[str, ...]
) -> Open | PerSize:
    """Compile an inferred graph with expressions for sizes."""
    optimize(opened, context)
    plan = options.plan(opened, open_sizes=True)
    why = _why_unshared(facts)
    if why is not None:
        return why
    if options.artifact_writer is not None:
        options.artifact_writer.move_constants(plan)
    template = assemble_open(plan, facts, options.progress)
    if options.caps is not None:
        options.caps.apply_to(template)
    if options.on_compiled is not None:
        options.on_compiled()
    return Open(plan, facts, template, nodes)


def _why_untraced(graph: Graph, options: Options) -> PerSize | None:
    """Return why `graph` cannot be compiled with expressions for its sizes; None if that is not known before."""
    if options.provider is not None:
        return PerSize(f"{options.provider.name} multiplies matrices, of known sizes only")
    nested = [node for node in graph.nodes if isinstance(node.attrs.get("function"), Nested)]
    return PerSize("branches and loops are compiled for known sizes", labels_of(nested)) if nested else None


def _why_unshared(facts: Facts) -> PerSize | None:
    """Return why a plan that is valid under the guards of `facts` cannot serve several sizes; None if it can.

    A size of 1 that is broadcast has a plan of its own, for all sizes of other dimensions.
    """
    pins = [guard for guard in facts.guards if guard.pins]
    ones = {str(guard.symbols[0]) for guard in pins if guard.pins_to_one}
    if all(guard.pins_to_one for guard in pins) and (not pins or facts.symbols.keys() - ones):
        return None
    return PerSize(f"a plan would be valid only for {' and '.join(map(str, pins))}")


def compile_specialized(graph: Graph, options: Options) -> Runnable:
    """Compile a graph whose inputs have concrete shapes; where shapes depend on data, in stages."""
    bind_bodies(graph, options)
    context = options.context
    infer(graph, context)
    region = first_region(graph)
    is_whole = region.graph is graph
    joined = None if is_whole else _joined(graph, context, options)
    plan = options.plan(optimize(joined or region.graph, context))
    if options.artifact_writer is not None and (is_whole or joined is not None):
        options.artifact_writer.move_constants(plan)
    compiled = Compiled(plan, assemble(plan, options.progress))
    if options.on_compiled is not None:
        options.on_compiled()
    if options.caps is not None:
        options.caps.apply_to(compiled.executable)
    if is_whole or joined is not None:
        return compiled
    inputs = tuple(value.name for value in graph.inputs)
    outputs = tuple(value.name for value in graph.outputs)
    return Staged(compiled, region, inputs, outputs, replace(options, artifact_writer=None))


def _joined(graph: Graph, context: PassContext, options: Options) -> Graph | None:
    """Return `graph` with a node for what is behind data-dependent sizes; None if it has to run in stages."""
    make_plans = options.plans_behind or options.plans_of_rest
    if make_plans is None:
        return None
    findings = Findings() if options.findings is None else options.findings
    options = replace(options, artifact_writer=None, findings=findings)

    def stage_of(behind: Behind, ahead: Ahead | None = None) -> DataStage:
        outputs = behind.graph.outputs
        form = StageForm(
            tuple(value.known_dtype.numpy for value in outputs),
            tuple(value.name for value in outputs),
            behind.sizes,
            tuple(sorted(numbers_of(behind.graph))),
        )
        first = None if ahead is None else Stages(tuple(map(stage_of, ahead.bodies)), ahead.form)
        return DataStage(form, BehindSizes(behind, options, make_plans()), first)

    return join_stages(graph, context, stage_of, findings)


@dataclass(frozen=True, slots=True)
class BehindSizes:
    """Compiles what is behind data-dependent sizes: once for all of them where a plan can serve several."""

    behind: Behind
    options: Options
    plans: PlansOfRest
    made: deque[Bound | Compiled] = field(default_factory=lambda: deque(maxlen=MAX_STAGED_PLANS))
    """What was made last."""

    def make(self, sizes: Sequence[int]) -> StageTemplate | tuple[Body, list[StaticShape | None]]:
        """Return a template for the sizes, or a program for them alone and the shapes of its outputs."""
        graph, names = self.behind.graph, self.behind.sizes
        by_name = dict(zip(names, sizes, strict=True))
        outputs = tuple(value.name for value in graph.outputs)
        found = self.plans.bind_sizes(graph, lambda: self.options, by_name, outputs)
        if found is not None:
            template, symbols, plan = found
            if plan is not None:
                self.made.append(plan)
            return StageTemplate(template, [names.index(symbol) for symbol in symbols])
        fixed = copy_graph(graph)
        set_numbers(fixed, by_name)
        shapes = [
            tuple(by_name[dim] if isinstance(dim, str) else dim for dim in value.shape or ()) for value in graph.inputs
        ]
        compiled = compile_for(fixed, replace(self.options, plans_behind=None), shapes, outputs)
        if not isinstance(compiled, Compiled):
            assert self.options.nested is not None, "a session compiles stages"
            return in_stages(fixed, shapes, self.options.nested), [None] * len(outputs)
        self.made.append(compiled)
        ports = compiled.plan.outputs
        return Body.of(compiled.executable.layout), [None if port.sized_in_run else port.shape for port in ports]


def compiler_of_stage(plan: Plan, outputs: tuple[str, ...]) -> BehindSizes | None:
    """Return what compiles for the stage of a plan, or of the loop in front of it, for `outputs`; None without one."""
    compilers = (stage.compiler for stage in stages_of(plan) if stage.form.outputs == outputs)
    return next((compiler for compiler in compilers if isinstance(compiler, BehindSizes)), None)


def bind_bodies(graph: Graph, options: Options) -> None:
    """Bind the branches and loops of `graph` to the runners of their bodies."""
    for node in graph.nodes:
        function = node.attrs.get("function")
        if isinstance(function, Nested) and options.nested is not None:
            function.bind([options.nested(template).run_nested for template in function.templates])


@dataclass(slots=True)
class Staged:
    """A graph in stages: the first one is compiled; the rest is compiled in a run, which knows the shapes.

    One plan of the rest serves all sizes where their number and the dtypes are known before.
    """

    first: Compiled
    region: Region
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Options
    rest: LRU[tuple[StaticShape, ...], Runnable] = field(default_factory=lambda: LRU(MAX_STAGED_PLANS))
    functions: list[SingleFunction] = field(init=False)
    _open: PlansOfRest | None = field(init=False)

    def __post_init__(self) -> None:
        self.functions = [
            SingleFunction(StepLabel(node.name, node.op), blocking=bool(node.attrs.get("blocking")))
            for node in self.region.dynamic
        ]
        self._open = None if self.options.plans_of_rest is None else self.options.plans_of_rest()

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Run the first stage, the nodes with data-dependent shapes by their references, then the rest."""
        known: dict[str, Array] = dict(zip(self.inputs, inputs, strict=True))
        for value in self.region.constants.values():
            assert value.data is not None
            known[value.name] = value.data
        results = self.first.run(inputs, team, request)
        known.update(zip(self.region.keeps, results, strict=True))
        for node, function in zip(self.region.dynamic, self.functions, strict=True):
            function.run(partial(run_reference, node, known), team, request)
            request.check()
        if self.region.rest is not None:
            arrays = [known[value.name] for value in self.region.rest.inputs]
            plan = self._plan_rest(self.region.rest, arrays)
            results = plan.run(arrays, team, request)
            known.update(zip(self.region.rest_outputs, results, strict=True))
        return [np.array(known[name]) for name in self.outputs]

    def _plan_rest(self, rest: Graph, arrays: Sequence[Array]) -> Runnable:
        shapes = tuple(array.shape for array in arrays)
        plan = self.rest.get(shapes)
        if plan is None:
            if self._open is not None:
                outputs = tuple(value.name for value in rest.outputs)
                plan = self._open.bind(rest, lambda: self.options, shapes, outputs)
            if plan is None:
                fixed = {value.name: shape for value, shape in zip(rest.inputs, shapes, strict=True)}
                known = {
                    value.name: dtypes.from_numpy(array.dtype) for value, array in zip(rest.inputs, arrays, strict=True)
                }
                plan = compile_specialized(specialize(rest, fixed, known), self.options)
            self.rest.put(shapes, plan)
        return plan

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for part in (self.first, *self.rest.values()):
            part.trim()


def plans_of(runnable: Runnable) -> list[Plan]:
    """Return the plans of one compile, first stage first."""
    if isinstance(runnable, Staged):
        first = runnable.first.plan
        shown = replace(first, calls=[*first.calls, *map(reference_call, runnable.region.dynamic)])
        return [shown, *(plan for rest in runnable.rest.values() for plan in plans_of(rest))]
    assert isinstance(runnable, Compiled | Bound)
    plan = runnable.plan
    compilers = [stage.compiler for stage in stages_of(plan)]
    behind = (made for compiler in compilers if isinstance(compiler, BehindSizes) for made in compiler.made)
    return [plan, *(each for made in behind for each in plans_of(made))]
