"""Sessions: a model, compiled for the inputs it meets.

The stages that compile are imported when something has to be compiled: a model whose compiled form is kept on disk
is ready before they would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import _native, dtypes, knobs
from weft.codegen.apart import found_or_compiled
from weft.codegen.digests import find_digest, keep_digest
from weft.codegen.image import Image, image_key
from weft.codegen.target import detect
from weft.dtypes import DType
from weft.errors import InputError
from weft.frontends.origin import Origin
from weft.graph.graph import Graph
from weft.graph.shape import StaticShape, is_static
from weft.graph.template import Template
from weft.graph.value import Value
from weft.runtime.caps import NodeCaps, checked_caps, in_force
from weft.runtime.control import PLAIN, Request
from weft.runtime.executable import Executable
from weft.runtime.pool import Pool
from weft.runtime.providers import WEFT, provider_for
from weft.runtime.session import Runnable, SessionBase
from weft.runtime.signature import Form, Signature, Tensor

if TYPE_CHECKING:
    from weft.codegen.draft import Draft
    from weft.driver import Options
    from weft.passes.base import Math, Precision
    from weft.plan.plan import Plan

Array = np.ndarray[Any, Any]
_AT_FIRST = "Session(node_intra_op=)"
Progress = Callable[[int, int], None]
"""(kernels done, kernels in all), called while kernels are compiled."""


class Session(SessionBase):
    """A model ready to run.

    `model` is a path, the bytes of a model, an onnx.ModelProto, a TensorFlow GraphDef, a torch.nn.Module, a
    torch.export.ExportedProgram, or a weft Graph or Template. A module needs `example_inputs`, its positional arguments
    as a tuple, and may have `dynamic_shapes`, as torch.export takes them. Of a frozen TensorFlow graph `inputs` and
    `outputs` name the tensors to begin and end at ("name", "name:1"; None: its placeholders, and what no node reads).

    `intra_op` and `inter_op` limit this session's runs (None: the settings of `pool`, or of the process; 0: automatic).
    `node_intra_op` caps the workers of single nodes by name, before the model's own metadata `weft.intra_op` (0: no cap).

    `math="exact"` forbids reassociation and fast algorithms with other rounding; both are deterministic.
    `precision="bf16"` lets convolutions and products with constant weights round their factors to bf16 where the CPU has
    AVX512_BF16 (others run f32); sums stay f32. `matmul_provider` ("weft", "openblas", "mkl", "onednn"; None: as the
    process has it now) multiplies f32 and f64 matrices in all plans of this session. `progress(done, total)` is called
    while kernels are compiled.

    A model whose inputs all have fixed shapes is compiled here, others when a combination of shapes is
    first met. Raises ModelError and its kinds for a model that cannot be used, ThreadSettingError for
    impossible thread numbers, ProviderError for a provider that is unknown or not installed, InputError for another
    impossible argument.
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        intra_op: int | None = None,
        inter_op: int | None = None,
        pool: Pool | None = None,
        node_intra_op: Mapping[str, int] | None = None,
        math: Math = "fast",
        precision: Precision = "f32",
        matmul_provider: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        if math not in ("fast", "exact"):
            raise InputError(f"math: wanted 'fast' or 'exact', got {math!r}")
        if precision not in ("f32", "bf16"):
            raise InputError(f"precision: wanted 'f32' or 'bf16', got {precision!r}")
        self._caps = NodeCaps(checked_caps({} if node_intra_op is None else node_intra_op, None, _AT_FIRST))
        self._nodes: tuple[str, ...] | None = None
        self._origin = Origin(
            model,
            find=find_digest,
            keep=keep_digest,
            example_inputs=example_inputs,
            dynamic_shapes=dynamic_shapes,
            inputs=inputs,
            outputs=outputs,
        )
        self._graph: Graph | None = None
        self._draft: Draft | None = None
        provider = provider_for(matmul_provider)
        nested = partial(
            Session,
            pool=pool,
            math=math,
            precision=precision,
            matmul_provider=WEFT if provider is None else provider.name,
        )
        target = detect()
        self._options = partial(
            _options,
            target=target,
            math=math,
            progress=progress,
            nested=nested,
            precision=precision,
            provider=provider,
            caps=self._caps,
        )
        digest, path = self._origin.digest, self._origin.path
        key = kept = None
        if digest is not None and provider is None and not knobs.get("WEFT_DEBUG"):
            settings = {"math": math, "precision": precision}
            key = image_key(digest, settings, target)
            kept = found_or_compiled(model if path is None else path, key, target, settings, progress)
        self._kept = kept
        source = None
        if kept is None:
            source = self._origin.load()
            signature = signature_of(source)
            if not isinstance(source, Template):
                self._nodes = names_of(source)
        else:
            signature = kept.signature
            self._nodes = kept.nodes
        checked_caps(self._caps.get(), self._nodes, _AT_FIRST)
        compile_ = self._instantiate if isinstance(source, Template) else self._specialize
        super().__init__(signature, compile_, intra_op=intra_op, inter_op=inter_op, pool=pool)
        shapes = tuple(tensor.shape for tensor in signature.inputs)
        if not isinstance(source, Template) and all(shape is not None and is_static(shape) for shape in shapes):
            kept_under = None if source is None or source.files else key
            if kept_under is None:
                self._plans.get(shapes, signature.select(None))  # type: ignore[arg-type]
            else:
                self._compile_and_keep(kept_under, shapes)  # type: ignore[arg-type]

    def _compile_and_keep(self, key: str, shapes: Sequence[StaticShape]) -> None:
        """Compile for the input `shapes`, and keep what came of it on disk under `key`."""
        from weft.codegen.draft import Draft
        from weft.driver import Compiled

        with closing(Draft(key)) as self._draft:
            runnable = self._plans.get(tuple(shapes), self._signature.select(None))
            if isinstance(runnable, Compiled) and self._origin.is_unchanged():
                self._draft.keep(Image(self._signature, runnable.executable, self._nodes or ()))
        self._draft = None

    @property
    def graph(self) -> Graph:
        """The model's graph as the front end made it; of a Template, that for the inputs met last.

        Raises InputError for a Template that has met no inputs yet, ModelError if the graph was not needed before and
        the model's file is another one by now.
        """
        if self._graph is None:
            source = self._origin.load()
            if isinstance(source, Template):
                raise InputError(
                    "the model has no graph before it meets inputs: its dtypes and shapes follow from theirs"
                )
            self._graph = source
        return self._graph

    @property
    def node_intra_op(self) -> dict[str, int]:
        """The caps on single nodes that this session asks for, by name."""
        return self._caps.get()

    def set(
        self,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        node_intra_op: Mapping[str, int] | None = None,
    ) -> None:
        """Change the limits of this session's runs, and the caps on single nodes; None leaves them, 0 is automatic.

        `node_intra_op` takes the place of all caps asked for before, so that {} leaves the model's own. Any thread, any
        time; runs in progress have caps, and limits where they ask for none of their own, from their next op on.
        Raises ThreadSettingError, and then changes nothing, for what is impossible or names no node.
        """
        caps = (
            None if node_intra_op is None else checked_caps(node_intra_op, self._nodes, "Session.set(node_intra_op=)")
        )
        super().set(intra_op=intra_op, inter_op=inter_op)
        if caps is not None:
            self._caps.set(caps)

    def _specialize(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        kept, self._kept = self._kept, None
        if kept is None:
            return self._compile(forms, outputs)
        self._caps.follow(kept.executable)
        return Restored(kept.executable, partial(self._compile, forms, outputs))

    def _compile(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from weft.driver import compile_for

        options = self._options(draft=self._draft)
        return compile_for(self.graph, options, [_shape_of(form) for form in forms], outputs)

    def _instantiate(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from weft.driver import compile_for

        template = self._origin.load()
        assert isinstance(template, Template)
        told = [(_dtype_of(form, value), _shape_of(form)) for value, form in zip(template.inputs, forms, strict=True)]
        self._graph = graph = template.build(told)
        self._nodes = names_of(graph)
        checked_caps(self._caps.get(), self._nodes, _AT_FIRST)
        return compile_for(graph, self._options(), [shape for _, shape in told], outputs)

    def plans(self) -> list[Plan]:
        """The plans compiled so far, the latest used last; a graph cut by data-dependent shapes has several.

        A model that was found on disk in its compiled form has its plan made anew to be shown.
        """
        return self._shown(self._plans.all())

    def plans_for(self, inputs: Mapping[str, Any]) -> list[Plan]:
        """The plans by which `inputs` are run, compiled now if need be (and run, where shapes depend on data)."""
        self.run(inputs)
        return self._shown(self._plans.all()[-1:])

    def _shown(self, runnables: Sequence[Runnable]) -> list[Plan]:
        plans = [plan for runnable in runnables for plan in plans_of(runnable)]
        asked = self._caps.get()
        return [
            replace(plan, calls=[replace(call, caps=in_force(call.caps, asked)) for call in plan.calls])
            for plan in plans
        ]


@dataclass(slots=True)
class Restored:
    """An executable from disk. `compile_` makes it again, for those who ask how it works."""

    executable: Executable
    compile_: Callable[[], Runnable]
    _shown: Runnable | None = None

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()

    def shown(self) -> Runnable:
        """The same, compiled in this process."""
        if self._shown is None:
            self._shown = self.compile_()
        return self._shown


def _options(**settings: Any) -> Options:
    from weft.driver import Options

    return Options(**settings)


def plans_of(runnable: Runnable) -> list[Plan]:
    """The plans of one compilation, first stage first."""
    from weft import driver

    return driver.plans_of(runnable.shown() if isinstance(runnable, Restored) else runnable)


def names_of(graph: Graph) -> tuple[str, ...]:
    """The names of the nodes."""
    return tuple(node.name for node in graph.nodes)


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
