"""The driver: model to Graph to Plan to Executable. The one module that sees every stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weft import _native, dtypes
from weft.codegen import target as targets
from weft.codegen.assemble import assemble
from weft.dtypes import DType
from weft.errors import InputError, RunCancelledError, RunError, RunTimeoutError, ThreadSettingError, WeftError
from weft.frontends import load
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.graph.shape import StaticShape, is_static
from weft.graph.template import Template
from weft.graph.value import Value
from weft.ops.call import Body, Nested
from weft.ops.table import OPS
from weft.passes.base import Math, PassContext
from weft.passes.make_plan import make_plan
from weft.passes.pipeline import infer, optimize
from weft.passes.regions import Region, first_region
from weft.passes.specialize import copy_graph, specialize
from weft.plan.plan import Plan
from weft.plan.target import Target
from weft.runtime.control import PLAIN, Request, inside
from weft.runtime.executable import Executable
from weft.runtime.limits import checked
from weft.runtime.pool import Pool
from weft.runtime.session import Runnable, SessionBase
from weft.runtime.signature import Form, Signature, Tensor

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int], None]
"""(kernels done, kernels in all), called while kernels are compiled."""

MAX_STAGED_PLANS = 16
"""How many plans are kept for the part of a graph behind a data-dependent shape."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: for which machine, with which mathematics."""

    target: Target
    math: Math = "fast"
    progress: Progress | None = None
    nested: Callable[[Any], Session] | None = None
    """Makes the sessions that bodies of branches and loops run in."""


class Session(SessionBase):
    """A model ready to run.

    `model` is a path, the bytes of a model, an onnx.ModelProto, a torch.nn.Module, a torch.export.ExportedProgram, or a
    weft Graph or Template. A module needs `example_inputs`, its positional arguments as a tuple, and may have
    `dynamic_shapes`, as torch.export takes them. `intra_op` and `inter_op` limit this session's runs (None: the settings of `pool`, or of the process; 0: automatic). `node_intra_op`
    caps the workers of single nodes by name, as the model's own metadata `weft.intra_op` does. `math="exact"` forbids
    reassociation and fast algorithms with other rounding; both are deterministic. `progress(done, total)`
    is called while kernels are compiled.

    A model whose inputs all have fixed shapes is compiled here, others when a combination of shapes is
    first met. Raises ModelError and its kinds for a model that cannot be used, ThreadSettingError for
    impossible thread numbers.
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        pool: Pool | None = None,
        node_intra_op: Mapping[str, int] | None = None,
        math: Math = "fast",
        progress: Progress | None = None,
    ) -> None:
        if math not in ("fast", "exact"):
            raise WeftError(f"math: wanted 'fast' or 'exact', got {math!r}")
        source = load(model, example_inputs, dynamic_shapes)
        self._node_intra_op = node_intra_op
        self._graph: Graph | None = None
        if isinstance(source, Graph):
            self._graph = self._capped(source)
        nested = partial(Session, intra_op=intra_op, inter_op=inter_op, pool=pool, math=math)
        self._options = Options(targets.detect(), math, progress, nested)
        compile_ = self._instantiate if isinstance(source, Template) else self._specialize
        self._source = source
        super().__init__(signature_of(source), compile_, intra_op=intra_op, inter_op=inter_op, pool=pool)
        shapes = tuple(value.shape for value in source.inputs)
        if isinstance(source, Graph) and all(shape is not None and is_static(shape) for shape in shapes):
            self._plans.get(shapes, self._signature.select(None))  # type: ignore[arg-type]

    @property
    def graph(self) -> Graph:
        """The model's graph as the front end made it; of a Template, that for the inputs met last.

        Raises InputError for a Template that has met no inputs yet.
        """
        if self._graph is None:
            raise InputError("the model has no graph before it meets inputs: its dtypes and shapes follow from theirs")
        return self._graph

    def _capped(self, graph: Graph) -> Graph:
        return graph if self._node_intra_op is None else capped(graph, self._node_intra_op)

    def _specialize(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        return compile_for(self.graph, self._options, [_shape_of(form) for form in forms], outputs)

    def _instantiate(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        assert isinstance(self._source, Template)
        told = [
            (_dtype_of(form, value), _shape_of(form)) for value, form in zip(self._source.inputs, forms, strict=True)
        ]
        self._graph = graph = self._capped(self._source.build(told))
        return compile_for(graph, self._options, [shape for _, shape in told], outputs)

    def plans(self) -> list[Plan]:
        """The plans compiled so far, the latest used last; a graph cut by data-dependent shapes has several."""
        return [plan for runnable in self._plans.all() for plan in plans_of(runnable)]

    def plans_for(self, inputs: Mapping[str, Any]) -> list[Plan]:
        """The plans by which `inputs` are run, compiled now if need be (and run, where shapes depend on data)."""
        self.run(inputs)
        return plans_of(self._plans.all()[-1])


def capped(graph: Graph, caps: Mapping[str, int]) -> Graph:
    """A copy of `graph` in which the named nodes are shared by so many workers at most (0: as the run has it).

    A node that became several has them named `<name>` or `<name>/...`. Raises ThreadSettingError for an impossible
    number or a name that no node has.
    """
    copy = copy_graph(graph)
    for name, value in caps.items():
        cap = checked("intra_op", value, f"Session(node_intra_op=) for node {name!r}")
        found = [node for node in copy.nodes if node.name == name or node.name.startswith(f"{name}/")]
        if not found:
            names = sorted({node.name for node in copy.nodes})
            raise ThreadSettingError(
                f"intra_op from Session(node_intra_op=): no node of the model is named {name!r}; "
                f"its {len(names)} nodes are {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}"
            )
        for node in found:
            node.max_workers = cap
    return copy


def _shape_of(form: Form) -> StaticShape:
    return form[1] if form and isinstance(form[0], np.dtype) else form


def _dtype_of(form: Form, value: Value) -> DType:
    return dtypes.from_numpy(form[0]) if form and isinstance(form[0], np.dtype) else value.known_dtype


def signature_of(graph: Graph | Template) -> Signature:
    """What a session of `graph` takes and gives."""

    def tensor(value: Value) -> Tensor:
        if value.dtype is None and isinstance(graph, Template):
            return Tensor(value.name, None, value.shape)
        dtype = value.dtype if value.dtype is not None else dtypes.f32
        return Tensor(value.name, dtype.numpy, value.shape)

    return Signature(tuple(map(tensor, graph.inputs)), tuple(map(tensor, graph.outputs)))


def compile_for(graph: Graph, options: Options, shapes: Sequence[StaticShape], outputs: Sequence[str]) -> Runnable:
    """Compile `graph` for concrete input `shapes` and the named `outputs`."""
    bound = specialize(graph, {value.name: shape for value, shape in zip(graph.inputs, shapes, strict=True)})
    by_name = dict(zip((value.name for value in graph.outputs), bound.outputs, strict=True))
    bound.outputs = [by_name[name] for name in outputs]
    return compile_specialized(bound, options)


def compile_specialized(graph: Graph, options: Options) -> Runnable:
    """Compile a graph whose inputs have concrete shapes; where shapes depend on data, in stages."""
    bind_bodies(graph, options)
    context = PassContext(options.target, options.math)
    infer(graph, context)
    region = first_region(graph)
    optimize(region.graph, context)
    plan = make_plan(region.graph, options.target, options.math)
    compiled = Compiled(plan, assemble(plan, options.progress))
    if region.graph is graph:
        return compiled
    inputs = tuple(value.name for value in graph.inputs)
    return Staged(compiled, region, inputs, tuple(value.name for value in graph.outputs), options)


def bind_bodies(graph: Graph, options: Options) -> None:
    """Give the branches and loops of `graph` what runs their bodies."""
    for node in graph.nodes:
        function = node.attrs.get("function")
        if isinstance(function, Nested) and options.nested is not None:
            function.bind([_body(options.nested(template)) for template in function.templates])


def _body(session: Session) -> Body:
    names = [tensor.name for tensor in session.inputs]
    return lambda arrays: list(session.run(dict(zip(names, arrays, strict=True))).values())


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan and the executable made of it."""

    plan: Plan
    executable: Executable

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()


@dataclass(slots=True)
class Staged:
    """A graph cut where a shape depends on data: the first part is compiled, the rest once shapes are known."""

    first: Compiled
    region: Region
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Options
    rest: dict[tuple[StaticShape, ...], Runnable] = field(default_factory=dict)

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Run the first part, the nodes with data-dependent shapes by their references, then the rest."""
        known: dict[str, Array] = dict(zip(self.inputs, inputs, strict=True))
        for value in self.region.constants.values():
            assert value.data is not None
            known[value.name] = value.data
        results = self.first.run(inputs, team, request)
        known.update(zip(self.region.keeps, results, strict=True))
        for node in self.region.dynamic:
            with inside(request):
                run_reference(node, known)
        if self.region.rest is not None:
            arrays = [known[value.name] for value in self.region.rest.inputs]
            plan = self._plan_rest(self.region.rest, arrays)
            results = plan.run(arrays, team, request)
            known.update(zip(self.region.rest_outputs, results, strict=True))
        return [np.array(known[name]) for name in self.outputs]

    def _plan_rest(self, rest: Graph, arrays: Sequence[Array]) -> Runnable:
        shapes = tuple(array.shape for array in arrays)
        found = self.rest.get(shapes)
        if found is None:
            bound = {value.name: shape for value, shape in zip(rest.inputs, shapes, strict=True)}
            if len(self.rest) >= MAX_STAGED_PLANS:
                self.rest.pop(next(iter(self.rest)))
            known = {
                value.name: dtypes.from_numpy(array.dtype) for value, array in zip(rest.inputs, arrays, strict=True)
            }
            found = self.rest[shapes] = compile_specialized(specialize(rest, bound, known), self.options)
        return found

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for part in (self.first, *self.rest.values()):
            part.trim()


def run_reference(node: Node, known: dict[str, Array]) -> None:
    """Run `node` by its NumPy reference; operands are constants or in `known`, where the results go."""
    operands = [
        None if value is None else value.data if value.data is not None else known[value.name] for value in node.inputs
    ]
    try:
        evaluate = OPS[node.op].evaluate
        results = evaluate(node.attrs, operands) if evaluate else node.attrs["function"](operands)
    except (RunTimeoutError, RunCancelledError):
        raise
    except WeftError as error:
        raise RunError(f"node {node.name!r} ({node.op}): {error}") from error
    except Exception as error:
        raise RunError(f"node {node.name!r} ({node.op}) raised {type(error).__name__}: {error}") from error
    known.update(
        (value.name, np.asarray(result, order="C")) for value, result in zip(node.outputs, results, strict=True)
    )


def plans_of(runnable: Runnable) -> list[Plan]:
    """The plans of one compilation, first stage first."""
    if isinstance(runnable, Staged):
        return [runnable.first.plan, *(plan for rest in runnable.rest.values() for plan in plans_of(rest))]
    assert isinstance(runnable, Compiled)
    return [runnable.plan]
